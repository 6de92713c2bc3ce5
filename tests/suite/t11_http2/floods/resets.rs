//! Streams that are begun and torn down.

use super::{Attacked, Nginx, can_be_tried};
use freerun_testkit::http2::{FieldBlock, Frame, Http2, code, kind};
use freerun_testkit::{Site, TestUpstream, require};

/// A request that is given up at once.
fn given_up(http2: &mut Http2, path: &str) -> [Frame; 2] {
    let stream = http2.next_stream();
    [Frame::headers(stream, http2.block("GET", path)).end(), Frame::reset(stream, code::CANCEL)]
}

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    for size in [1, 20, 1000] {
        attacked.by_many(&format!("{size} at a time"), |http2, most| {
            http2.flood(most, |http2, _| (0..size).flat_map(|_| given_up(http2, "/")).collect())
        });
    }
    attacked.is_told("rapid reset", 3);
}

/// Each request takes the server to an upstream; what was begun there counts until it is torn down.
#[test]
fn rapid_reset_of_requests_to_an_upstream() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("location /up {{ proxy_pass http://{}; }}", upstream.address());
    let attacked = Attacked::new(Site::new(), &lines);
    let accepting = std::thread::spawn(move || {
        let mut peers = Vec::new();
        while let Some(peer) = upstream.try_accept(std::time::Duration::from_secs(3)) {
            peers.push(peer);
        }
        peers.len()
    });
    attacked.ends("rapid reset", |http2, most| {
        http2.flood(most, |http2, _| (0..50).flat_map(|_| given_up(http2, "/up")).collect())
    });
    let connections = accepting.join().expect("an upstream");
    assert!(connections < 5000, "{connections} connections to the upstream");
}

impl Attacked {
    /// As [`ends`](Attacked::ends), and the lines of the log are looked at when all attacks are over.
    #[track_caller]
    fn by_many(&self, what: &str, attack: impl FnOnce(&mut Http2, usize) -> freerun_testkit::http2::FloodOutcome) {
        let flooded = self.by(|http2| attack(http2, super::MOST));
        assert!(flooded.is_ended() && flooded.sent < super::MOST, "{what}: {flooded:?}");
        assert_eq!(flooded.code(), Some(code::ENHANCE_YOUR_CALM), "{what}: {flooded:?}");
    }
}

/// CVE-2025-8671: the client makes the server reset the streams, in every way that the protocol has.
#[test]
fn made_you_reset() {
    if !require::freerun() {
        return;
    }
    let upstream = TestUpstream::new();
    let lines = format!("location /up {{ proxy_request_buffering off; proxy_pass http://{}; }}", upstream.address());
    type Made = fn(u32, FieldBlock) -> Vec<Frame>;
    let ways: [(&str, Made); 7] = [
        ("an update by nothing", |stream, block| vec![Frame::headers(stream, block), Frame::window(stream, 0)]),
        ("an update by too much", |stream, block| {
            vec![Frame::headers(stream, block), Frame::window(stream, (1 << 31) - 1)]
        }),
        ("DATA behind the end", |stream, block| vec![Frame::headers(stream, block).end(), Frame::data(stream, "x")]),
        ("HEADERS behind the end", |stream, block| {
            vec![Frame::headers(stream, &block).end(), Frame::headers(stream, block).end()]
        }),
        ("a wrong length", |stream, block| {
            vec![Frame::headers(stream, block.field("content-length", "1")), Frame::data(stream, "xx")]
        }),
        ("a short PRIORITY", |stream, block| {
            vec![Frame::headers(stream, block), Frame::new(kind::PRIORITY, 0, stream, [0; 4])]
        }),
        ("a malformed head", |stream, block| vec![Frame::headers(stream, block.field("X", "y")).end()]),
    ];
    for path in ["/", "/up"] {
        for (what, way) in ways {
            let attacked = Attacked::new(Site::new(), &lines);
            let most = super::MOST;
            let flooded = attacked.by(|http2| {
                http2.flood(most, |http2, _| {
                    let mut frames = Vec::new();
                    for _ in 0..20 {
                        let stream = http2.next_stream();
                        frames.extend(way(stream, http2.block("POST", path)));
                    }
                    frames
                })
            });
            // Some of them are errors of the connection by themselves.
            assert!(flooded.is_ended() && flooded.sent < most, "{what} of {path}: {flooded:?}");
            assert!(flooded.code().is_some_and(|code| code != code::NO_ERROR), "{what} of {path}: {flooded:?}");
            // Requests of their own are told, too.
            let requests = "while reading client request headers";
            attacked.is_told_besides(requests, what, 1);
        }
    }
}

/// Beyond `http2_max_concurrent_streams`, again and again.
#[test]
fn streams_that_are_refused() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let upstream = TestUpstream::new();
    let lines =
        format!("http2_max_concurrent_streams 10; location /up {{ proxy_pass http://{}; }}", upstream.address());
    let attacked = Attacked::new(Site::new(), &lines);
    attacked.ends("streams that are refused", |http2, most| {
        http2.flood(most, |http2, _| {
            (0..20).map(|_| Frame::headers(http2.next_stream(), http2.block("GET", "/up")).end()).collect()
        })
    });
    drop(upstream);
}

#[test]
fn resets_of_streams_that_have_ended() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("RST_STREAM", |http2, most| {
        let stream = http2.ask_for("/");
        http2.answer(stream);
        http2.flood(most, |_, _| vec![Frame::reset(stream, code::CANCEL); 100])
    });
}

/// A browser that leaves a page gives up a hundred streams at once.
#[test]
fn a_page_that_is_left_is_no_attack() {
    let site = Site::new();
    site.file("file", vec![b'x'; 100_000]);
    let attacked = Attacked::new(site, "location /file { }");
    let mut http2 = attacked.connect();
    for _ in 0..3 {
        let streams: Vec<u32> = (0..100).map(|_| http2.ask_for("/file")).collect();
        let frames: Vec<Frame> = streams.iter().map(|stream| Frame::reset(*stream, code::CANCEL)).collect();
        http2.send_all(&frames);
        http2.round_trip();
        for _ in 0..100 {
            assert_eq!(http2.get("/").text(), "ok");
        }
    }
    assert!(http2.away().is_empty(), "{:?}", http2.away());
}

/// Somebody who clicks on faster than a slow server answers gives up one page after the other, and nothing is answered
/// in between. A download, or a WebSocket, on the same connection has to outlive that.
#[test]
fn pages_that_are_left_one_after_the_other_are_no_attack() {
    let site = Site::new();
    site.file("file", vec![b'x'; 100_000]);
    let attacked = Attacked::new(site, "location /file { }");
    let mut http2 = attacked.connect();
    for _ in 0..9 {
        let streams: Vec<u32> = (0..100).map(|_| http2.ask_for("/file")).collect();
        let frames: Vec<Frame> = streams.iter().map(|stream| Frame::reset(*stream, code::CANCEL)).collect();
        http2.send_all(&frames);
        http2.round_trip();
    }
    assert_eq!(http2.get("/").text(), "ok");
    assert!(http2.away().is_empty(), "{:?}", http2.away());
}
