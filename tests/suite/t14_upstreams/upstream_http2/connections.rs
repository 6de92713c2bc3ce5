//! How many connections there are to an upstream server, and what they carry.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use freerun_testkit::http2::{Frame, Http2, Http2Peer, ServerReply, code, kind, setting};
use freerun_testkit::{ConnectionEnd, Setup, TestClient, TestUpstream};

use super::{accept, called, connect, proxied, setup};

/// How long is waited for something that must not come.
const NOTHING: Duration = Duration::from_millis(200);

/// Answers a request of 200 with its path.
#[track_caller]
fn answer(peer: &mut Http2Peer) {
    let asked = peer.request();
    let path = asked.path().to_owned();
    peer.answer(asked.stream, &ServerReply::ok(path));
}

#[test]
fn only_the_first_request_is_sent_before_the_settings_have_come() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let streams: Vec<u32> = (0..5).map(|number| http2.ask_for(&format!("/{number}"))).collect();
    http2.round_trip();
    let mut peer = Http2Peer::bare(upstream.accept());
    peer.head();
    peer.set_timeout(NOTHING);
    assert_eq!(peer.ending(), ConnectionEnd::Silent);
    assert_eq!(peer.count(kind::HEADERS), 1);
    assert!(upstream.try_accept(NOTHING).is_none(), "another connection");
    peer.set_timeout(Duration::from_secs(15));
    peer.send(Frame::settings(&[]));
    peer.answer(1, &ServerReply::ok("/0"));
    (1..5).for_each(|_| answer(&mut peer));
    for (number, stream) in streams.into_iter().enumerate() {
        assert_eq!(http2.answer(stream).text(), format!("/{number}"));
    }
}

#[test]
fn a_connection_carries_as_many_streams_as_the_server_allows() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let mut streams = vec![http2.ask_for("/0")];
    let settings = [(setting::MAX_CONCURRENT_STREAMS, 2)];
    let mut first = Http2Peer::with(upstream.accept(), &settings);
    let one = first.request();
    // The settings have been taken.
    first.round_trip();
    streams.extend((1..4).map(|number| http2.ask_for(&format!("/{number}"))));
    let two = first.request();
    let mut second = Http2Peer::with(upstream.accept(), &settings);
    let three = second.request();
    let four = second.request();
    assert!(upstream.try_accept(NOTHING).is_none(), "a third connection");
    // A stream that ends makes room, on the same connection.
    first.answer(one.stream, &ServerReply::ok("x"));
    assert_eq!(http2.answer(streams[0]).text(), "x");
    let last = http2.ask_for("/last");
    let five = first.request();
    assert_eq!(five.path(), "/last");
    for asked in [&two, &five] {
        first.answer(asked.stream, &ServerReply::ok("x"));
    }
    for asked in [&three, &four] {
        second.answer(asked.stream, &ServerReply::ok("x"));
    }
    for stream in streams.into_iter().skip(1).chain([last]) {
        assert_eq!(http2.answer(stream).text(), "x");
    }
}

/// Calls that are answered only when all of them have come.
struct Together {
    address: String,
    connections: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// A server that answers no call before so many of them are there.
fn together(calls: usize) -> Together {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let (connections, most, waiting) = (Arc::new(AtomicUsize::new(0)), Arc::default(), Arc::new(AtomicUsize::new(0)));
    let told = Together { address, connections: connections.clone(), most: Arc::clone(&most) };
    std::thread::spawn(move || {
        while let Some(peer) = upstream.try_accept(Duration::from_secs(3600)) {
            connections.fetch_add(1, SeqCst);
            let (waiting, most) = (waiting.clone(), Arc::clone(&most));
            std::thread::spawn(move || {
                let mut peer = Http2Peer::new(peer.patient());
                peer.set_timeout(Duration::from_millis(20));
                let mut here: Vec<u32> = Vec::new();
                loop {
                    match peer.try_request() {
                        Ok(asked) => {
                            here.push(asked.stream);
                            most.fetch_max(here.len(), SeqCst);
                            waiting.fetch_add(1, SeqCst);
                        }
                        Err(ConnectionEnd::Silent) => {}
                        Err(_) => return,
                    }
                    // All of a round have come; the next round counts on from there.
                    if waiting.load(SeqCst).is_multiple_of(calls) && waiting.load(SeqCst) > 0 {
                        for stream in here.drain(..) {
                            if peer.try_answer(stream, &ServerReply::ok("x").trailer("grpc-status", "0")).is_err() {
                                return;
                            }
                        }
                    }
                }
            });
        }
    });
    told
}

/// A thousand slow calls at once need ten connections of each loop, whether or not the server was asked before.
#[test]
fn a_thousand_slow_calls_go_over_ten_connections_of_each_loop() {
    const CLIENTS: usize = 10;
    const CALLS: usize = 100;
    for (loops, pass) in [
        (1, "grpc_pass grpc://backend;"),
        (1, "proxy_http_version 2; proxy_pass http://backend;"),
        (2, "grpc_pass grpc://backend;"),
    ] {
        let upstream = together(CLIENTS * CALLS);
        let server = setup(&format!("server {};", upstream.address), &format!("location / {{ {pass} }}"))
            .main(&format!("worker_processes {loops};"))
            .freerun();
        let address = server.address();
        for round in 0..2 {
            let ready = Barrier::new(CLIENTS);
            std::thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        let mut http2 = Http2::new(TestClient::connect(address));
                        http2.greeted().set_timeout(Duration::from_secs(60));
                        ready.wait();
                        let streams: Vec<u32> = (0..CALLS)
                            .map(|_| http2.ask(http2.block("POST", "/").field("content-type", "application/grpc")))
                            .collect();
                        for stream in streams {
                            assert_eq!(http2.answer(stream).text(), "x");
                        }
                    });
                }
            });
            let connections = upstream.connections.load(SeqCst);
            assert!(connections <= 10 * loops, "{loops} loops, {pass}, round {round}: {connections} connections");
            assert!(upstream.most.load(SeqCst) <= 100);
        }
    }
}

