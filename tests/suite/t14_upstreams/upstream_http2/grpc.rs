//! Calls of gRPC.

use freerun_testkit::http2::{FieldBlock, Frame, Http2, Http2Peer, ServerReply, StreamEnd, flag, kind};
use freerun_testkit::{RefusingAddress, TestUpstream};

use super::{accept, call, called, connect, setup};

const CALL: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

/// The connections to the client and to the server go on: another call goes through.
fn another_call(http2: &mut Http2, peer: &mut Http2Peer) {
    let stream = call(http2, "/b", b"x", true);
    let asked = peer.request();
    peer.answer(asked.stream, &ServerReply { status: 200, ..ServerReply::default() }.trailer("grpc-status", "0"));
    assert_eq!(http2.answer(stream).trailer("grpc-status"), Some("0"));
}

/// Has the server answer the client's call in part.
fn answer_in_part(http2: &mut Http2, stream: u32, peer: &mut Http2Peer, asked: u32) {
    peer.answer_head(asked, 200, &[("content-type", "application/grpc")], false);
    peer.send(Frame::data(asked, "part"));
    http2.body_of(stream, 4);
}

#[test]
fn messages_go_both_ways_as_they_come() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/chat", b"hello", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    assert_eq!((asked.method(), asked.path(), asked.field("te")), ("POST", "/chat", Some("trailers")));
    assert_eq!((asked.field("content-type"), asked.field("content-length")), (Some("application/grpc"), None));
    let until = |peer: &mut Http2Peer, length: usize| {
        while peer.message(asked.stream).is_none_or(|message| message.body.len() < length) {
            peer.frame();
        }
    };
    until(&mut peer, 5);
    peer.answer_head(asked.stream, 200, &[("content-type", "application/grpc")], false);
    assert_eq!(http2.head(stream), 200);
    for round in 1..=20 {
        peer.send(Frame::data(asked.stream, "pong"));
        http2.body_of(stream, round * 4);
        http2.upload(stream, b"ping!", false);
        until(&mut peer, 5 + round * 5);
    }
    http2.send(Frame::data(stream, "").end());
    assert!(peer.rest_of(asked.stream).whole);
    let trailers = FieldBlock::new().field("grpc-status", "5").field("grpc-message", "not found");
    peer.send(Frame::headers(asked.stream, trailers).end());
    let answer = http2.answer(stream);
    assert_eq!((answer.end, answer.body().len()), (StreamEnd::Whole, 80));
    assert_eq!((answer.trailer("grpc-status"), answer.trailer("grpc-message")), (Some("5"), Some("not found")));
}

/// The end of a body comes with its last bytes, and not in a frame of its own.
#[test]
fn the_last_message_ends_the_request() {
    for lines in ["", "client_body_buffer_size 1k;"] {
        let upstream = TestUpstream::new();
        let server = called(&[&upstream], lines).freerun();
        let mut http2 = connect(&server);
        call(&mut http2, "/one", b"Hello", true);
        let mut peer = accept(&upstream);
        assert!(peer.request().message.whole);
        let data = |peer: &Http2Peer| -> Vec<(usize, bool)> {
            let seen = peer.seen().iter().filter(|seen| seen.kind == kind::DATA);
            seen.map(|seen| (seen.length, seen.flags & flag::END_STREAM != 0)).collect()
        };
        assert_eq!(data(&peer), [(5, true)], "{lines}");
    }
}

