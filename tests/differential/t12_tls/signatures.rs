//! How handshakes are signed, and which suite is chosen, where `ssl_conf_command` has a say in it: what OpenSSL's client reports.

use crate::runner::{both, start};
use freerun_testkit::{Setup, TestServer, TestUpstream, TlsServer, certificates, ok};
use std::process::{Command, Stdio};

/// The lines of OpenSSL's client that tell how the handshake went.
const TELLING: [&str; 5] =
    ["Peer signing digest", "Peer signature type", "Requested Signature Algorithms", "New, ", "Verification"];

/// What OpenSSL's client tells of a handshake with these arguments. If it fails, that is all: in TLS 1.3 the suite may be told
/// before the server finds that it cannot sign.
fn told(server: &TestServer, arguments: &[&str]) -> Vec<String> {
    let folder = certificates().folder();
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &server.address().to_string(), "-servername", "localhost"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("\nPeer signing digest") {
        return vec!["no session".to_owned()];
    }
    text.lines().filter(|line| TELLING.iter().any(|telling| line.starts_with(telling))).map(str::to_owned).collect()
}

/// A server with certificates of RSA and ECDSA, and with these lines.
fn server(lines: &str) -> Setup {
    Setup::new().http(&format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost;
                   ssl_certificate @CERTS@/rsa.crt; ssl_certificate_key @CERTS@/rsa.key;
                   ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                   ssl_protocols TLSv1.2 TLSv1.3; {lines} location / {{ return 200 yes; }} }}"
    ))
}

/// Both servers with these lines let OpenSSL's client tell the same with each of these arguments, in both versions.
fn compare(lines: &str, visits: &[&[&str]]) {
    let setup = server(lines);
    let Some(servers) = start(&setup) else { return };
    for visit in visits {
        for version in ["-tls1_2", "-tls1_3"] {
            let arguments: Vec<_> = visit.iter().copied().chain([version]).collect();
            let told = servers.each(|server| told(server, &arguments));
            assert!(!told.nginx.is_empty());
            told.assert_same(format_args!("{lines} {arguments:?}"));
        }
    }
}

#[test]
fn servers_sign_by_the_algorithms_of_the_command() {
    for algorithms in ["RSA-PSS+SHA384", "RSA-PSS+SHA256:ECDSA+SHA256", "ECDSA+SHA256", "ECDSA+SHA384:RSA+SHA512"] {
        compare(
            &format!("ssl_conf_command SignatureAlgorithms {algorithms};"),
            &[
                &["-sigalgs", "RSA-PSS+SHA384:ECDSA+SHA256"],
                &["-sigalgs", "ECDSA+SHA256"],
                &["-sigalgs", "RSA-PSS+SHA256"],
                &["-sigalgs", "RSA+SHA512:RSA-PSS+SHA512"],
            ],
        );
    }
}

#[test]
fn clients_are_asked_for_the_algorithms_of_the_commands() {
    let asks = "ssl_verify_client optional; ssl_client_certificate @CERTS@/ca.crt;";
    for commands in [
        "ssl_conf_command ClientSignatureAlgorithms ECDSA+SHA256:RSA-PSS+SHA256;",
        "ssl_conf_command ClientSignatureAlgorithms RSA-PSS+SHA512; ssl_conf_command SignatureAlgorithms ECDSA+SHA256;",
        "ssl_conf_command SignatureAlgorithms ECDSA+SHA256:RSA-PSS+SHA256;",
    ] {
        let client: &[&str] = &["-cert", "client.crt", "-key", "client.key"];
        let rsa: &[&str] = &["-cert", "client-rsa.crt", "-key", "client-rsa.key"];
        compare(&format!("{asks} {commands}"), &[client, rsa]);
    }
}

#[test]
fn chacha_comes_first_for_clients_that_like_it_best() {
    let order = "ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;";
    let suites: [&[&str]; 4] = [
        &[
            "-cipher",
            "ECDHE+CHACHA20:ECDHE+AESGCM",
            "-ciphersuites",
            "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
        ],
        &[
            "-cipher",
            "ECDHE+AESGCM:ECDHE+CHACHA20",
            "-ciphersuites",
            "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256",
        ],
        &["-cipher", "ECDHE+CHACHA20", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"],
        &["-cipher", "AES128-SHA:ECDHE+CHACHA20:ECDHE+AESGCM"],
    ];
    for lines in [
        "ssl_prefer_server_ciphers on; ssl_conf_command Options PrioritizeChaCha;",
        "ssl_conf_command Options PrioritizeChaCha;",
        "ssl_conf_command Options ServerPreference,PrioritizeChaCha;",
        "ssl_prefer_server_ciphers on; ssl_conf_command Options -PrioritizeChaCha;",
    ] {
        compare(&format!("{order} {lines}"), &suites);
    }
}

#[test]
fn upstream_servers_sign_by_the_algorithms_of_the_command() {
    for (name, algorithms, works) in [
        ("rsa", "RSA-PSS+SHA256", true),
        ("rsa", "ECDSA+SHA256", false),
        ("ec", "ECDSA+SHA256:RSA-PSS+SHA256", true),
        ("ec", "RSA-PSS+SHA256", false),
    ] {
        both(|kind| {
            let upstream = TestUpstream::tls(TlsServer::new(name)).answer(|_| ok("yes"));
            let server = Setup::new()
                .http(&format!(
                    "server {{ listen 127.0.0.1:@PORT@;
                               location / {{ proxy_pass https://{}; proxy_ssl_protocols TLSv1.2 TLSv1.3;
                                             proxy_ssl_conf_command SignatureAlgorithms {algorithms}; }} }}",
                    upstream.address()
                ))
                .start(kind);
            let status = server.get("/").status;
            assert_eq!(status, if works { 200 } else { 502 }, "{kind:?} {name} {algorithms}");
        });
    }
}
