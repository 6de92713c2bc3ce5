//! Peers that keep a connection busy: each kind ends with `H3_EXCESSIVE_LOAD`.

use super::*;
use crate::flood::Flood;

/// Repeats a step until the connection fails, and returns how often it was taken.
fn until_failure(most: usize, mut step: impl FnMut(usize) -> Result<(), H3ConnectionError>) -> (usize, Option<Flood>) {
    for count in 0..most {
        if let Err(error) = step(count) {
            assert_eq!(error.code, H3ErrorCode::H3_EXCESSIVE_LOAD, "{}", error.what);
            return (count, error.flood);
        }
    }
    panic!("{most} times are not too often");
}

fn check(most: usize, flood: Flood, step: impl FnMut(usize) -> Result<(), H3ConnectionError>) {
    let (count, found) = until_failure(most, step);
    assert_eq!(found, Some(flood));
    assert!(count > 500, "a peer that does nothing wrong may do it {count} times");
}

#[test]
fn frames_without_effect() {
    for (id, frame) in [
        (0, frame(0x21, &[])),
        (0, data(b"")),
        (CLIENT[0], frame(0x21, &[])),
        (CLIENT[0], frame(kind::MAX_PUSH_ID, &[1])),
        (CLIENT[0], frame(kind::GOAWAY, &[1])),
        (CLIENT[0], frame(kind::PRIORITY_UPDATE, &[0])),
    ] {
        let mut server = server();
        assert!(feed(&mut server, 0, &get(), false).is_ok());
        check(20_000, Flood::Frames, |_| feed(&mut server, id, &frame, false).map(|_| ()));
    }
    // Frames with large payloads are fewer.
    let mut server = server();
    let frame = frame(0x21, &[0; 100_000]);
    let (count, flood) = until_failure(100, |_| feed(&mut server, CLIENT[0], &frame, false).map(|_| ()));
    assert_eq!((count, flood), (5, Some(Flood::Frames)));
}

#[test]
fn short_pieces_of_a_body_that_nobody_reads() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), false).is_ok());
    for _ in 0..20_000 {
        assert!(feed(&mut server, 0, &data(b"x"), false).is_ok(), "somebody reads it");
    }
    server.stop_at_end(StreamId(0), H3ErrorCode::H3_MESSAGE_ERROR);
    check(20_000, Flood::Frames, |_| feed(&mut server, 0, &data(b"x"), false).map(|_| ()));
}

#[test]
fn streams_without_a_meaning() {
    let mut machine = server();
    check(20_000, Flood::Frames, |count| feed(&mut machine, 14 + count as u64 * 4, &[0x21], false).map(|_| ()));
    let mut machine = server();
    check(20_000, Flood::Frames, |count| feed(&mut machine, 14 + count as u64 * 4, &[], true).map(|_| ()));
    let mut machine = server();
    let (count, _) = until_failure(100, |count| feed(&mut machine, 14 + count as u64 * 4, &[0x40], false).map(|_| ()));
    assert_eq!(count, 16, "streams that do not say what they are take memory");
}

#[test]
fn streams_that_are_begun_and_given_up() {
    let cancelled = H3ErrorCode::H3_REQUEST_CANCELLED;
    let mut machine = server();
    check(2000, Flood::Resets, |count| {
        let id = count as u64 * 4;
        feed(&mut machine, id, &get(), false)?;
        machine.peer_resets(StreamId(id), cancelled, 0)?;
        machine.release(StreamId(id));
        Ok(())
    });
    // The server itself gives them up, because of what the client does.
    let mut machine = server();
    check(2000, Flood::Resets, |count| feed(&mut machine, count as u64 * 4, &[], true).map(|_| ()));
    // They do not even begin.
    let mut machine = server();
    check(2000, Flood::Resets, |count| machine.peer_resets(StreamId(count as u64 * 4), cancelled, 0).map(|_| ()));
    // Whether they are answered before is chance.
    let mut machine = server();
    check(2000, Flood::Resets, |count| {
        let id = count as u64 * 4;
        feed(&mut machine, id, &get(), true)?;
        respond(&mut machine, id, b"x");
        assert_eq!(machine.end(StreamId(id)), None);
        machine.peer_stops(StreamId(id), cancelled, 0)?;
        machine.release(StreamId(id));
        Ok(())
    });
    // Malformed requests that are answered.
    let mut machine = server();
    check(2000, Flood::Resets, |count| {
        let id = count as u64 * 4;
        feed(&mut machine, id, &get(), true)?;
        machine.stop_at_end(StreamId(id), H3ErrorCode::H3_MESSAGE_ERROR);
        respond(&mut machine, id, b"x");
        assert_eq!(machine.end(StreamId(id)), None);
        machine.release(StreamId(id));
        Ok(())
    });
    // One now and then is a client that changes its mind.
    let mut machine = server();
    for count in 0..5000u64 {
        let id = StreamId(count * 4);
        assert!(feed_rest(&mut machine, id.0, &get(), true, count * 50).is_ok());
        assert!(machine.peer_stops(id, cancelled, count * 50).is_ok());
        machine.release(id);
    }
}

