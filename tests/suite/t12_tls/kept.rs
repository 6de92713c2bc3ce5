//! Kept connections to upstream servers: which requests and checks may use one whose session has other settings.

use freerun_testkit::{
    AnsweringUpstream, Setup, TempDir, TestClient, TestServer, TestUpstream, TlsServer, certificates, eventually, ok,
    require,
};
use std::fs;
use std::path::PathBuf;

/// A folder with files that the configuration names, whose contents come from the test certificates.
struct Changing(TempDir);

impl Changing {
    fn new() -> Changing {
        Changing(TempDir::new("changing"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Gives the file `name` the contents of one of the test certificates.
    fn set(&self, name: &str, from: &str) {
        fs::copy(certificates().path(from), self.path(name)).expect("a copy");
    }
}

/// A server of TLS that answers all requests and keeps connections.
fn answering(certificate: &str) -> AnsweringUpstream {
    TestUpstream::tls(TlsServer::new(certificate)).answer(|_| ok("hello"))
}

/// Passes everything to this server and keeps connections to it, with these lines in the location.
fn keeping(upstream: &AnsweringUpstream, lines: &str) -> TestServer {
    Setup::new()
        .http(&format!(
            "upstream upstream {{ zone u 1m; server {}; keepalive 4; }}
             server {{ listen 127.0.0.1:@PORT@; location = /status {{ status; }}
                       location / {{ proxy_pass https://upstream; proxy_ssl_name localhost; proxy_http_version 1.1;
                                     proxy_set_header Connection ''; {lines} }} }}",
            upstream.address()
        ))
        .freerun()
}

/// Two requests, and one more after a reload that changes nothing: all of them use one connection.
#[track_caller]
fn keeps_one(server: &TestServer, upstream: &AnsweringUpstream) {
    for _ in 0..2 {
        assert_eq!(server.get("/").text(), "hello");
    }
    server.reload();
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(upstream.connections(), 1, "the reload has changed nothing");
}

#[test]
fn a_reload_that_asks_for_verification_leaves_unverified_connections_alone() {
    if !require::freerun() {
        return;
    }
    let upstream = answering("foreign");
    let server = keeping(&upstream, "proxy_ssl_verify off; proxy_ssl_trusted_certificate @CERTS@/ca.crt;");
    keeps_one(&server, &upstream);
    server.edit("proxy_ssl_verify off", "proxy_ssl_verify on");
    server.reload();
    assert_eq!(server.get("/").status, 502);
}

#[test]
fn a_reload_with_other_contents_of_files_leaves_connections_of_before_alone() {
    if !require::freerun() {
        return;
    }
    let files = Changing::new();
    files.set("ca.crt", "ca.crt");
    files.set("ca.crl", "ca.crl");
    files.set("own.crt", "client.crt");
    files.set("own.key", "client.key");
    let dir = files.0.path().display();
    let lines = format!(
        "proxy_ssl_verify on; proxy_ssl_trusted_certificate {dir}/ca.crt; proxy_ssl_crl {dir}/ca.crl;
         proxy_ssl_certificate {dir}/own.crt; proxy_ssl_certificate_key {dir}/own.key;"
    );
    let upstream = answering("ec");
    let server = keeping(&upstream, &lines);
    keeps_one(&server, &upstream);
    files.set("own.crt", "client-rsa.crt");
    files.set("own.key", "client-rsa.key");
    server.reload();
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(upstream.connections(), 2, "the server is shown another certificate");
    let both = [fs::read(files.path("ca.crl")), fs::read(certificates().path("ca.crt"))];
    fs::write(files.path("ca.crl"), both.map(|contents| contents.expect("contents")).concat()).expect("writing");
    server.reload();
    assert_eq!(server.get("/").text(), "hello");
    assert_eq!(upstream.connections(), 3, "the list may revoke the server's certificate");
    files.set("ca.crt", "self.crt");
    fs::write(files.path("ca.crl"), fs::read(certificates().path("ca.crl")).expect("a list")).expect("writing");
    server.reload();
    assert_eq!(server.get("/").status, 502, "its authority is not trusted any more");
}

#[test]
fn a_check_uses_no_connection_of_other_settings_either() {
    if !require::freerun() {
        return;
    }
    let upstream = answering("foreign");
    let lines = "health_check interval=50ms keepalive_time=1h;
                 proxy_ssl_verify off; proxy_ssl_trusted_certificate @CERTS@/ca.crt;";
    let server = keeping(&upstream, lines);
    let state = || server.status()["upstreams"][0]["servers"][0]["state"].as_str().unwrap_or_default().to_owned();
    let mut checks = 0;
    eventually("checks pass", || {
        checks += upstream.take_requests().len();
        checks > 1 && state() == "up"
    });
    assert_eq!(upstream.connections(), 1);
    server.edit("proxy_ssl_verify off", "proxy_ssl_verify on");
    server.reload();
    eventually("checks fail", || state() == "unhealthy");
}

/// A request on a connection that `ntlm` ties to a server.
fn tied(client: &mut TestClient, target: &str) -> u16 {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: NTLM proof\r\n\r\n"));
    client.response().status
}

#[test]
fn a_connection_of_ntlm_is_used_with_its_own_settings_alone() {
    if !require::freerun() {
        return;
    }
    let upstream = answering("foreign");
    let server = Setup::new()
        .http(&format!(
            "upstream g {{ server {}; keepalive 4; ntlm; }}
             server {{ listen 127.0.0.1:@PORT@; proxy_http_version 1.1; proxy_set_header Connection '';
                       location /open {{ proxy_pass https://g; }}
                       location /same {{ proxy_pass https://g; }}
                       location /name {{ proxy_pass https://g; proxy_ssl_name other; }}
                       location /verified {{ proxy_pass https://g; proxy_ssl_name localhost;
                           proxy_ssl_verify on; proxy_ssl_trusted_certificate @CERTS@/ca.crt; }}
                       location /plain {{ proxy_pass http://g; }} }}",
            upstream.address()
        ))
        .freerun();
    let mut client = server.connect();
    for target in ["/open", "/same", "/open"] {
        assert_eq!(tied(&mut client, target), 200, "{target}");
        assert_eq!(upstream.connections(), 1, "{target}");
    }
    assert_eq!(tied(&mut client, "/name"), 200);
    assert_eq!(upstream.connections(), 2);
    assert_eq!(tied(&mut client, "/verified"), 502);
    assert_ne!(tied(&mut client, "/plain"), 200, "the server does not speak without TLS");
}