/// A receiver of short messages opens windows for them, and asks how long the way is (as grpc-go does for each round trip).
#[test]
fn short_messages_with_windows_and_questions_are_no_flood() {
    const ROUNDS: usize = 100;
    const MESSAGES: usize = 100;
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/chat", b"m", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    peer.answer_head(asked.stream, 200, &[("content-type", "application/grpc")], false);
    let batch = |stream: u32| -> Vec<Frame> {
        let message = [Frame::data(stream, "m"), Frame::ping([7; 8]), Frame::window(0, 1), Frame::window(stream, 1)];
        std::iter::repeat_n(message, MESSAGES).flatten().collect()
    };
    for round in 1..=ROUNDS {
        peer.send_all(&batch(asked.stream));
        http2.body_of(stream, round * MESSAGES);
        http2.send_all(&batch(stream));
        while peer.message(asked.stream).is_none_or(|message| message.body.len() < 1 + round * MESSAGES) {
            peer.frame();
        }
    }
    peer.send(Frame::headers(asked.stream, FieldBlock::new().field("grpc-status", "0")).end());
    assert_eq!(http2.answer(stream).trailer("grpc-status"), Some("0"));
}

/// The server may open windows and ask for each of many short calls.
#[test]
fn short_calls_are_no_flood() {
    const ROUNDS: usize = 20;
    const CALLS: usize = 40;
    let upstream = TestUpstream::new();
    let group = format!("server {}; keepalive_requests 100000;", upstream.address());
    let server = setup(&group, "location / { grpc_pass grpc://backend; }").freerun();
    let mut http2 = connect(&server);
    let mut peer = None;
    for _ in 0..ROUNDS {
        let streams: Vec<u32> = (0..CALLS).map(|_| call(&mut http2, "/a", b"m", true)).collect();
        let peer = peer.get_or_insert_with(|| accept(&upstream));
        for _ in &streams {
            let asked = peer.request();
            let mut frames = vec![Frame::ping([7; 8]); 11];
            frames.push(Frame::window(0, 1));
            frames.push(Frame::headers(asked.stream, FieldBlock::status(200).field("grpc-status", "0")).end());
            peer.send_all(&frames);
        }
        for stream in streams {
            assert_eq!(http2.answer(stream).header("grpc-status"), Some("0"));
        }
    }
    assert!(upstream.try_accept(std::time::Duration::ZERO).is_none(), "a second connection");
}

/// A response that is only a head is one frame to the client, too.
#[test]
fn trailers_only() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", true);
    let mut peer = accept(&upstream);
    let asked = peer.request();
    let fields = [("content-type", "application/grpc"), ("grpc-status", "12"), ("grpc-message", "no")];
    peer.answer_head(asked.stream, 200, &fields, true);
    let answer = http2.answer(stream);
    assert_eq!((answer.status, answer.end), (200, StreamEnd::Whole));
    assert_eq!((answer.header("grpc-status"), answer.header("grpc-message")), (Some("12"), Some("no")));
    assert!(answer.message.trailers.is_empty());
    let data = http2.seen().iter().any(|seen| seen.kind == kind::DATA && seen.stream == stream);
    assert!(!data, "{:?}", http2.seen());
}

/// A server that has answered before the client has sent everything does not take the rest (RFC 9113 section 8.1).
#[test]
fn a_whole_response_before_the_end_of_the_request() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    peer.answer_head(asked.stream, 200, &[("grpc-status", "8")], true);
    peer.send(Frame::reset(asked.stream, freerun_testkit::http2::code::NO_ERROR));
    let answer = http2.answer(stream);
    assert_eq!((answer.status, answer.header("grpc-status"), answer.end), (200, Some("8"), StreamEnd::Whole));
    // The connection goes on.
    another_call(&mut http2, &mut peer);
}

/// A client that gives a call up gives it up at the server, too.
#[test]
fn a_call_that_is_given_up_is_reset_at_the_server() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    http2.send(Frame::reset(stream, freerun_testkit::http2::code::CANCEL));
    let rest = peer.rest_of(asked.stream);
    assert_eq!(rest.reset, Some(freerun_testkit::http2::code::CANCEL));
}

