//! Heads that are endless, or that grow when they are decoded.

use super::{Attacked, Nginx, can_be_tried};
use freerun_testkit::http2::{FieldBlock, FloodOutcome, Frame, Http2, StreamEnd, code, flag, setting};
use freerun_testkit::{ConnectionEnd, Kind, Site};
use std::time::Duration;

/// CVE-2024-27316 and its family: fields without end.
#[test]
fn continuations() {
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("CONTINUATION", |http2, most| {
        let stream = http2.next_stream();
        http2.expect(stream);
        http2.send(Frame::headers_begun(stream, http2.block("GET", "/")).end());
        http2.flood(most, |_, number| {
            let block = FieldBlock::new().field(format!("x-{number}"), "x".repeat(1000));
            vec![Frame::continuation(stream, block); 10]
        })
    });
}

#[test]
fn empty_continuations() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    attacked.ends("empty CONTINUATION", |http2, most| {
        let stream = http2.next_stream();
        http2.expect(stream);
        http2.send(Frame::headers_begun(stream, http2.block("GET", "/")).end());
        http2.flood(most, |_, _| vec![Frame::continuation(stream, []); 100])
    });
}

/// The bytes of one long string, one in a frame.
#[test]
fn continuations_of_one_byte() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "large_client_header_buffers 4 64k;");
    attacked.ends("CONTINUATION of a byte", |http2, most| {
        let stream = http2.next_stream();
        http2.expect(stream);
        let begun = http2.block("GET", "/").raw([0, 1, b'x']).integer(60_000, 7, 0);
        http2.send(Frame::headers_begun(stream, begun).end());
        http2.flood(most, |_, _| vec![Frame::continuation(stream, "x"); 100])
    });
}

/// A byte now and then holds the head open no longer than `client_header_timeout`, counted from its beginning.
#[test]
fn slow_continuations() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "client_header_timeout 1s;");
    let flooded = attacked.by(|http2| {
        let stream = http2.next_stream();
        http2.expect(stream);
        http2.send(Frame::headers_begun(stream, http2.block("GET", "/")).end());
        http2.flood(600, |_, _| {
            std::thread::sleep(Duration::from_millis(25));
            vec![Frame::continuation(stream, FieldBlock::new().indexed(2))]
        })
    });
    assert!(flooded.is_ended() && flooded.sent < 600, "{flooded:?}");
    assert_ne!(flooded.ending, Some(ConnectionEnd::Silent));
    attacked.is_told("slow CONTINUATION", 1);
}

/// A head that takes little in the frames and much in memory: the fields' names and values, and 32 bytes for each of
/// them (RFC 9113 section 6.5.2).
fn bomb(references: usize) -> FieldBlock {
    (0..references).fold(FieldBlock::get("/").kept("x-bomb", "x".repeat(3900)), |block, _| block.indexed(62))
}

/// Sends a block as one head, in frames of 16,384 bytes at most.
fn send_head(http2: &mut Http2, block: &FieldBlock) -> u32 {
    let stream = http2.next_stream();
    http2.expect(stream);
    let mut pieces = block.as_ref().chunks(16_384);
    let mut frames = vec![Frame::headers_begun(stream, pieces.next().unwrap_or_default()).end()];
    frames.extend(pieces.map(|piece| Frame::continuation(stream, piece)));
    if let Some(last) = frames.last_mut() {
        last.flags |= flag::END_HEADERS;
    }
    // The server may end the connection in the middle.
    let _ = http2.try_send(&frames);
    stream
}

/// CVE-2016-6581.
#[test]
fn hpack_bomb() {
    let attacked = Attacked::new(Site::new(), "");
    for references in [20, 16_000, 1_000_000] {
        let mut http2 = attacked.connect();
        let stream = send_head(&mut http2, &bomb(references));
        let answer = http2.answer(stream);
        let told = [
            StreamEnd::Away(code::ENHANCE_YOUR_CALM),
            StreamEnd::Gone(ConnectionEnd::Closed, Some(code::ENHANCE_YOUR_CALM)),
        ];
        assert!(told.contains(&answer.end), "{references} references: {:?}", answer.end);
        attacked.serves_others();
        attacked.has_not_grown();
    }
    if attacked.server.kind() == Kind::Freerun {
        attacked.is_told("an HPACK bomb", 3);
    }
}

