//! Responses that come to a halt while they are fetched for the cache: each kind of request that follows one asks the
//! server itself, and goes on where it is.

use freerun_testkit::http2::{Http2, StreamEnd};
use freerun_testkit::{Peer, Setup, Site, TestClient, TestServer, TestUpstream, require};

use super::until_open;

/// The head, and a part of the body.
const BEGUN: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=1000\r\nAccept-Ranges: bytes\r\nContent-Length: 10\r\n\r\n01234";

/// A server in front of the upstream; `/page.html` is a file, and may include others.
fn before(upstream: &TestUpstream, site: &Site) -> TestServer {
    let lines = format!(
        "http2 on; location = /status {{ status; }} location = /page.html {{ ssi on; }}
         location / {{ proxy_cache z; proxy_cache_lock_age 200ms; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = Setup::server(site, &lines).http("proxy_cache_path @DIR@/cache keys_zone=z:1m;").freerun();
    until_open(&server);
    server
}

/// Has a client begin a fetch that comes to a halt. Nothing of these two may be dropped before the others are served.
fn halted(server: &TestServer, upstream: &TestUpstream) -> (TestClient, Peer) {
    let mut client = server.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    peer.send(BEGUN);
    client.until(|bytes| bytes.ends_with(b"01234"));
    (client, peer)
}

/// Answers the fetch of a request that follows.
#[track_caller]
fn answer_whole(upstream: &TestUpstream) {
    let mut peer = upstream.accept();
    let head = peer.head();
    assert!(head.starts_with("GET /a ") && !head.contains("Range"), "{head}");
    peer.send(format!("{BEGUN}56789"));
}

#[test]
fn a_stream_that_follows_goes_on() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = before(&upstream, &Site::new());
    let _halted = halted(&server, &upstream);
    let mut http2 = Http2::new(server.connect());
    let stream = http2.ask_for("/a");
    assert_eq!(http2.body_of(stream, 5), b"01234");
    answer_whole(&upstream);
    let answer = http2.answer(stream);
    assert_eq!((answer.text().as_str(), answer.end), ("0123456789", StreamEnd::Whole));
}

#[test]
fn a_part_that_is_followed_goes_on() {
    if !require::freerun() {
        return;
    }
    for (range, part) in [("3-8", "345678"), ("0-5", "012345"), ("7-", "789"), ("-2", "89")] {
        let upstream = TestUpstream::new();
        let server = before(&upstream, &Site::new());
        let _halted = halted(&server, &upstream);
        let mut client = server.connect();
        client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n"));
        answer_whole(&upstream);
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (206, part), "{range}");
    }
}

#[test]
fn a_fragment_that_follows_goes_on() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let site = Site::new();
    site.file("page.html", "[<!--# include virtual=\"/a\" -->]");
    let server = before(&upstream, &site);
    let _halted = halted(&server, &upstream);
    let mut client = server.connect();
    client.send("GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    answer_whole(&upstream);
    assert_eq!(client.response().text(), "[0123456789]");
}

#[test]
fn a_head_needs_no_more_of_the_body() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let server = before(&upstream, &Site::new());
    let _halted = halted(&server, &upstream);
    let mut client = server.connect();
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to("HEAD").header("content-length"), Some("10"));
    assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "nothing is asked for");
}
