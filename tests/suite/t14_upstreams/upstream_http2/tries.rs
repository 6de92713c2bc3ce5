//! Requests that are sent again: to the same server, or to another one.

use freerun_testkit::http2::{Frame, Http2Peer, ServerReply, StreamRequest, answering, code};
use freerun_testkit::{ConnectionEnd, Setup, TestUpstream, eventually};

use super::{accept, call, called, connect, failures, proxied, two};

const STATUS: &str = "location = /status { status; }";

/// A server that does this with every request of every connection, until the process ends.
fn doing(upstream: TestUpstream, act: impl Fn(&mut Http2Peer, &StreamRequest) + Send + Sync + Clone + 'static) {
    std::thread::spawn(move || {
        while let Some(peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) {
            let act = act.clone();
            std::thread::spawn(move || {
                let mut peer = Http2Peer::new(peer.patient());
                while let Ok(asked) = peer.try_request() {
                    act(&mut peer, &asked);
                }
            });
        }
    });
}

/// Resets the stream of a request with this code.
fn resets(code: u32) -> impl Fn(&mut Http2Peer, &StreamRequest) + Send + Sync + Clone + 'static {
    move |peer: &mut Http2Peer, asked: &StreamRequest| {
        let _ = peer.try_send(&[Frame::reset(asked.stream, code)]);
    }
}

/// A server that answers with what it was sent.
fn echo(upstream: TestUpstream) -> freerun_testkit::http2::Http2Server {
    answering(upstream, |asked| ServerReply::ok(&asked.message.body).field("x-method", asked.method()))
}

#[track_caller]
fn statuses(
    setup: &Setup,
    first: TestUpstream,
    second: TestUpstream,
    act: impl Fn(&mut Http2Peer, &StreamRequest) + Send + Sync + Clone + 'static,
) -> Vec<String> {
    let server = setup.freerun();
    doing(first, act);
    let second = echo(second);
    let mut http2 = connect(&server);
    http2.get("/get");
    http2.post("/post", "body");
    let lines = server.access_lines(2);
    drop(second);
    lines.iter().map(|line| line.split('|').next_back().unwrap_or_default().to_owned()).collect()
}

/// A server that refuses a stream has not looked at the request, whatever it asks for.
#[test]
fn a_refused_stream_is_tried_elsewhere_even_if_it_is_not_idempotent() {
    for (lines, get, post) in [
        ("", "502, 200", "502, 200"),
        ("proxy_next_upstream http_500;", "502, 200", "502, 200"),
        ("proxy_next_upstream off;", "502", "502"),
    ] {
        let (first, second) = two();
        // The first one stays the first one.
        let lines = format!("{lines} proxy_next_upstream_tries 2;");
        let group = format!("server {} max_fails=0; server {} backup;", first.address(), second.address());
        let pass = "proxy_http_version 2; location / { proxy_pass http://backend; }";
        let setup = super::setup(&group, &format!("{lines} {pass}"));
        let found = statuses(&setup, first, second, resets(code::REFUSED_STREAM));
        assert_eq!(found, [get, post], "{lines}");
    }
}

/// Any other reset may come after the request has been done. As in nginx it is an answer that is not valid.
#[test]
fn a_reset_stream_is_tried_elsewhere_if_it_may_be() {
    for (lines, get, post) in [
        ("", "502", "502"),
        ("proxy_next_upstream error non_idempotent;", "502", "502"),
        ("proxy_next_upstream invalid_header;", "502, 200", "502"),
        ("proxy_next_upstream invalid_header non_idempotent;", "502, 200", "502, 200"),
        ("proxy_next_upstream http_500;", "502", "502"),
    ] {
        let (first, second) = two();
        let group = format!("server {} max_fails=0; server {} backup;", first.address(), second.address());
        let pass = "proxy_http_version 2; location / { proxy_pass http://backend; }";
        let setup = super::setup(&group, &format!("{lines} {pass}"));
        let found = statuses(&setup, first, second, resets(code::INTERNAL_ERROR));
        assert_eq!(found, [get, post], "{lines}");
    }
}

/// The same through `grpc_pass`. The message of a call goes to the server as it comes, and is not kept: a call with one is
/// never made again.
#[test]
fn a_call_whose_stream_is_reset_is_tried_elsewhere_if_it_may_be() {
    for (lines, get, empty) in [
        ("", "502", "502"),
        ("grpc_next_upstream error non_idempotent;", "502", "502"),
        ("grpc_next_upstream invalid_header;", "502, 200", "502"),
        ("grpc_next_upstream invalid_header non_idempotent;", "502, 200", "502, 200"),
    ] {
        let (first, second) = two();
        let group = format!("server {} max_fails=0; server {} backup;", first.address(), second.address());
        let server = super::setup(&group, &format!("{lines} location / {{ grpc_pass grpc://backend; }}")).run();
        doing(first, resets(code::INTERNAL_ERROR));
        let _second = echo(second);
        let mut http2 = connect(&server);
        http2.get("/get");
        http2.exchange(http2.block("POST", "/empty"));
        let stream = call(&mut http2, "/call", b"hello", true);
        http2.answer(stream);
        let lines_of_log = server.access_lines(3);
        let tried = lines_of_log.iter().map(|line| line.split('|').next_back().unwrap_or_default());
        assert!(tried.eq([get, empty, "502"]), "{lines}: {lines_of_log:?}");
    }
}