/// `max_conns` is about exchanges, each of which may keep a server busy; those who find no room wait in the `queue`.
#[test]
fn max_conns_and_the_queue_know_streams() {
    let upstream = TestUpstream::new();
    let group = format!("server {} max_conns=2; queue 10 timeout=60s;", upstream.address());
    let server = setup(&group, "location / { grpc_pass grpc://backend; }").freerun();
    let mut http2 = connect(&server);
    let streams: Vec<u32> = (0..4).map(|number| http2.ask_for(&format!("/{number}"))).collect();
    let mut peer = accept(&upstream);
    let one = peer.request();
    let two = peer.request();
    http2.round_trip();
    peer.round_trip();
    assert_eq!(peer.count(kind::HEADERS), 2);
    peer.answer(two.stream, &ServerReply::ok("x"));
    let three = peer.request();
    peer.answer(one.stream, &ServerReply::ok("x"));
    let four = peer.request();
    for asked in [three, four] {
        peer.answer(asked.stream, &ServerReply::ok("x"));
    }
    for stream in streams {
        assert_eq!(http2.answer(stream).text(), "x");
    }
    assert!(upstream.try_accept(Duration::ZERO).is_none(), "one connection is enough");
}

#[test]
fn without_room_in_the_queue_a_call_is_not_available() {
    let upstream = TestUpstream::new();
    let group = format!("server {} max_conns=1;", upstream.address());
    let server = setup(&group, "location / { grpc_pass grpc://backend; }").freerun();
    let mut http2 = connect(&server);
    let first = http2.ask_for("/first");
    let mut peer = accept(&upstream);
    let asked = peer.request();
    let refused = http2.request("POST", "/second", &[("content-type", "application/grpc")]);
    assert_eq!(refused.header("grpc-status"), Some("14"));
    peer.answer(asked.stream, &ServerReply::ok("x"));
    assert_eq!(http2.answer(first).text(), "x");
}

#[test]
fn without_keepalive_each_request_has_a_connection() {
    let upstream = TestUpstream::new();
    let group = format!("server {}; keepalive 0;", upstream.address());
    let server = setup(&group, "location / { grpc_pass grpc://backend; }").freerun();
    let mut http2 = connect(&server);
    let streams = [http2.ask_for("/a"), http2.ask_for("/b")];
    let mut peers = [accept(&upstream), accept(&upstream)];
    peers.iter_mut().for_each(answer);
    for stream in streams {
        assert_eq!(http2.answer(stream).status, 200);
    }
    for peer in peers.iter_mut() {
        assert_eq!(peer.ending(), ConnectionEnd::Closed);
        assert_eq!(peer.away().last().map(|away| away.code), Some(code::NO_ERROR));
    }
}

/// Requests that have waited for a connection which cannot be made fail with it, and do not each try it. That for which it was
/// made is tried once more.
#[test]
fn a_connection_that_ends_before_its_settings_fails_those_who_wait_for_it() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], "proxy_next_upstream off;").freerun();
    let mut http2 = connect(&server);
    let streams: Vec<u32> = (0..5).map(|number| http2.ask_for(&format!("/{number}"))).collect();
    http2.round_trip();
    let mut peer = Http2Peer::bare(upstream.accept());
    peer.head();
    peer.into_peer().close();
    answer(&mut accept(&upstream));
    assert_eq!(http2.answer(streams[0]).text(), "/0");
    for stream in &streams[1..] {
        assert_eq!(http2.answer(*stream).status, 502);
    }
    assert!(upstream.try_accept(Duration::ZERO).is_none());
}

