//! Certificates from a CA by ACME, which takes no reload.

use super::pebble::Ca;
use freerun_testkit::{Dns, DnsReply, Setup, TestClient, TestServer, Tls, certificates, eventually, require};
use rustix::process::Signal;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// The certificate that is shown to this client.
fn shown(server: &TestServer, tls: &Tls) -> Vec<u8> {
    server.connect_tls(tls).agreed().certificates[0].clone()
}

/// Whether a text is in a certificate, such as the name of its issuer.
fn says(certificate: &[u8], text: &str) -> bool {
    certificate.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Waits until the server shows a certificate of the CA, and gives that.
#[track_caller]
fn comes(server: &TestServer, tls: &Tls) -> Vec<u8> {
    eventually("a certificate of the CA", || says(&shown(server, tls), "Pebble Intermediate CA"));
    shown(server, tls)
}

/// One that nobody has issued.
fn is_temporary(certificate: &[u8]) -> bool {
    says(certificate, "freerun temporary certificate")
}

const USED: &str = "ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key;";

/// The JSON about the first certificate.
fn status(server: &TestServer) -> serde_json::Value {
    let mut client = server.connect_tls(&Tls::new());
    let status: serde_json::Value = serde_json::from_slice(&client.get("/status").body).expect("JSON");
    status["acme"][0].clone()
}

#[test]
fn a_certificate_comes_by_a_page_though_the_server_redirects_everything() {
    if !require::freerun() {
        return;
    }
    let Some(ca) = Ca::started() else { return };
    let server = Setup::new()
        .http(&format!(
            "{}
             server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; acme_certificate le localhost 127.0.0.1; {USED}
                       location = /status {{ status; }}
                       location / {{ return 200 '$acme_certificate'; }} }}
             server {{ listen 127.0.0.1:{} default_server; return 301 https://$host$request_uri; location / {{ deny all; }} }}",
            ca.issuer("le", "contact admin@example.com;"),
            ca.http
        ))
        .freerun();
    comes(&server, &Tls::new());
    eventually("it is valid", || status(&server)["state"] == "valid");
    let told = status(&server);
    assert_eq!((&told["issuer"], &told["key"]), (&"le".into(), &"ecdsa:256".into()));
    assert_eq!(told["names"], serde_json::json!(["localhost", "127.0.0.1"]));
    assert!(told["last_error"].is_null() && told["not_after"].as_u64().is_some_and(|time| time > 1_700_000_000));
    let text = server.connect_tls(&Tls::new()).get("/").text();
    assert!(text.starts_with("data:-----BEGIN CERTIFICATE-----\n"), "{text}");
    // What is no challenge goes its usual way.
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], ca.http));
    let other = TestClient::connect(address).get("/.well-known/acme-challenge/unknown");
    assert_eq!(
        (other.status, other.header("location")),
        (301, Some("https://localhost/.well-known/acme-challenge/unknown"))
    );
    let state = fs::metadata(server.path("state-le")).expect("a folder").permissions();
    assert_eq!(state.mode() & 0o777, 0o700);
    assert!(!server.error_log().contains("PRIVATE KEY"));
}

#[test]
fn a_certificate_comes_by_a_handshake() {
    if !require::freerun() {
        return;
    }
    let Some(ca) = Ca::started() else { return };
    let server = Setup::new()
        .http(&format!(
            "{}
             server {{ listen 127.0.0.1:@PORT@ ssl; listen 127.0.0.1:{} ssl; server_name localhost;
                       ssl_certificate auto; ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; }}",
            ca.issuer("le", "challenge tls-alpn-01;"),
            ca.tls
        ))
        .freerun();
    comes(&server, &Tls::new());
    // A client that looks at a challenge that is none finds no protocol in common (alert 120).
    let none = TestClient::connect(server.address()).try_tls(&Tls::new().alpn(&["acme-tls/1"]));
    assert_eq!(none.err().and_then(|failure| failure.alert), Some(120));
}

#[test]
fn a_certificate_is_there_at_once_after_a_restart_and_stays_over_a_reload() {
    if !require::freerun() {
        return;
    }
    let Some(mut ca) = Ca::started() else { return };
    let state = freerun_testkit::TempDir::new("state");
    let issuer = ca.issuer("le", "").replace("@DIR@", &state.path().display().to_string());
    let setup = Setup::new().http(&format!(
        "{issuer}
         ssl_certificate auto;
         server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; location / {{ return 200 first; }} }}
         server {{ listen 127.0.0.1:{}; server_name localhost; }}",
        ca.http
    ));
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let mut server = setup.freerun();
    let first = comes(&server, &Tls::new());
    server.edit("return 200 first", "return 200 second");
    server.reload();
    let mut client = server.connect_tls(&Tls::new());
    assert_eq!((client.get("/").text().as_str(), &client.agreed().certificates[0]), ("second", &first));
    // It is taken away and comes back.
    let folder = certificates().path("ec.crt").parent().expect("a folder").display().to_string();
    let own = format!("ssl_certificate {folder}/ec.crt; ssl_certificate_key {folder}/ec.key;");
    server.edit("ssl_certificate auto;", &own);
    server.reload();
    assert_eq!(shown(&server, &Tls::new()), certificates().der("ec.crt"));
    server.edit(&own, "ssl_certificate auto;");
    server.reload();
    assert_eq!(shown(&server, &Tls::new()), first);
    server.stop();
    ca.stop();
    let again = setup.freerun();
    assert_eq!(shown(&again, &Tls::new()), first);
}

