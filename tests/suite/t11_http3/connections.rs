//! How connections last and end.

use super::{connect, content, quic};
use freerun_testkit::http3::{H3End, Http3, Http3Options, LinkEnd};
use freerun_testkit::{Site, TestUpstream, eventually, ok, require};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;

/// H3_INTERNAL_ERROR.
const INTERNAL_ERROR: u64 = 0x102;

#[test]
fn keepalive_requests_are_a_limit_that_loses_nothing() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "keepalive_requests 3; location / { return 200 ok; }").freerun();
    let mut http3 = connect(&server);
    for _ in 0..3 {
        assert_eq!(http3.get("/").text(), "ok");
    }
    assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
    assert_eq!(http3.away().last(), Some(&12), "the first stream that was not served");
    assert_eq!(connect(&server).get("/").text(), "ok");
}

#[test]
fn packets_grow_to_the_size_that_the_way_takes() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(1_000_000));
    let server = quic(&site, "").freerun();
    let mut http3 = connect(&server);
    let mut mean = || {
        let before = http3.link().seen();
        assert_eq!(http3.get("/file").body().len(), 1_000_000);
        let seen = http3.link().seen();
        (seen.bytes - before.bytes) / (seen.datagrams - before.datagrams)
    };
    // Connections begin with 1200 bytes, and the client takes 1472.
    mean();
    let mean = mean();
    assert!(mean > 1350, "{mean} bytes in each");
}

#[test]
fn idle_connections_end_in_order() {
    if !require::freerun() {
        return;
    }
    let lines = "keepalive_timeout 500ms; client_header_timeout 1s; location / { return 200 ok; }";
    let server = quic(&Site::new(), lines).freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/").text(), "ok");
    assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
    assert_eq!(http3.away().last(), Some(&4));
    // One that has never asked for anything, too.
    let mut http3 = connect(&server);
    assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
}

#[test]
fn quit_ends_connections_when_their_responses_are_complete() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("file", content(3_000_000));
    let upstream = TestUpstream::new();
    let lines = format!("keepalive_timeout 1h; location /slow {{ proxy_pass http://{}; }}", upstream.address());
    let server = &mut quic(&site, &lines).freerun();
    let mut idle = connect(server);
    assert_eq!(idle.get("/none").status, 404);
    let mut http3 = Http3::with(server.address_number(2), &Http3Options::new().windows(100_000, 1_000_000));
    let (file, slow) = (http3.ask_for("/file"), http3.ask_for("/slow"));
    http3.hold(file);
    let mut peer = upstream.accept();
    peer.head();
    server.signal(Signal::QUIT);
    http3.wait("GOAWAY", |http3| !http3.away().is_empty());
    assert!(http3.away()[0] > slow);
    assert_eq!(idle.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
    http3.resume(file);
    let answer = http3.answer(file);
    assert!(answer.body() == content(3_000_000) && answer.end == H3End::Whole);
    peer.send(ok("slow"));
    let answer = http3.answer(slow);
    assert_eq!((answer.text().as_str(), answer.end), ("slow", H3End::Whole));
    assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_reload_is_nothing_for_a_connection() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines =
        format!("location = /v {{ return 200 v0; }} location /slow {{ proxy_pass http://{}; }}", upstream.address());
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/v").text(), "v0");
    let slow = http3.ask_for("/slow");
    let mut peer = upstream.accept();
    peer.head();
    let (to, stop) = (server.address_number(2), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let asking = std::thread::spawn(move || {
        let (mut http3, mut served, mut last) = (Http3::connect(to), 0, String::new());
        while !stopped.load(Ordering::SeqCst) || last != "v5" {
            let answer = http3.get("/v");
            assert_eq!((answer.status, answer.end.clone()), (200, H3End::Whole), "{answer:?} after {served}");
            (served, last) = (served + 1, answer.text());
        }
        served
    });
    for version in 1..=5 {
        server.edit(&format!("200 v{}", version - 1), &format!("200 v{version}"));
        server.reload();
        eventually("the new answer", || http3.get("/v").text() == format!("v{version}"));
    }
    stop.store(true, Ordering::SeqCst);
    assert!(asking.join().expect("every request is served") > 5);
    peer.send(ok("slow"));
    assert_eq!(http3.answer(slow).text(), "slow");
    assert!(http3.link().end().is_none() && http3.away().is_empty(), "the connection stays: {http3:?}");
}

#[test]
fn connections_end_with_their_listener() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "location / { return 200 ok; }").freerun();
    let mut http3 = connect(&server);
    assert_eq!(http3.get("/").text(), "ok");
    let port = server.port_number(2);
    server.edit(&format!("listen 127.0.0.1:{port} quic reuseport;"), "");
    server.reload();
    assert_eq!(http3.ending(), LinkEnd::Closed(NO_ERROR, String::new()));
    server.edit("server_name localhost;", &format!("server_name localhost; listen 127.0.0.1:{port} quic;"));
    server.reload();
    assert_eq!(connect(&server).get("/").text(), "ok");
}

#[test]
fn a_client_with_long_requests_is_not_taken_for_gone() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("keepalive_timeout 1s; location / {{ proxy_pass http://{}; }}", upstream.address());
    let server = quic(&Site::new(), &lines).freerun();
    let mut http3 = connect(&server);
    let stream = http3.ask_for("/");
    let mut peer = upstream.accept();
    peer.head();
    http3.run_for(Duration::from_secs(2));
    assert!(http3.link().end().is_none() && http3.away().is_empty(), "{http3:?}");
    peer.send(ok("late"));
    assert_eq!(http3.answer(stream).text(), "late");
}

#[test]
fn a_panic_of_a_connection_ends_it_alone_and_tells_the_client() {
    if !require::freerun() {
        return;
    }
    let server = quic(&Site::new(), "location /panic { debug_panic_connection on; } location / { return 200 ok; }");
    let server = server.freerun();
    let (mut other, mut http3) = (connect(&server), connect(&server));
    http3.ask_for("/panic");
    // A packet that was on its way when the connection ended is answered by a stateless reset, which may be there first.
    let end = http3.ending();
    assert!([LinkEnd::Closed(INTERNAL_ERROR, String::new()), LinkEnd::Reset].contains(&end), "{end:?}");
    server.logs("connection ended by a panic: a connection's fault");
    assert_eq!(other.get("/").text(), "ok");
}
