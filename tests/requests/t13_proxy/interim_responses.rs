//! What comes before the head of a response, or in its place: interim responses (1xx), and the status line of SHOUTcast.

use freerun_testkit::{TestUpstream, ok};

use crate::t13_proxy::proxy_engine::{asked, passing};
use crate::worker::InProcess;

const GET: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn too_many_interim_responses_are_refused() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    let _ = peer.try_send("HTTP/1.1 100 Continue\r\n\r\n".repeat(100));
    assert_eq!(client.response().status, 502);
    server.logs("upstream sent too many interim responses while reading response header from upstream");
}

/// A server may say for as long as it likes that it works: only how many come within a second is limited.
#[test]
fn interim_responses_go_on_for_long() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "early_hints 1; ").in_process();
    let mut client = asked(&server, GET);
    let mut peer = upstream.accept();
    peer.request();
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(60);
    for _ in 0..2 {
        peer.send(&hints);
        assert_eq!(client.at_least(hints.len()), hints.as_bytes());
        client.take();
        // The second in which they are counted passes.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    peer.send(ok("x"));
    assert_eq!(client.response().text(), "x");
}

/// RFC 9112 section 6.3: an interim response ends with its head. What it says of a body is not passed on.
#[test]
fn an_interim_response_has_no_body_whatever_it_says() {
    for fields in [
        "Content-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: x",
        "Transfer-Encoding: gzip",
    ] {
        let upstream = TestUpstream::new();
        let server = passing(&[&upstream.address()], "early_hints 1; ").in_process();
        let mut client = asked(&server, GET);
        let mut peer = upstream.accept();
        peer.request();
        peer.send(format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n{fields}\r\n\r\n"));
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(client.at_least(hints.len())), hints, "{fields}");
        client.take();
        peer.send(ok("x"));
        assert_eq!(client.response().text(), "x", "{fields}");
    }
}

/// SHOUTcast: a status line of its own, and fields and a body as in HTTP/1.0.
#[test]
fn a_stream_of_shoutcast_is_passed_on() {
    for pieces in
        [&["ICY 200 OK\r\nicy-name: x\r\n\r\nmusic"][..], &["IC", "Y 200 OK\r\nicy-na", "me: x\r\n\r\nmus", "ic"]]
    {
        for lines in ["", "proxy_buffering off;"] {
            let upstream = TestUpstream::new();
            let server = passing(&[&upstream.address()], lines).in_process();
            let mut client = asked(&server, GET);
            let mut peer = upstream.accept();
            peer.request();
            pieces.iter().for_each(|piece| peer.send(piece));
            drop(peer);
            let response = client.response();
            assert_eq!((response.status, response.header("icy-name")), (200, Some("x")), "{pieces:?} {lines}");
            assert_eq!(response.text(), "music", "{pieces:?} {lines}");
        }
    }
}

#[test]
fn interim_responses_are_counted_while_the_body_is_sent() {
    let upstream = TestUpstream::new();
    let server = passing(&[&upstream.address()], "proxy_request_buffering off; early_hints 1; ").in_process();
    let mut client = asked(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
    let mut peer = upstream.accept();
    peer.head();
    client.send("x");
    peer.bytes(1);
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let _ = peer.try_send(hints.repeat(100));
    client.until(|bytes| bytes.windows(12).any(|twelve| twelve == b"HTTP/1.1 502"));
    server.logs("upstream sent too many interim responses while reading response header from upstream");
}