#[test]
fn a_ca_that_is_down_keeps_nobody_from_starting() {
    if !require::freerun() {
        return;
    }
    let Some(mut ca) = Ca::new() else { return };
    let server = Setup::new()
        .http(&format!(
            "{}
             server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; ssl_certificate auto;
                       location = /status {{ status; }} }}
             server {{ listen 127.0.0.1:{}; }}",
            ca.issuer("le", "state_path off;").replace("state_path @DIR@/state-le;", ""),
            ca.http
        ))
        .freerun();
    assert!(is_temporary(&shown(&server, &Tls::new())));
    eventually("the attempt has failed", || status(&server)["state"] == "failed");
    assert!(status(&server)["last_error"].is_string() && status(&server)["next_attempt"].is_u64());
    ca.start();
    // Whoever changes something about the CA does not have to wait for the next attempt.
    server.edit("accept_terms_of_service;", "accept_terms_of_service; contact admin@example.com;");
    server.reload();
    let first = comes(&server, &Tls::new());
    // The next change takes no other certificate, though nothing is kept on disk.
    eventually("it is valid", || status(&server)["state"] == "valid");
    server.edit("contact admin@example.com;", "contact other@example.com;");
    server.reload();
    server.logs("the certificate in use is kept");
    assert_eq!(shown(&server, &Tls::new()), first);
}

#[test]
fn the_ca_is_looked_up_by_the_resolver() {
    if !require::freerun() {
        return;
    }
    let Some(ca) = Ca::started() else { return };
    let dns = Dns::start();
    dns.set("ca.example.com", DnsReply::address(Ipv4Addr::LOCALHOST, 60));
    let server = Setup::new()
        .http(&format!(
            "resolver {} ipv6=off;
             {}
             server {{ listen 127.0.0.1:@PORT@ ssl; server_name localhost; ssl_certificate auto; }}
             server {{ listen 127.0.0.1:{}; }}",
            dns.address(),
            ca.issuer("le", "").replace("//localhost", "//ca.example.com"),
            ca.http
        ))
        .freerun();
    comes(&server, &Tls::new());
    assert!(dns.asked("ca.example.com") > 0);
}

/// A CA that says nothing, and a server that wants a certificate from it.
fn with_silent_ca() -> (TcpListener, TestServer) {
    let ca = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = Setup::new()
        .http(&format!(
            "acme_issuer silent {{ uri http://{}/; accept_terms_of_service; state_path off; }}
             server {{ listen 127.0.0.1:@PORT@; server_name localhost; acme_certificate silent; return 200 ok; }}",
            ca.local_addr().expect("an address")
        ))
        .freerun();
    (ca, server)
}

#[test]
fn an_order_under_way_says_nothing_when_the_server_is_stopped() {
    if !require::freerun() {
        return;
    }
    let (ca, mut server) = with_silent_ca();
    let (mut asked, _) = ca.accept().expect("a connection");
    asked.set_read_timeout(Some(Duration::from_secs(15))).expect("a time");
    // The request is under way as soon as it has begun to come.
    asked.read_exact(&mut [0]).expect("a request");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    let log = server.error_log_of_traffic();
    let loud = |line: &&str| ["[warn]", "[error]", "[alert]"].iter().any(|level| line.contains(level));
    assert_eq!(log.lines().filter(loud).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_worker_that_finishes_its_requests_orders_nothing() {
    if !require::freerun() {
        return;
    }
    let (ca, mut server) = with_silent_ca();
    let (mut asked, _) = ca.accept().expect("a connection");
    let mut busy = server.connect();
    busy.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
    eventually("the request has begun", || server.connect().get("/").status == 200);
    server.signal(Signal::QUIT);
    // The client itself would wait longer than this.
    asked.set_read_timeout(Some(Duration::from_secs(15))).expect("a time");
    asked.read_to_end(&mut Vec::new()).expect("the order is given up");
    assert!(server.runs(), "it waits for the request under way");
    busy.send("\r\n");
    assert_eq!(busy.response().text(), "ok");
    assert_eq!(server.wait().code(), Some(0));
}
