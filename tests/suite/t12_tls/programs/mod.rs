//! Clients that people use: curl, GnuTLS, and the libraries of Python, Node, Go and Java, each with its own implementation or
//! its own use of TLS.
//!
//! Each does the same: over one connection it asks what the server knows of the session, fetches 4 MB, sends a body and asks
//! again; then it connects anew and shows whether the session was resumed. It prints what it got, a line for each.

mod commands;
mod scripts;

use std::process::{Command, Stdio};

use freerun_testkit::{Setup, Site, TestServer, TlsVersion, certificates, require};

/// How long a client may take, in seconds. A toolchain that compiles first needs some of them.
const SECONDS: &str = "120";

/// The body that is sent.
const BODY: &str = "a body that comes back as it was sent";

/// The certificates of servers, one for each kind of key.
const KEYS: [&str; 2] = ["rsa", "ec"];

/// Bytes that do not repeat in steps of a power of two.
fn large() -> Vec<u8> {
    (0..4_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A server with this certificate, which asks for one. A body that is sent to `/echo` comes back.
fn server(site: &Site, certificate: &str) -> TestServer {
    site.file("large", large());
    Setup::new()
        .root(site)
        .http(&format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; root @ROOT@;
                       ssl_certificate @CERTS@/{certificate}.crt; ssl_certificate_key @CERTS@/{certificate}.key;
                       ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:programs:1m;
                       ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt;
                       location /tell {{ return 200 '$ssl_protocol $ssl_client_verify $ssl_session_reused $connection_requests'; }}
                       location /close {{ keepalive_timeout 0; return 200 closing; }}
                       location /echo {{ proxy_set_header X-Body $request_body; proxy_pass http://127.0.0.1:@PORT2@; }} }}
             server {{ listen 127.0.0.1:@PORT2@; return 200 $http_x_body; }}"
        ))
        .run()
}

/// Runs `command` for [`SECONDS`] at most, with this input. Returns what it has printed.
#[track_caller]
fn output(command: &Command) -> String {
    let mut bounded = Command::new("timeout");
    bounded.arg(SECONDS).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    let envs = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let output = bounded.envs(envs).output().expect("the command timeout");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The digest of the 4 MB, as clients print it.
fn digest(site: &Site) -> String {
    let path = site.path().join("large");
    let output = Command::new("sha256sum").arg(path).output().expect("sha256sum");
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().expect("a digest").to_owned()
}

/// How a version is called by `$ssl_protocol`.
fn shown(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V12 => "TLSv1.2",
        TlsVersion::V13 => "TLSv1.3",
    }
}

/// Runs the client that `make` gives for a port and a version, with every kind of key and version.
#[track_caller]
fn talk(make: impl Fn(u16, TlsVersion) -> Command) {
    let site = Site::new();
    for certificate in KEYS {
        let server = server(&site, certificate);
        for version in TlsVersion::ALL {
            let name = shown(version);
            let expected =
                format!("{name} SUCCESS . 1\n{}\n{BODY}\n{name} SUCCESS . 4\n{name} SUCCESS r 1\n", digest(&site));
            let got = output(&make(server.port(), version));
            assert_eq!(got, expected, "{certificate}, {name}\n{}", server.error_log());
        }
    }
}