/// What this server answers itself is an error of gRPC to a client of gRPC, and a page to others.
#[test]
fn errors_of_ours_are_those_of_grpc() {
    let dead = RefusingAddress::new();
    let lines = "grpc_read_timeout 100ms;
        location / { grpc_pass grpc://backend; }
        location /proxied { proxy_http_version 2; proxy_pass http://backend; }
        location /forbidden { deny all; grpc_pass grpc://backend; }
        location /page { error_page 502 = /unavailable; grpc_pass grpc://backend; }
        location = /unavailable { internal; default_type application/grpc; add_header grpc-status 14 always;
                                  add_header grpc-message \"by the page\" always; return 204; }
        location /off { grpc_errors off; grpc_pass grpc://backend; }";
    let server = setup(&format!("server {} max_fails=0;", dead.address()), lines).freerun();
    let mut http2 = connect(&server);
    for (path, status, message) in [
        ("/", "14", "502 Bad Gateway"),
        ("/proxied", "14", "502 Bad Gateway"),
        ("/forbidden", "7", "403 Forbidden"),
        ("/page", "14", "by the page"),
    ] {
        let answer = http2.request("POST", path, &CALL);
        assert_eq!(answer.header("grpc-status"), Some(status), "{path}: {answer:?}");
        assert_eq!(answer.header("grpc-message"), Some(message), "{path}");
        // 204 has no body, and so it has no type.
        let media_type = (answer.status == 200).then_some("application/grpc");
        assert_eq!(answer.header("content-type"), media_type, "{path}");
        assert_eq!(answer.body(), b"", "{path}");
    }
    assert_eq!(http2.request("POST", "/off", &CALL).status, 502);
    assert_eq!(http2.request("POST", "/", &[]).status, 502);
    assert_eq!(server.access_lines(6)[0].split('|').nth(1), Some("502"));
}

#[test]
fn a_call_that_takes_too_long_has_exceeded_its_time() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "grpc_read_timeout 100ms;").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", true);
    let mut peer = accept(&upstream);
    let asked = peer.request();
    let answer = http2.answer(stream);
    assert_eq!(
        (answer.header("grpc-status"), answer.header("grpc-message")),
        (Some("4"), Some("504 Gateway Time-out"))
    );
    // The server is told that nobody waits any more, and the connection goes on.
    while peer.message(asked.stream).is_some_and(|message| message.reset.is_none()) {
        peer.frame();
    }
    another_call(&mut http2, &mut peer);
}

/// A server that is silent, but answers when it is asked whether it is there, is waited for with `grpc_keepalive_ping`.
#[test]
fn a_silent_call_is_kept_as_long_as_its_server_answers() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "grpc_read_timeout 1s; grpc_keepalive_ping on;").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", true);
    let mut peer = accept(&upstream);
    let asked = peer.request();
    answer_in_part(&mut http2, stream, &mut peer, asked.stream);
    // Each of them comes after one timeout, and is answered.
    for _ in 0..2 {
        peer.until("a question", |frame| frame.kind == kind::PING && !frame.has(flag::ACK));
    }
    peer.send(Frame::headers(asked.stream, FieldBlock::new().field("grpc-status", "0")).end());
    assert_eq!(http2.answer(stream).trailer("grpc-status"), Some("0"));
    // One that does not answer is given up.
    let stream = call(&mut http2, "/b", b"x", true);
    let asked = peer.request();
    peer.silent();
    let answer = http2.answer(stream);
    assert_eq!(answer.header("grpc-status"), Some("4"), "{answer:?}");
    assert!(peer.message(asked.stream).is_some());
}

/// What breaks off in the middle is not taken for a whole response.
#[test]
fn a_call_that_breaks_off_is_reset() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], "").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"x", true);
    let mut peer = accept(&upstream);
    let asked = peer.request();
    answer_in_part(&mut http2, stream, &mut peer, asked.stream);
    peer.send(Frame::reset(asked.stream, freerun_testkit::http2::code::INTERNAL_ERROR));
    assert!(matches!(http2.answer(stream).end, StreamEnd::Reset(_)));
    // The client's connection goes on.
    another_call(&mut http2, &mut peer);
}