/// CVE-2026-49975: each reference is a byte and adds next to nothing to what a limit of bytes counts, but takes memory
/// for a field. The streams are held by a window of zero.
#[test]
fn one_byte_references_held_by_a_zero_window() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    for (name, value) in [("a", ""), ("cookie", ""), ("cookie", "a")] {
        let site = Site::new();
        site.file("file", vec![b'x'; 100_000]);
        let attacked = Attacked::new(site, "location /file { }");
        let mut http2 = attacked.connect();
        http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)])).round_trip();
        let first = FieldBlock::get("/file").kept(name, value);
        let head = (0..16_000).fold(FieldBlock::get("/file"), |block, _| block.indexed(62));
        let stream = http2.ask(first);
        assert_eq!(http2.head(stream), 200);
        for _ in 0..100 {
            let stream = send_head(&mut http2, &head);
            if http2.poll().is_err() || http2.away().iter().any(|away| away.code != 0) {
                break;
            }
            // It is refused by a page, or by the end of the connection; in no case it is held.
            let refused = loop {
                if http2.message(stream).is_some_and(|message| message.status() != 0) {
                    break http2.message(stream).is_some_and(|message| message.status() == 400);
                }
                if http2.try_frame().is_err() {
                    break true;
                }
            };
            assert!(refused, "16,000 fields {name:?}: {value:?} are served");
        }
        attacked.serves_others();
        attacked.has_not_grown();
    }
}

/// As many fields as are allowed, on as many streams as are allowed, all held by windows of zero.
#[test]
fn the_largest_heads_on_all_streams_have_a_bound() {
    let site = Site::new();
    site.file("file", vec![b'x'; 100_000]);
    let attacked = Attacked::new(site, "location /file { }");
    let mut http2 = attacked.connect();
    http2.windows_by_hand().send(Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 0)])).round_trip();
    let block =
        (0..7).fold(FieldBlock::get("/file"), |block, number| block.field(format!("x-{number}"), "x".repeat(4000)));
    for _ in 0..128 {
        send_head(&mut http2, &block);
    }
    http2.round_trip();
    // 128 times 28,000 bytes, and as much again.
    attacked.serves_others();
    attacked.has_not_grown();
}

/// Tables that are filled anew with every request.
#[test]
fn entries_that_push_each_other_out() {
    let attacked = Attacked::new(Site::new(), "");
    let mut http2 = attacked.connect();
    for number in 0..500 {
        let block =
            (0..60).fold(http2.block("GET", "/"), |block, field| block.kept(format!("x{field}"), format!("{number}")));
        let stream = http2.ask(block);
        if http2.answer(stream).text() != "ok" {
            break;
        }
    }
    attacked.serves_others();
    attacked.has_not_grown();
}

/// A size update is a byte, too: many of them are no head.
#[test]
fn size_updates_without_end() {
    let attacked = Attacked::new(Site::new(), "");
    let flooded = attacked.by(|http2| {
        let stream = http2.next_stream();
        http2.expect(stream);
        http2.send(Frame::headers_begun(stream, []).end());
        let updates = (0..5000).fold(FieldBlock::new(), |block, number| block.table_size(number % 2 * 4096));
        http2.flood(super::MOST, |_, _| vec![Frame::continuation(stream, &updates); 10])
    });
    if attacked.server.kind() == Kind::Freerun {
        assert!(flooded.is_ended() && flooded.sent < super::MOST, "{flooded:?}");
        attacked.is_told("size updates", 1);
    }
}

/// The same as [`FloodOutcome::is_ended`], for heads on streams that go on one after the other.
#[test]
fn malformed_heads_without_end() {
    if !can_be_tried(Nginx::GoesOn) {
        return;
    }
    let attacked = Attacked::new(Site::new(), "");
    let flooded: FloodOutcome = attacked.by(|http2| {
        http2.flood(super::MOST, |http2, _| {
            (0..20)
                .map(|_| Frame::headers(http2.next_stream(), http2.block("GET", "/").field("X", "y")).end())
                .collect()
        })
    });
    assert!(flooded.is_ended() && flooded.sent < super::MOST, "{flooded:?}");
}
