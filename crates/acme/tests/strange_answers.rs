//! CAs that answer strangely, or not as a CA: the client notes a failure, and goes on.

mod sender;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use freerun_acme::{
    Acme, CertificateSettings, CertificateStatus, Challenge, Host, Identifier, IssuerSettings, KeyKind, Level, Pair,
};
use freerun_testkit::eventually;

/// A server that has no use for certificates, but a log.
#[derive(Default)]
struct Server(Mutex<Vec<String>>);

impl Host for Server {
    fn log(&self, _: Level, line: &str) {
        self.0.lock().expect("no panic in another thread").push(line.to_owned());
    }

    fn http_client(&self) -> Option<freerun_serve::http_client::RemoteClient> {
        Some(sender::http_client())
    }

    fn publish(&self, _: &Challenge) -> Result<(), String> {
        Ok(())
    }

    fn withdraw(&self, _: &Challenge) {}

    fn issued(&self, _: &CertificateSettings, _: &Pair) {}
}

fn issuer(uri: &str) -> IssuerSettings {
    IssuerSettings { accepts_terms: true, ..IssuerSettings::new("strange", uri) }
}

fn certificates() -> [CertificateSettings; 2] {
    ["a.example", "b.example"].map(|name| CertificateSettings {
        issuer: "strange".to_owned(),
        identifiers: vec![Identifier::Dns(name.to_owned())],
        key: KeyKind::EcdsaP256,
    })
}

/// Asks a CA that answers everything with these bytes for two certificates, and gives what became of them and the lines
/// of the log.
fn asked(answer: impl Into<Vec<u8>>) -> (Vec<CertificateStatus>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!("http://{}/directory", listener.local_addr().expect("an address"));
    let answer = answer.into();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            // The client may have had enough.
            let _ = stream.write_all(&answer);
        }
    });
    let server = Arc::new(Server::default());
    let acme = Acme::new(server.clone());
    acme.update(vec![issuer(&uri)], certificates().to_vec()).expect("a thread");
    eventually("both have failed", || acme.status().iter().all(|status| status.last_error.is_some()));
    let status = acme.status();
    acme.stop();
    let lines = server.0.lock().expect("no panic in another thread").clone();
    (status, lines)
}

fn error(answer: impl Into<Vec<u8>>) -> String {
    let (status, _) = asked(answer);
    status[0].last_error.clone().expect("a failure")
}

fn response(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_failure_of_the_ca_is_in_the_log_once_and_its_pause_is_kept() {
    let (status, lines) = asked(response("503 Busy\r\nRetry-After: 7200", "come back later"));
    for status in &status {
        let next = status.next_attempt.expect("another attempt").duration_since(SystemTime::now()).expect("later");
        assert!((Duration::from_secs(7000)..=Duration::from_secs(7200)).contains(&next), "{next:?}");
    }
    let failures = lines.iter().filter(|line| line.contains("no certificate")).count();
    assert_eq!(failures, 1, "{lines:?}");
}

#[test]
fn a_directory_of_nonsense_is_a_failure() {
    assert!(error(response("200 OK", "<html>")).contains("JSON"));
    assert!(error(response("200 OK", r#"{"newNonce":"https://a/","newAccount":"b"}"#)).contains("JSON"));
    let url = r#"{"newNonce":"no url","newAccount":"no url","newOrder":"no url"}"#;
    assert!(error(response("200 OK", url)).contains("panic"));
}

#[test]
fn a_response_without_end_is_a_failure() {
    let body = error(format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(2 << 20)));
    assert!(body.contains("length limit exceeded"), "{body}");
    let head = error(format!("HTTP/1.1 200 OK\r\nX: {}", "a".repeat(1 << 20)));
    assert!(head.contains("directory: "), "{head}");
    assert!(error("").contains("directory: "));
}

#[test]
fn a_client_that_is_told_to_end_gives_up_its_orders() {
    let ca = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Arc::new(Server::default());
    let acme = Acme::new(server.clone());
    let wanted =
        || (vec![issuer(&format!("http://{}/", ca.local_addr().expect("an address")))], certificates().to_vec());
    let update = |acme: &Acme| {
        let (issuers, certificates) = wanted();
        acme.update(issuers, certificates).expect("a thread");
        ca.accept().expect("a connection").0
    };
    let mut first = update(&acme);
    acme.end();
    first.read_to_end(&mut Vec::new()).expect("the connection is closed");
    // Another thread goes on where it is wanted after all.
    let mut second = update(&acme);
    acme.end();
    acme.stop();
    second.read_to_end(&mut Vec::new()).expect("the connection is closed");
    eventually("both threads have ended", || Arc::strong_count(&server) == 2);
}