#[test]
fn statuses_and_wrong_heads_are_tried_elsewhere() {
    let error = |peer: &mut Http2Peer, asked: &StreamRequest| {
        let _ = peer.try_answer(asked.stream, &ServerReply { status: 503, ..ServerReply::default() });
    };
    let wrong = |peer: &mut Http2Peer, asked: &StreamRequest| {
        let block = freerun_testkit::http2::FieldBlock::status(200).field("Upper", "x");
        let _ = peer.try_send(&[Frame::headers(asked.stream, block)]);
    };
    for way in [0, 1] {
        let (first, second) = two();
        let group = format!("server {} max_fails=0; server {} backup;", first.address(), second.address());
        let lines = "proxy_next_upstream error http_503 invalid_header non_idempotent;
                     proxy_http_version 2; location / { proxy_pass http://backend; }";
        let setup = super::setup(&group, lines);
        let found = match way {
            0 => statuses(&setup, first, second, error),
            _ => statuses(&setup, first, second, wrong),
        };
        let expected = if way == 0 { "503, 200" } else { "502, 200" };
        assert_eq!(found, [expected; 2]);
    }
}

/// First on another connection of the same server, which may lead to another process of it.
#[test]
fn a_refused_stream_is_sent_on_another_connection_first() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    let stream = http2.begin(http2.block("POST", "/").field("content-length", "4"));
    http2.upload(stream, b"body", true);
    let mut peer = accept(&upstream);
    let asked = peer.request();
    peer.send(Frame::reset(asked.stream, code::REFUSED_STREAM));
    let mut other = accept(&upstream);
    let again = other.request();
    assert_eq!((again.method(), again.message.body.as_slice()), ("POST", &b"body"[..]));
    other.answer(again.stream, &ServerReply::ok("done"));
    assert_eq!(http2.answer(stream).text(), "done");
    assert_eq!(server.access_lines(1)[0], format!("/|200|{}|200", upstream.address()));
    assert_eq!(failures(&server, 0), []);
}

/// A server that goes away has not looked at what came behind its last stream; the others it answers.
#[test]
fn streams_above_the_last_one_of_goaway_are_sent_again_and_nothing_has_failed() {
    for reason in [code::NO_ERROR, code::ENHANCE_YOUR_CALM] {
        let upstream = TestUpstream::new();
        let server = proxied(&[&upstream], STATUS).freerun();
        let mut http2 = connect(&server);
        let first = http2.ask_for("/first");
        let mut peer = accept(&upstream);
        let one = peer.request();
        let second = http2.begin(http2.block("POST", "/second").field("content-length", "4"));
        http2.upload(second, b"body", true);
        let two = peer.request();
        assert!(two.stream > one.stream);
        peer.send(Frame::goaway(one.stream, reason));
        let mut other = accept(&upstream);
        let again = other.request();
        assert_eq!((again.path(), again.message.body.as_slice()), ("/second", &b"body"[..]));
        other.answer(again.stream, &ServerReply::ok("elsewhere"));
        assert_eq!(http2.answer(second).text(), "elsewhere");
        peer.answer(one.stream, &ServerReply::ok("still here"));
        assert_eq!(http2.answer(first).text(), "still here");
        // Nothing is left on the connection that ends, and it is closed.
        assert_eq!(peer.ending(), ConnectionEnd::Closed);
        assert_eq!(failures(&server, 0), [], "{reason}");
        let lines = server.access_lines(3);
        assert!(
            lines.iter().filter(|line| !line.starts_with("/status")).all(|line| line.ends_with("|200")),
            "{lines:?}"
        );
    }
}

/// GOAWAY on a connection that nobody uses is not seen by the next request.
#[test]
fn a_connection_that_went_away_is_not_used_again() {
    let upstream = TestUpstream::new();
    let server = proxied(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    for round in 0..5 {
        let stream = http2.ask_for("/");
        let mut peer = accept(&upstream);
        let asked = peer.request();
        peer.answer(asked.stream, &ServerReply::ok("x"));
        assert_eq!(http2.answer(stream).text(), "x", "{round}");
        peer.send(Frame::goaway(asked.stream, code::NO_ERROR));
        if round % 2 == 0 {
            assert_eq!(peer.ending(), ConnectionEnd::Closed);
        } else {
            peer.into_peer().close();
        }
    }
    assert_eq!(failures(&server, 0), []);
}

/// A connection that ends before the server has said anything was accepted by nobody: it has been in the queue of a socket
/// that was closed. Once the server has sent its SETTINGS, it may have done what was asked.
#[test]
fn what_nobody_has_accepted_is_sent_again() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    for reset in [true, false] {
        let stream = call(&mut http2, "/a", b"body", true);
        let peer = Http2Peer::bare(upstream.accept()).into_peer();
        if reset {
            peer.reset()
        } else {
            peer.close()
        }
        let mut other = accept(&upstream);
        let again = other.request();
        assert_eq!(again.message.body, b"body");
        other.answer_head(again.stream, 200, &[("grpc-status", "0")], true);
        assert_eq!(http2.answer(stream).header("grpc-status"), Some("0"));
        // A call on a connection on which the server was heard is not.
        let stream = call(&mut http2, "/b", b"body", true);
        other.request();
        other.into_peer().close();
        assert_eq!(http2.answer(stream).header("grpc-status"), Some("14"));
        assert!(upstream.try_accept(std::time::Duration::ZERO).is_none());
    }
}

