//! TLS without a byte stream: variables and the verification of certificates read the facts of the session alone.

use super::{Client, Server, WIDE};
use freerun_serve::tls::agreed_session::AgreedSession;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_tls::load::Chain;
use freerun_tls::session::TlsVersion;

/// The path of a fixture of the crate `freerun-tls`.
fn fixture(name: &str) -> String {
    format!("{}/../tls/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The facts of a session in which the client has shown this certificate. Nobody has verified it.
fn facts(certificate: &str) -> TlsFacts {
    let pem = std::fs::read(fixture(certificate)).unwrap();
    let facts = TlsFacts::new(Some(b"localhost".as_slice().into()), None);
    facts.establish(AgreedSession {
        version: TlsVersion::Tls13,
        cipher: "TLS_AES_128_GCM_SHA256",
        group: "X25519",
        alpn: Some(b"h3".as_slice().into()),
        is_resumed: false,
        session_id: None,
        is_early: false,
        origin: None,
        shown: None,
        certificates: Some(Chain::from_pem(&pem).unwrap().to_der().into()),
    });
    facts
}

#[test]
fn variables_and_verification_need_no_byte_stream() {
    let text = format!(
        "log_format f '$https $ssl_protocol $ssl_cipher $ssl_curve $ssl_alpn_protocol $ssl_server_name $ssl_session_reused \
                       $ssl_early_data $ssl_client_verify $ssl_client_s_dn $status';
         access_log all f;
         server {{ listen 8080 ssl; ssl_certificate {}; ssl_certificate_key {}; ssl_verify_client on;
                   ssl_client_certificate {}; return 204; }}",
        fixture("rsa.crt"),
        fixture("rsa.key"),
        fixture("ec.crt"),
    );
    let (server, mut logs) = Server::start(&text);
    let mut trusted = Client::connect_with_tls(&server, WIDE, facts("ec.crt"));
    trusted.ask(1, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(trusted.answer(1).status, 204);
    let agreed = "on TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 h3 localhost .";
    assert_eq!(logs[0].line(), format!("{agreed} - SUCCESS CN=localhost 204"));
    let mut stranger = Client::connect_with_tls(&server, WIDE, facts("ed25519.crt"));
    stranger.ask(1, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(stranger.answer(1).status, 400);
    let line = logs[0].line();
    assert!(line.starts_with(&format!("{agreed} - FAILED:")) && line.ends_with(" 400"), "{line}");
    server.stop();
}
