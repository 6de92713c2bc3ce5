//! Parts that a configuration or a running server may have many of, and configurations with a given number of them.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

use crate::error::{Error, ErrorContext, Result};

/// A part that a server may have many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Blocks `server`, each with its name.
    Servers,
    /// Prefix locations of one server.
    Locations,
    /// Servers of an `upstream` block.
    UpstreamServers,
    /// Responses in a cache.
    CacheObjects,
    /// Idle connections, beside those that are measured.
    Connections,
    /// Servers with a certificate each, at one address.
    Certificates,
    /// Zones of `limit_req`, each with its location.
    Zones,
}

/// The table of names of servers, which nginx wants to be told of.
const NAMES: &str = "server_names_hash_max_size 1048576; server_names_hash_bucket_size 128;\n";

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; 7] = [
        Dimension::Servers,
        Dimension::Locations,
        Dimension::UpstreamServers,
        Dimension::CacheObjects,
        Dimension::Connections,
        Dimension::Certificates,
        Dimension::Zones,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Servers => "servers",
            Dimension::Locations => "locations",
            Dimension::UpstreamServers => "upstream servers",
            Dimension::CacheObjects => "cache objects",
            Dimension::Connections => "idle connections",
            Dimension::Certificates => "certificates",
            Dimension::Zones => "zones of limit_req",
        }
    }

    /// The numbers that are measured. A process has 20,000 descriptors on many machines, each certificate and zone takes
    /// long to make, and nginx needs more than a minute to start with 100,000 locations.
    pub fn counts(self, quick: bool) -> &'static [usize] {
        match self {
            _ if quick => &[10, 100],
            Dimension::Locations | Dimension::Connections | Dimension::Certificates | Dimension::Zones => {
                &[10, 1_000, 10_000]
            }
            _ => &[10, 1_000, 100_000],
        }
    }

    /// The path that is requested, and the name of the host, with `%d` in the place of a number below the count.
    pub fn request(self) -> (&'static str, &'static str) {
        match self {
            Dimension::Servers => ("/", "h%d.example"),
            Dimension::Locations => ("/l%d/", "bench"),
            Dimension::Zones => ("/l%d", "bench"),
            Dimension::CacheObjects => ("/c%d", "bench"),
            Dimension::UpstreamServers | Dimension::Certificates => ("/", "bench"),
            Dimension::Connections => ("/1k.bin", "bench"),
        }
    }

    /// The configuration with `count` of them: text as [`Spec::whole`](crate::spec::Spec::whole) has it. `root` has the
    /// files, `certificates` the folder of certificates, and a server behind is at the port `upstream` of all
    /// loopback addresses.
    pub fn configuration(self, count: usize, root: &Path, certificates: &Path, upstream: u16) -> String {
        let mut http = String::new();
        let root = root.display();
        // Writing to a text does not fail.
        let mut add = |text: std::fmt::Arguments<'_>| {
            let _ = http.write_fmt(text);
        };
        match self {
            Dimension::Servers => {
                add(format_args!("{NAMES}"));
                for n in 0..count {
                    add(format_args!("server {{ listen @ADDRESS@; server_name h{n}.example; return 200 OK; }}\n"));
                }
            }
            Dimension::Locations => {
                add(format_args!("server {{ listen @ADDRESS@;\n"));
                for n in 0..count {
                    add(format_args!("location /l{n}/ {{ return 200 OK; }}\n"));
                }
                add(format_args!("}}\n"));
            }
            Dimension::UpstreamServers => {
                add(format_args!("upstream back {{\n"));
                for n in 0..count {
                    add(format_args!("server {}:{upstream};\n", loopback(n)));
                }
                add(format_args!(
                    "keepalive 64;\n}}\nserver {{ listen @ADDRESS@; location / {{ proxy_pass http://back; \
                     proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}\n"
                ));
            }
            Dimension::CacheObjects => add(format_args!(
                "proxy_cache_path @DIR@/cache levels=1:2 keys_zone=c:64m max_size=4g inactive=1h;\n\
                 upstream back {{ server 127.0.0.1:{upstream}; keepalive 64; }}\nserver {{ listen @ADDRESS@; location / {{ \
                 proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_cache c; \
                 proxy_cache_valid 200 1h; }} }}\n"
            )),
            Dimension::Connections => add(format_args!("server {{ listen @ADDRESS@; root {root}; }}\n")),
            Dimension::Certificates => {
                let folder = certificates.display();
                add(format_args!("{NAMES}ssl_protocols TLSv1.2 TLSv1.3;\n"));
                for n in 0..count {
                    let name = if n == count / 2 { "bench".to_owned() } else { format!("h{n}.example") };
                    add(format_args!(
                        "server {{ listen @ADDRESS@ ssl; server_name {name}; ssl_certificate {folder}/{n}.crt; \
                         ssl_certificate_key {folder}/{n}.key; return 200 OK; }}\n"
                    ));
                }
            }
            Dimension::Zones => {
                for n in 0..count {
                    add(format_args!("limit_req_zone $binary_remote_addr zone=z{n}:32k rate=100000r/s;\n"));
                }
                add(format_args!("server {{ listen @ADDRESS@;\n"));
                for n in 0..count {
                    add(format_args!(
                        "location = /l{n} {{ limit_req zone=z{n} burst=10000 nodelay; alias {root}/1k.bin; }}\n"
                    ));
                }
                add(format_args!("}}\n"));
            }
        }
        format!(
            "worker_processes 1;\nevents {{ worker_connections 19000; }}\nhttp {{\naccess_log off;\n\
             keepalive_timeout 600s;\nkeepalive_requests 1000000000;\n@TEMPORARY@{http}}}\n"
        )
    }
}

/// A loopback address of its own for each number.
fn loopback(number: usize) -> Ipv4Addr {
    let [_, high, middle, low] = (number as u32).to_be_bytes();
    Ipv4Addr::new(127, 1 + high, middle, low)
}

/// Makes certificates with the numbers below `count` in a folder, each with a key of its own, as far as they are missing.
pub fn certificates(folder: &Path, count: usize) -> Result<()> {
    let failed = |error: rcgen::Error| Error::Setup(format!("no certificate: {error}"));
    for n in 0..count {
        let (certificate, key) = (folder.join(format!("{n}.crt")), folder.join(format!("{n}.key")));
        if certificate.is_file() {
            continue;
        }
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let names = vec!["bench".to_owned(), format!("h{n}.example")];
        let made = CertificateParams::new(names).and_then(|params| params.self_signed(&pair)).map_err(failed)?;
        fs::write(&key, pair.serialize_pem()).doing(key.display())?;
        fs::write(&certificate, made.pem()).doing(certificate.display())?;
    }
    Ok(())
}