/// A call is sent again although its messages come from the client one by one, as long as there are few of them.
#[test]
fn a_streamed_body_is_sent_again_as_far_as_it_was_sent() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"one", false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    while peer.message(asked.stream).is_none_or(|message| message.body != b"one") {
        peer.frame();
    }
    peer.send(Frame::reset(asked.stream, code::REFUSED_STREAM));
    let mut other = accept(&upstream);
    let again = other.head();
    while other.message(again.stream).is_none_or(|message| message.body != b"one") {
        other.frame();
    }
    http2.upload(stream, b"two", true);
    assert_eq!(other.rest_of(again.stream).body, b"onetwo");
    other.answer(again.stream, &ServerReply { status: 200, ..ServerReply::default() }.trailer("grpc-status", "0"));
    let answer = http2.answer(stream);
    assert_eq!((answer.status, answer.trailer("grpc-status")), (200, Some("0")));
}

/// The server may be gone by then: what was sent to nobody is for another server.
#[test]
fn a_streamed_body_is_sent_elsewhere_if_the_server_goes_away() {
    let (first, second) = two();
    let group = format!("server {} max_fails=0; server {} backup;", first.address(), second.address());
    let server = super::setup(&group, "location / { grpc_pass grpc://backend; }").freerun();
    let mut http2 = connect(&server);
    let stream = call(&mut http2, "/a", b"one", false);
    let mut peer = accept(&first);
    let asked = peer.head();
    while peer.message(asked.stream).is_none_or(|message| message.body != b"one") {
        peer.frame();
    }
    drop(first);
    peer.send(Frame::goaway(0, code::NO_ERROR));
    http2.upload(stream, b"two", true);
    let mut other = accept(&second);
    let again = other.request();
    assert_eq!(again.message.body, b"onetwo");
    other.answer_head(again.stream, 200, &[("grpc-status", "0")], true);
    assert_eq!(http2.answer(stream).header("grpc-status"), Some("0"));
}

/// The head of the response may come before what was sent in the first try is sent again.
#[test]
fn an_early_response_does_not_lose_what_is_sent_again() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    let message = vec![b'm'; 60_000];
    let stream = call(&mut http2, "/a", &message, false);
    let mut peer = accept(&upstream);
    let asked = peer.head();
    while peer.message(asked.stream).is_none_or(|got| got.body.len() < message.len()) {
        peer.frame();
    }
    peer.send(Frame::reset(asked.stream, code::REFUSED_STREAM));
    // The second server takes 1,000 bytes before it has answered.
    let window = [(freerun_testkit::http2::setting::INITIAL_WINDOW_SIZE, 1000)];
    let mut other = Http2Peer::with(upstream.accept(), &window);
    other.windows_by_hand();
    let again = other.head();
    while other.message(again.stream).is_none_or(|got| got.body.len() < 1000) {
        other.frame();
    }
    other.answer_head(again.stream, 200, &[], false);
    assert_eq!(http2.head(stream), 200);
    other.open_window(again.stream, 1 << 20);
    http2.upload(stream, b"end", true);
    let body = other.rest_of(again.stream).body;
    assert!(body == [&message[..], b"end"].concat(), "{} bytes", body.len());
    other.send(Frame::headers(again.stream, freerun_testkit::http2::FieldBlock::new().field("grpc-status", "0")).end());
    assert_eq!(http2.answer(stream).trailer("grpc-status"), Some("0"));
}

/// More than is kept cannot be sent again.
#[test]
fn a_long_streamed_body_is_not_sent_again() {
    let upstream = TestUpstream::new();
    let server = called(&[&upstream], STATUS).freerun();
    let mut http2 = connect(&server);
    let message = vec![b'm'; 200_000];
    let stream = http2.begin(http2.block("POST", "/a").field("content-type", "application/grpc"));
    let mut peer = std::thread::scope(|scope| {
        let peer = scope.spawn(|| {
            let mut peer = accept(&upstream);
            let asked = peer.head();
            while peer.message(asked.stream).is_none_or(|got| got.body.len() < 200_000) {
                peer.frame();
            }
            peer.send(Frame::reset(asked.stream, code::REFUSED_STREAM));
            peer
        });
        http2.upload(stream, &message, false);
        peer.join().expect("a server")
    });
    let answer = http2.answer(stream);
    assert_eq!((answer.status, answer.header("grpc-status")), (200, Some("14")));
    server.logs("upstream rejected request with error 7");
    eventually("the connection ends, which takes no stream", || peer.try_frame().is_err());
}
