//! Peers that cause work without asking for anything.

use super::*;
use crate::h2::flood::Flood;

/// How many of these the connection takes before it fails, and why it does.
fn taken(server: &mut Connection, mut next: impl FnMut(u32) -> Vec<u8>) -> (u32, Option<Flood>) {
    for count in 0..200_000 {
        let bytes = next(count);
        if let Err(failure) = feed(server, &bytes) {
            assert_eq!(failure.code, ErrorCode::ENHANCE_YOUR_CALM);
            return (count, failure.flood);
        }
        written(server);
    }
    panic!("it goes on for ever");
}

#[test]
fn frames_without_effect_are_paid_for() {
    let cases: [(&str, Vec<u8>); 9] = [
        ("SETTINGS", frame(kind::SETTINGS, 0, 0, &[])),
        ("SETTINGS ACK", frame(kind::SETTINGS, flag::ACK, 0, &[])),
        ("PING", frame(kind::PING, 0, 0, &[0; 8])),
        ("PING ACK", frame(kind::PING, flag::ACK, 0, &[0; 8])),
        ("PRIORITY", frame(kind::PRIORITY, 0, 1, &[0; 5])),
        ("PRIORITY_UPDATE", frame(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1, b'i'])),
        ("WINDOW_UPDATE", frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("unknown", frame(0x77, 0, 0, b"")),
        ("empty DATA", frame(kind::DATA, 0, 1, b"")),
    ];
    for (name, bytes) in cases {
        let (mut server, mut encoder) = server();
        begin(&mut server, &mut encoder, 1, false);
        let (count, flood) = taken(&mut server, |_| bytes.clone());
        assert_eq!(flood, Some(Flood::Frames), "{name}");
        assert!((1000..20_000).contains(&count), "{name}: {count}");
    }
}

#[test]
fn a_peer_that_does_not_read_gets_no_answers_without_end() {
    let (mut server, _) = server();
    let ping = frame(kind::PING, 0, 0, &[0; 8]);
    let failure = (0..100_000).find_map(|_| feed(&mut server, &ping).err()).unwrap();
    assert_eq!(failure.flood, Some(Flood::Unread));
    assert!(server.pending() < 100_000);
}

/// CVE-2023-44487.
#[test]
fn streams_that_are_reset_at_once_are_counted() {
    let (mut server, mut encoder) = server();
    let (count, flood) = taken(&mut server, |count| {
        let id = count * 2 + 1;
        [request(&mut encoder, id, true), frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
    });
    assert_eq!(flood, Some(Flood::Resets));
    assert!(count <= 1001, "{count}");
    assert!(server.used_slots() <= 20, "requests that have not ended are bounded");
}

/// The same attack on requests that are answered before their resets are looked at.
#[test]
fn answered_streams_that_are_reset_are_counted() {
    let (mut server, mut encoder) = server();
    let (count, flood) = taken(&mut server, |count| {
        let id = count * 2 + 1;
        [request(&mut encoder, id, true), frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
    });
    let mut at_once = 0;
    let (mut server, mut encoder) = self::server();
    let ended = (0..10_000).find(|count| {
        let id = count * 2 + 1;
        let slot = begin(&mut server, &mut encoder, id, true);
        server.head(slot, true, |encoder, out| encoder.status(200, out));
        server.release(slot);
        written(&mut server);
        at_once += 1;
        feed(&mut server, &frame(kind::RST_STREAM, 0, id, &[0, 0, 0, 8])).is_err()
    });
    assert_eq!(flood, Some(Flood::Resets));
    assert!(ended.is_some() && at_once <= 2 * count, "{at_once} and {count}");
}

/// CVE-2025-8671.
#[test]
fn streams_that_have_to_be_reset_are_counted() {
    let (mut server, mut encoder) = server();
    let (count, flood) = taken(&mut server, |count| {
        let id = count * 2 + 1;
        [request(&mut encoder, id, false), frame(kind::WINDOW_UPDATE, 0, id, &[0; 4])].concat()
    });
    assert_eq!(flood, Some(Flood::Resets));
    assert!(count <= 1001, "{count}");
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let (mut server, mut encoder) = server();
    for id in 0..10 {
        begin(&mut server, &mut encoder, id * 2 + 1, true);
    }
    written(&mut server);
    assert_eq!(feed(&mut server, &request(&mut encoder, 21, true)), Ok(vec![]));
    let sent = frames(&written(&mut server));
    assert_eq!((sent[0].0.kind, &sent[0].1[..]), (kind::RST_STREAM, &ErrorCode::REFUSED_STREAM.0.to_be_bytes()[..]));
    assert_eq!(server.open_streams(), 10);
    let (_, flood) = taken(&mut server, |count| request(&mut encoder, 23 + count * 2, true));
    assert_eq!(flood, Some(Flood::Resets));
}

/// The family of CVE-2024-27316.
#[test]
fn heads_without_end_are_refused() {
    for (name, part) in [("empty", &b""[..]), ("tiny", b"\x82"), ("large", &[0x41; 10_000])] {
        let (mut server, _) = server();
        feed(&mut server, &frame(kind::HEADERS, 0, 1, b"\x82")).unwrap();
        let failures = (0..1000).find_map(|_| feed(&mut server, &frame(kind::CONTINUATION, 0, 1, part)).err());
        assert_eq!(failures.unwrap().flood, Some(Flood::Fields), "{name}");
        assert!(server.heap_bytes() < 60_000, "{name}");
    }
}

/// CVE-2026-49975: references of one byte each to a long field.
#[test]
fn fields_count_with_what_they_become() {
    let (mut server, mut encoder) = server();
    let mut block = request_block(&mut encoder, "/");
    block.extend_from_slice(b"\x40\x01a\x7f\x81\x07");
    block.extend_from_slice(&[b'x'; 256]);
    // The field that was added last has number 62.
    block.extend_from_slice(&[0x80 | 62; 1000]);
    let failure = feed(&mut server, &frame(kind::HEADERS, 5, 1, &block)).unwrap_err();
    assert_eq!((failure.code, failure.flood), (ErrorCode::ENHANCE_YOUR_CALM, Some(Flood::Fields)));
    let (mut connection, mut encoder) = super::server();
    let mut block = request_block(&mut encoder, "/");
    block.extend_from_slice(&b"\x00\x06cookie\x00".repeat(2000)[..16_000]);
    let failure = feed(&mut connection, &frame(kind::HEADERS, 5, 1, &block[..16_000])).unwrap_err();
    assert_eq!(failure.flood, Some(Flood::Fields));
}
