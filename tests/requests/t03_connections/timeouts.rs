//! Slow clients meet each timeout, and others notice nothing.

use crate::worker::InProcess;
use freerun_testkit::{ConnectionEnd, Setup, Site, TestClient, eventually, on_time};
use std::time::{Duration, Instant};

fn site() -> Site {
    let site = Site::new();
    site.file("a", "file a").file("big", vec![b'x'; 20_000_000]);
    site
}

/// The client stays silent; the server must end the connection, not before [`LEAST`] has passed since `start`: a moment before
/// the server's own time can have begun.
fn ends_after(client: &mut TestClient, start: Instant) -> Vec<u8> {
    let (bytes, ending) = client.rest();
    assert_ne!(ending, ConnectionEnd::Silent, "the connection was left open");
    assert!(start.elapsed() >= LEAST, "ended after {:?}", start.elapsed());
    bytes
}

/// A second, less what clocks of servers are coarse by.
const LEAST: Duration = Duration::from_millis(700);

#[test]
fn a_head_that_does_not_come() {
    let site = site();
    let server = Setup::server(&site, "client_header_timeout 1s;").run_in_process();
    let start = Instant::now();
    assert_eq!(ends_after(&mut server.connect(), start), b"");
    let start = Instant::now();
    let mut client = server.connect();
    client.send("GET /a HTTP/1.1\r\nHo");
    assert_eq!(ends_after(&mut client, start), b"");
    server.logs("client timed out (110: Connection timed out) while reading client request headers");
    eventually("408 in the access log", || server.access_log().contains("\" 408 0 "));
    assert_eq!(server.get("/a").text(), "file a");
}

#[test]
fn a_body_that_does_not_come() {
    let site = site();
    // The body is discarded, which waits with lingering's times, unless something reads it: the error page's request does not, so
    // the response comes at once and the connection ends when nothing follows.
    let server =
        Setup::server(&site, "client_body_timeout 1s; lingering_timeout 1s; lingering_time 3s;").run_in_process();
    let mut client = server.connect();
    let start = Instant::now();
    client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc");
    assert_eq!(client.response().status, 405);
    assert_eq!(ends_after(&mut client, start), b"");
    assert_eq!(server.get("/a").text(), "file a");
}

#[test]
fn an_idle_connection() {
    let site = site();
    let server = Setup::server(&site, "keepalive_timeout 1s;").run_in_process();
    let mut client = server.connect();
    let start = Instant::now();
    assert_eq!(client.get("/a").text(), "file a");
    assert_eq!(ends_after(&mut client, start), b"");
    let server = Setup::server(&site, "keepalive_timeout 60s 33s;").run_in_process();
    assert_eq!(server.get("/a").header("keep-alive"), Some("timeout=33"));
    let server = Setup::server(&site, "keepalive_timeout 0;").run_in_process();
    let mut client = server.connect();
    assert!(client.get("/a").says_close());
    assert!(client.is_closed());
}

#[test]
fn a_reader_that_stops() {
    let site = site();
    for lines in ["sendfile on;", "sendfile off;", "sendfile on; aio threads;"] {
        let server = Setup::server(&site, &format!("send_timeout 1s; {lines}")).run_in_process();
        let mut client = TestClient::try_connect_narrow(server.address(), 4096).expect("connecting");
        client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
        client.at_least(1);
        server.logs("client timed out (110: Connection timed out) while sending response to client");
        let (bytes, ending) = client.rest();
        assert!(
            bytes.len() < 20_000_000 && ending != ConnectionEnd::Silent,
            "{lines}: {} bytes, {ending:?}",
            bytes.len()
        );
        assert_eq!(server.get("/a").text(), "file a");
    }
}

#[test]
fn a_slow_reader_gets_everything() {
    // Each pause is shorter than the timeout, all together are longer.
    let site = site();
    let server = Setup::server(&site, "send_timeout 2s; location = /big { keepalive_timeout 0; }").run_in_process();
    on_time(Duration::from_secs(1), |steps| {
        let mut client = TestClient::try_connect_narrow(server.address(), 65_536).expect("connecting");
        client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
        for pieces in 1..=25 {
            client.at_least(pieces * 100_000);
            // Not to wait for anything: this is what makes the reader slow.
            steps.rest(Duration::from_millis(100));
        }
        assert_eq!(client.response().body.len(), 20_000_000);
    });
}

#[test]
fn slow_clients_do_not_hold_up_others() {
    let site = site();
    let server = Setup::server(&site, "").run_in_process();
    let mut stalled: Vec<TestClient> = (0..100).map(|_| server.connect()).collect();
    for (index, client) in stalled.iter_mut().enumerate() {
        match index % 3 {
            0 => client.send("GET /a HTT"),
            1 => client.send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc"),
            _ => client.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n"),
        };
    }
    for _ in 0..100 {
        assert_eq!(server.get("/a").text(), "file a");
    }
}
