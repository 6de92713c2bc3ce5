//! Requests that clients send before the handshake is over.

use super::secure;
use freerun_testkit::{Setup, Site, TestClient, TestUpstream, Tls, TlsVersion, eventually, ok, require};

const REUSED: &str = "location = /r { return 200 '$ssl_session_reused'; }";

/// What early data needs.
const EARLY: &str = "ssl_early_data on; ssl_session_cache shared:s:1m;";

#[test]
fn early_data_is_taken_once_and_told() {
    let site = Site::new();
    let tell = "location = /early { return 200 '$ssl_early_data|$ssl_session_reused'; }";
    for (lines, taken) in
        [("ssl_early_data on; ssl_session_cache shared:s:1m;", true), ("ssl_session_cache shared:s:1m;", false)]
    {
        let server = secure(&site, &format!("{REUSED} {tell} {lines}")).run();
        let request = "GET /early HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let tls = Tls::new().only(TlsVersion::V13).resuming().early(request);
        let mut client = server.connect_tls(&tls);
        client.get("/r");
        assert!(!client.agreed().early);
        let mut client = server.connect_tls(&tls);
        assert_eq!(client.agreed().early, taken, "{lines}");
        if taken {
            let said = client.response().text();
            assert!(said == "1|r" || said == "|r", "{said}");
        }
        client.send(request);
        assert_eq!(client.response().text(), "|r", "{lines}: after the handshake");
    }
}

/// A server that takes early data, with these lines.
fn server_with(lines: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:@PORT@ ssl; ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;
                   ssl_protocols TLSv1.2 TLSv1.3; {EARLY} {REUSED} {lines} }}"
    )
}

#[test]
fn an_early_request_is_answered_before_the_handshake_is_over_and_not_when_it_is_sent_again() {
    // OpenSSL of nginx does not keep it from being sent again by default.
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http("log_format early '$ssl_early_data|$request|$status'; access_log @DIR@/access.log early;")
        .http(&server_with("location /early { return 200 yes; }"))
        .run();
    for (number, request) in [
        "GET /early/1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /early/2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    ]
    .into_iter()
    .enumerate()
    {
        let tls = Tls::new().only(TlsVersion::V13).resuming().early(request);
        server.connect_tls(&tls).get("/r");
        let target = format!("/early/{}", number + 1);
        let answered = || server.access_log().matches(&target).count();
        // The client's last message of the handshake is never sent.
        let hello = tls.hello();
        let mut first = server.connect();
        first.send(&hello);
        eventually("the early request is answered", || answered() == 1);
        let line = request.lines().next().unwrap_or_default();
        let log = server.access_log();
        assert!(log.contains(&format!("1|{line}|200")), "{log}");
        // Somebody who has seen the bytes sends them again.
        let mut again = server.connect();
        again.send(&hello);
        assert_eq!(again.at_least(1)[0], 22, "the server goes on with a full handshake");
        drop((first, again));
        // What was sent before this request would be in the log before it.
        assert_eq!(server.connect_tls(&Tls::new()).get("/r?last").text(), ".");
        eventually("the last request", || server.access_log().matches("/r?last").count() == number + 1);
        assert_eq!(answered(), 1, "{}", server.access_log());
    }
}

#[test]
fn a_body_may_begin_as_early_data_and_end_after_the_handshake() {
    let upstream = TestUpstream::answering(|request| ok(&request.body));
    let lines = format!("location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = Setup::new().http(&server_with(&lines)).run();
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n";
    let body = "0123456789".repeat(1000);
    for early in [head.to_owned(), format!("{head}{}", &body[..3]), format!("{head}{}", &body[..9000])] {
        let tls = Tls::new().only(TlsVersion::V13).resuming().early(&early);
        server.connect_tls(&tls).get("/r");
        let mut client: TestClient = server.connect_tls(&tls);
        assert!(client.agreed().early);
        client.send(&body[early.len() - head.len()..]);
        assert_eq!(client.response().text(), body);
    }
}
