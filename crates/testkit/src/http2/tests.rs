//! The client and the server of the harness talk to each other.

use super::*;
use crate::{ConnectionEnd, TestClient, TestUpstream, Tls, TlsServer};
use std::time::Duration;

fn client(upstream: &str) -> TestClient {
    TestClient::connect(upstream.parse().expect("an address"))
}

#[test]
fn whole_exchanges_with_bodies_beyond_the_windows() {
    let body: Vec<u8> = (0..1_000_000_u32).map(|place| (place * 31 + place / 253) as u8).collect();
    let answer = |asked: &StreamRequest| match asked.path() {
        "/nothing" => ServerReply { status: 204, ..ServerReply::default() },
        "/error" => ServerReply::default(),
        _ => ServerReply { status: 200, ..ServerReply::default() }
            .field("x-a", "b")
            .body(&asked.message.body)
            .trailer("x-sum", "1"),
    };
    for secure in [false, true] {
        let upstream = if secure { TestUpstream::tls(TlsServer::new("ec").alpn(&["h2"])) } else { TestUpstream::new() };
        let upstream = answering(upstream, answer);
        let mut http2 = if secure {
            Http2::tls(client(upstream.address()), &Tls::new(), &[])
        } else {
            Http2::new(client(upstream.address()))
        };
        let got = http2.post("/", &body);
        assert_eq!(
            (got.status, got.header("x-a"), got.trailer("x-sum"), got.end),
            (200, Some("b"), Some("1"), StreamEnd::Whole)
        );
        assert!(got.body() == body);
        assert_eq!(
            (http2.get("/nothing").status, http2.get("/error").end),
            (204, StreamEnd::Reset(code::INTERNAL_ERROR))
        );
        assert_eq!((upstream.connections(), http2.next_stream()), (1, 7));
    }
}

#[test]
fn a_played_server_answers_step_by_step() {
    let upstream = TestUpstream::new();
    let mut http2 = Http2::with(client(&upstream.address()), &[(setting::INITIAL_WINDOW_SIZE, 3)]);
    http2.windows_by_hand();
    let (first, second) = (http2.ask_for("/first"), http2.ask_for("/second"));
    let mut peer = Http2Peer::with(upstream.accept(), &[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    assert_eq!(peer.request().path(), "/first");
    assert_eq!((peer.request().path(), peer.setting(setting::INITIAL_WINDOW_SIZE)), ("/second", 3));
    peer.send(Frame::headers(second, FieldBlock::status(103).field("link", "x")));
    peer.answer_head(second, 200, &[("x-b", "c")], false);
    assert_eq!(peer.room(second), 3);
    peer.send(Frame::data(second, "ab").padded(0));
    assert_eq!(http2.head(second), 200);
    let message = http2.message(second).expect("a message");
    assert_eq!((message.interim.len(), message.field("x-b")), (1, Some("c")));
    peer.send(Frame::reset(first, code::REFUSED_STREAM)).send(Frame::goaway(second, code::NO_ERROR));
    assert_eq!(http2.answer(first).end, StreamEnd::Reset(code::REFUSED_STREAM));
    http2.open_window(second, 10);
    peer.until("a window", |frame| frame.kind == kind::WINDOW_UPDATE);
    peer.send(Frame::data(second, "def").end());
    assert_eq!(http2.answer(second).text(), "abdef");
    assert_eq!(http2.setting(setting::MAX_CONCURRENT_STREAMS), 2);
    let late = http2.ask_for("/late");
    assert_eq!(http2.answer(late).end, StreamEnd::Away(code::NO_ERROR));
    peer.into_peer().close();
    let (code, ending) = http2.end();
    assert_eq!((code, ending == ConnectionEnd::Silent), (Some(code::NO_ERROR), false));
}

/// What a server may not send ends the test.
#[test]
fn a_server_that_breaks_a_rule_is_told() {
    let wrongs: [(&str, &[Frame]); 8] = [
        ("more than the window", &[Frame::headers(1, FieldBlock::status(200)), Frame::data(1, [0; 11])]),
        ("data before the head", &[Frame::data(1, "x")]),
        ("data behind the end", &[Frame::headers(1, FieldBlock::status(200)).end(), Frame::data(1, "x")]),
        ("another stream", &[Frame::headers(3, FieldBlock::status(200))]),
        ("no status", &[Frame::headers(1, FieldBlock::new().field("x", "y"))]),
        (
            "a wrong length",
            &[Frame::headers(1, FieldBlock::status(200).field("content-length", "2")), Frame::data(1, "x").end()],
        ),
        ("something within a block", &[Frame::headers_begun(1, FieldBlock::status(200)), Frame::ping([0; 8])]),
        ("an answer to nothing", &[Frame::settings_taken(), Frame::settings_taken(), Frame::settings_taken()]),
    ];
    for (what, frames) in wrongs {
        let upstream = TestUpstream::new();
        let address = upstream.address();
        let frames = frames.to_vec();
        let asking = std::thread::spawn(move || {
            let mut http2 = Http2::with(client(&address), &[(setting::INITIAL_WINDOW_SIZE, 10)]);
            http2.set_timeout(Duration::from_secs(5));
            let stream = http2.ask_for("/");
            http2.answer(stream);
            http2.ending();
        });
        let mut peer = Http2Peer::new(upstream.accept());
        peer.request();
        peer.send_all(&frames);
        assert!(asking.join().is_err(), "{what}");
    }
}

#[test]
fn a_flood_tells_how_it_was_ended() {
    let upstream = TestUpstream::new();
    let address = upstream.address();
    let serving = std::thread::spawn(move || {
        let mut peer = Http2Peer::new(upstream.accept());
        while peer.count(kind::PING) < 1000 {
            peer.frame();
        }
        peer.send(Frame::goaway(0, code::ENHANCE_YOUR_CALM));
        peer.ending()
    });
    let mut http2 = Http2::new(client(&address));
    let flooded = http2.flood(1_000_000, |_, number| vec![Frame::ping([number as u8; 8]); 50]);
    assert!((1000..1_000_000).contains(&flooded.sent) && flooded.is_ended(), "{flooded:?}");
    assert_eq!(flooded.code(), Some(code::ENHANCE_YOUR_CALM));
    drop(http2);
    assert_ne!(serving.join().expect("a server"), ConnectionEnd::Silent);
}