/// A client that begins requests and gives them up costs others neither a request nor the connection that they share.
/// Whether it is ended for that is another matter (`http2/floods`).
#[test]
fn rapid_resets_of_a_client_do_not_hurt_the_connection() {
    const FRAMES: usize = 10_000;
    let upstream = TestUpstream::new();
    let lines = "keepalive_requests 1000000; location / { grpc_pass grpc://backend; }";
    let server = setup(&format!("server {}; keepalive_requests 1000000;", upstream.address()), lines).freerun();
    let mut other = connect(&server);
    let held = other.ask_for("/held");
    let mut peer = accept(&upstream);
    let asked = peer.request();
    let attacking = std::thread::spawn({
        let mut attacker = connect(&server);
        move || {
            let given_up = |http2: &mut Http2| {
                let stream = http2.next_stream();
                [Frame::headers(stream, http2.block("GET", "/given-up")).end(), Frame::reset(stream, code::CANCEL)]
            };
            attacker.flood(FRAMES, |http2, _| (0..50).flat_map(|_| given_up(http2)).collect())
        }
    });
    let mut given_up = 0;
    while !attacking.is_finished() {
        peer.set_timeout(Duration::from_millis(20));
        while let Ok(frame) = peer.try_frame() {
            if frame.kind == kind::HEADERS {
                given_up += 1;
                peer.take_message(frame.stream);
            }
        }
    }
    let flooded = attacking.join().expect("an attacker");
    assert!(given_up <= flooded.sent / 2, "{given_up} requests of {flooded:?}");
    // The connection serves those that it has carried all the time, and new ones.
    peer.set_timeout(Duration::from_secs(15));
    peer.answer(asked.stream, &ServerReply::ok("held"));
    assert_eq!(other.answer(held).text(), "held");
    let stream = other.ask_for("/later");
    let later = loop {
        // Those of the attacker that were just reset may come first.
        let asked = peer.head();
        if asked.path() == "/later" {
            break asked;
        }
    };
    peer.answer(later.stream, &ServerReply::ok("later"));
    assert_eq!(other.answer(stream).text(), "later");
    assert!(upstream.try_accept(Duration::ZERO).is_none(), "a second connection");
}

/// A connection that is used goes on over a reload, and requests of the new configuration use it, too, or make their own.
#[test]
fn calls_go_on_over_a_reload() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = super::call(&mut http2, "/a", b"one", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    server.reload();
    http2.upload(stream, b"two", true);
    assert_eq!(peer.rest_of(asked.stream).body, b"onetwo");
    peer.answer(asked.stream, &ServerReply { status: 200, ..ServerReply::default() }.trailer("grpc-status", "0"));
    assert_eq!(http2.answer(stream).trailer("grpc-status"), Some("0"));
}

#[test]
fn an_unused_connection_is_closed_in_order_when_its_time_is_over() {
    let upstream = TestUpstream::new();
    let group = format!("server {}; keepalive 2; keepalive_timeout 100ms;", upstream.address());
    let setup: Setup = setup(&group, "proxy_http_version 2; location / { proxy_pass http://backend; }");
    let server = setup.freerun();
    let mut http2 = connect(&server);
    let stream = http2.ask_for("/");
    let mut peer = accept(&upstream);
    answer(&mut peer);
    assert_eq!(http2.answer(stream).status, 200);
    assert_eq!(peer.ending(), ConnectionEnd::Closed);
    assert_eq!(peer.away().last().map(|away| away.code), Some(code::NO_ERROR));
}

/// As in nginx, a server that no `upstream` block names has a connection for each request.
#[test]
fn a_server_without_a_group_has_a_connection_for_each_request() {
    for scheme in ["grpc_pass grpc://", "proxy_http_version 2; proxy_pass http://"] {
        let upstream = TestUpstream::new();
        let pass = format!("location / {{ {scheme}{}; }}", upstream.address());
        let server = setup("server 127.0.0.1:1;", &pass).freerun();
        let mut http2 = connect(&server);
        for _ in 0..2 {
            let stream = http2.ask_for("/");
            let mut peer = accept(&upstream);
            answer(&mut peer);
            assert_eq!(http2.answer(stream).status, 200, "{scheme}");
            assert_eq!(peer.ending(), ConnectionEnd::Closed, "{scheme}");
        }
    }
}