#[test]
fn instructions_without_requests() {
    for instruction in [&b"\x3f\xe1\x1f"[..], b"\x00", b"\xc1\x02/x"] {
        let mut server = server();
        assert!(feed(&mut server, CLIENT[1], b"\x02\x3f\xe1\x1f\xc1\x02/x", false).is_ok());
        check(40_000, Flood::Frames, |_| {
            feed(&mut server, CLIENT[1], instruction, false)?;
            written(&mut server, OwnStream::Decoder);
            Ok(())
        });
    }
    // A byte that copies a large entry costs more.
    let mut machine = server();
    let value = "x".repeat(3000);
    let insertion = [b"\x02\x3f\xe1\x1f\xc1\x7f\xb9\x16", value.as_bytes()].concat();
    assert!(feed(&mut machine, CLIENT[1], &insertion, false).is_ok());
    let (count, _) = until_failure(1000, |_| {
        feed(&mut machine, CLIENT[1], b"\x00", false)?;
        written(&mut machine, OwnStream::Decoder);
        Ok(())
    });
    assert!((100..200).contains(&count), "{count}");
    // Cancellations of streams that have nothing to be cancelled.
    let mut machine = server();
    assert!(feed(&mut machine, CLIENT[2], b"\x03", false).is_ok());
    check(20_000, Flood::Frames, |_| feed(&mut machine, CLIENT[2], b"\x40", false).map(|_| ()));
    // A browser that inserts for each of its requests goes on for ever.
    let mut machine = server();
    assert!(feed(&mut machine, CLIENT[1], b"\x02\x3f\xe1\x1f", false).is_ok());
    for count in 0..5000u64 {
        let insertion = |number: u64| [b"\xc1\x2f".to_vec(), format!("{number:0>47}").into_bytes()].concat();
        let insertions: Vec<u8> = (0..8).flat_map(insertion).collect();
        assert!(feed(&mut machine, CLIENT[1], &insertions, false).is_ok(), "{count}");
        assert!(feed(&mut machine, count * 4, &get(), true).is_ok());
        respond(&mut machine, count * 4, b"x");
        assert_eq!(machine.end(StreamId(count * 4)), None);
        machine.release(StreamId(count * 4));
        write_all(&mut machine);
    }
}

#[test]
fn answers_that_nobody_reads() {
    let mut server = server();
    assert!(feed(&mut server, CLIENT[1], b"\x02\x3f\xe1\x1f\xc1\x02/x", false).is_ok());
    let request = frame(kind::HEADERS, b"\x02\x00\xd1\xd7\x50\x01a\x80");
    let (count, flood) = until_failure(100_000, |count| {
        let id = count as u64 * 4;
        feed(&mut server, id, &request, true)?;
        respond(&mut server, id, b"x");
        assert_eq!(server.end(StreamId(id)), None);
        server.release(StreamId(id));
        Ok(())
    });
    assert_eq!(flood, Some(Flood::Unread));
    assert!(count > 10_000, "{count}");
}

#[test]
fn instructions_that_nobody_reads_are_not_made() {
    let mut server = connection_with(&config(Role::Server), &[(settings::QPACK_MAX_TABLE_CAPACITY, 4096)]);
    for count in 0..2000u64 {
        let id = StreamId(count * 4);
        assert!(feed(&mut server, id.0, &get(), true).is_ok());
        let value = format!("{count:0>200}");
        assert!(server.head(id, &mut Vec::new(), |encoder, out| encoder.field(b"Server", value.as_bytes(), out)));
        assert_eq!(server.end(id), None);
        server.release(id);
        assert!(server.output(OwnStream::Encoder).len() < 17_000);
    }
}

#[test]
fn heads_that_do_not_end_take_bounded_memory() {
    let config = H3Config { max_streams: 1000, ..config(Role::Server) };
    let mut server = connection_with(&config, &[]);
    let part = [number(kind::HEADERS), number(32_000), vec![0; 31_000]].concat();
    let (count, flood) = until_failure(1000, |count| feed(&mut server, count as u64 * 4, &part, false).map(|_| ()));
    assert_eq!((count, flood), (33, Some(Flood::Fields)));
    assert_eq!(server.heap_bytes() / 1024, 0, "nothing is kept");
}
