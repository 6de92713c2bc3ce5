//! Clients that go away while a response is fetched for the cache: it is fetched to its end, and the access log says
//! what the client got.

use freerun_testkit::http2::{Frame, Http2, code};
use freerun_testkit::{Peer, Setup, Site, TestServer, TestUpstream, eventually, require};
use serde_json::{Value, json};

use super::{said, settled, until_open};

const NOTED: &str = "client prematurely closed connection while a response is fetched for the cache";

fn before(upstream: &TestUpstream, lines: &str) -> TestServer {
    let lines = format!(
        "http2 on; location = /status {{ access_log off; status; }}
         location / {{ status_zone cached; proxy_cache z; proxy_cache_valid any 1000s; add_header X-Cache $upstream_cache_status; {lines}
             proxy_pass http://{}; }}",
        upstream.address()
    );
    let setup = Setup::server(&Site::new(), &lines).http(
        "proxy_cache_path @DIR@/cache keys_zone=z:1m;
         log_format gone '$request_uri $status $body_bytes_sent rc=$request_completion';
         access_log @DIR@/access.log gone;",
    );
    let server = setup.freerun();
    until_open(&server);
    server
}

/// The application closes the connection, or answers.
fn end(mut peer: Peer, target: &str) {
    if target == "/answered" {
        let body = "x".repeat(500);
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{body}"));
    }
}

/// What the status says of the cached requests when so many have ended.
fn counted(server: &TestServer, requests: u64) -> Value {
    let mut counted = Value::Null;
    eventually("the requests have ended", || {
        counted = server.status()["location_zones"][0].clone();
        counted["times"]["count"] == requests
    });
    counted
}

/// A client asks for something, and goes when the upstream server has the request.
pub fn left_waiting(server: &TestServer, upstream: &TestUpstream, target: &str, is_reset: bool) -> Peer {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let mut peer = upstream.accept();
    peer.head();
    if is_reset {
        client.reset()
    } else {
        drop(client)
    }
    peer
}

/// The client of the request with this number is known to have gone, and the line in the log says what it got.
#[track_caller]
fn is_logged(server: &TestServer, peer: Peer, (number, target): (usize, &str), told: &str) {
    eventually("the client has gone", || server.error_log().matches(NOTED).count() == number + 1);
    end(peer, target);
    let logged = server.access_lines(number + 1);
    let expected = if target == "/answered" { "200 0 rc=" } else { "499 0 rc=" };
    assert_eq!(logged[number], format!("{target} {expected}"), "{told}");
}

/// Both requests are counted as those of clients that had gone, and what was answered is stored.
#[track_caller]
fn both_are_counted(server: &TestServer) {
    let counted = counted(server, 2);
    assert_eq!((&counted["responses"]["5xx"], &counted["discarded"]), (&json!(0), &json!(2)), "{counted}");
    settled(server);
    let stored = server.get("/answered");
    assert_eq!((said(&stored).0, stored.body.len()), ("HIT".into(), 500), "it was fetched to its end");
}

#[test]
fn who_has_gone_is_logged_with_what_it_got() {
    if !require::freerun() {
        return;
    }
    for lines in ["", "proxy_cache_lock on;", "limit_rate 100;"] {
        for is_reset in [false, true] {
            let upstream = TestUpstream::new();
            let server = before(&upstream, lines);
            for (number, target) in ["/closed", "/answered"].into_iter().enumerate() {
                let peer = left_waiting(&server, &upstream, target, is_reset);
                is_logged(&server, peer, (number, target), &format!("{lines} reset: {is_reset}"));
            }
            both_are_counted(&server);
        }
    }
}

/// It is not noticed before something is sent to it; whether it is then, is chance.
#[test]
fn who_has_gone_does_not_count_where_that_is_ignored() {
    if !require::freerun() {
        return;
    }
    for is_reset in [false, true] {
        let upstream = TestUpstream::new();
        let server = before(&upstream, "proxy_ignore_client_abort on;");
        for (number, target) in ["/closed", "/answered"].into_iter().enumerate() {
            let peer = left_waiting(&server, &upstream, target, is_reset);
            end(peer, target);
            let status = if target == "/answered" { 200 } else { 502 };
            let line = server.access_lines(number + 1).remove(number);
            assert!(line.starts_with(&format!("{target} {status} ")), "{line} reset: {is_reset}");
        }
        assert!(!server.error_log().contains(NOTED));
    }
}

/// A stream that its client resets, or whose connection ends.
#[test]
fn a_stream_that_has_gone_is_logged_with_what_it_got() {
    if !require::freerun() {
        return;
    }
    for resets_stream in [true, false] {
        let upstream = TestUpstream::new();
        let server = before(&upstream, "");
        for (number, target) in ["/closed", "/answered"].into_iter().enumerate() {
            let mut http2 = Http2::new(server.connect());
            let stream = http2.ask_for(target);
            let mut peer = upstream.accept();
            peer.head();
            if resets_stream {
                http2.send(Frame::reset(stream, code::CANCEL));
            } else {
                http2.drop_with_reset();
            }
            is_logged(&server, peer, (number, target), &format!("stream reset: {resets_stream}"));
        }
        both_are_counted(&server);
    }
}

/// Nothing is fetched on behalf of a client that waits for the response to another request.
#[test]
fn who_waits_for_another_request_and_goes_is_logged_at_once() {
    if !require::freerun() {
        return;
    }
    for is_http2 in [false, true] {
        let upstream = TestUpstream::new();
        let server = before(&upstream, "proxy_cache_lock on;");
        let mut first = server.connect();
        first.send("GET /answered HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        let waits = || server.status()["caches"][0]["waiting"].as_u64();
        if is_http2 {
            let mut http2 = Http2::new(server.connect());
            let stream = http2.ask_for("/answered");
            eventually("the other one waits", || waits() == Some(1));
            http2.send(Frame::reset(stream, code::CANCEL));
        } else {
            let mut second = server.connect();
            second.send("GET /answered HTTP/1.1\r\nHost: a\r\n\r\n");
            eventually("the other one waits", || waits() == Some(1));
            second.reset();
        }
        assert_eq!(server.access_lines(1), ["/answered 499 0 rc="], "HTTP/2: {is_http2}");
        assert_eq!(waits(), Some(0));
        end(peer, "/answered");
        assert_eq!(first.response().body.len(), 500);
    }
}
