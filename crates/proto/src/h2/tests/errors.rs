//! Peers that break the rules.

use super::*;

/// The code with which the connection fails.
fn code_of(server: &mut Connection, bytes: &[u8]) -> ErrorCode {
    let failure = feed(server, bytes).unwrap_err();
    let sent = frames(&written(server));
    let (head, payload) = sent.last().unwrap();
    assert_eq!((head.kind, &payload[4..8]), (kind::GOAWAY, &failure.code.0.to_be_bytes()[..]));
    assert_eq!(feed(server, b"more"), Err(failure), "it stays so");
    failure.code
}

#[test]
fn wrong_frames_end_the_connection() {
    use ErrorCode as E;
    let headers = flag::END_HEADERS | flag::END_STREAM;
    let cases: &[(&str, Vec<u8>, E)] = &[
        ("DATA on 0", frame(kind::DATA, 0, 0, b"x"), E::PROTOCOL_ERROR),
        ("DATA on an idle stream", frame(kind::DATA, 0, 9, b"x"), E::PROTOCOL_ERROR),
        ("DATA on a stream of ours", frame(kind::DATA, 0, 2, b"x"), E::PROTOCOL_ERROR),
        ("HEADERS on 0", frame(kind::HEADERS, headers, 0, b"\x82"), E::PROTOCOL_ERROR),
        ("HEADERS on an even stream", frame(kind::HEADERS, headers, 2, b"\x82"), E::PROTOCOL_ERROR),
        ("too much padding", frame(kind::HEADERS, headers | flag::PADDED, 1, b"\x05\x82"), E::PROTOCOL_ERROR),
        ("no priority", frame(kind::HEADERS, headers | flag::PRIORITY, 1, b"\x82"), E::FRAME_SIZE_ERROR),
        ("bad HPACK", frame(kind::HEADERS, headers, 1, b"\x80"), E::COMPRESSION_ERROR),
        ("short PRIORITY", frame(kind::PRIORITY, 0, 1, b"1234"), E::FRAME_SIZE_ERROR),
        ("PRIORITY on itself", frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), E::PROTOCOL_ERROR),
        ("RST_STREAM on idle", frame(kind::RST_STREAM, 0, 1, &[0; 4]), E::PROTOCOL_ERROR),
        ("RST_STREAM on 0", frame(kind::RST_STREAM, 0, 0, &[0; 4]), E::PROTOCOL_ERROR),
        ("short RST_STREAM", frame(kind::RST_STREAM, 0, 1, &[0; 3]), E::FRAME_SIZE_ERROR),
        ("SETTINGS on a stream", frame(kind::SETTINGS, 0, 1, &[]), E::PROTOCOL_ERROR),
        ("half a setting", frame(kind::SETTINGS, 0, 0, &[0; 5]), E::FRAME_SIZE_ERROR),
        ("ACK with settings", frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]), E::FRAME_SIZE_ERROR),
        ("too large window", frame(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), E::FLOW_CONTROL_ERROR),
        ("PUSH_PROMISE", frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2]), E::PROTOCOL_ERROR),
        ("PING on a stream", frame(kind::PING, 0, 1, &[0; 8]), E::PROTOCOL_ERROR),
        ("short PING", frame(kind::PING, 0, 0, &[0; 7]), E::FRAME_SIZE_ERROR),
        ("GOAWAY on a stream", frame(kind::GOAWAY, 0, 1, &[0; 8]), E::PROTOCOL_ERROR),
        ("WINDOW_UPDATE of 0", frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]), E::PROTOCOL_ERROR),
        ("WINDOW_UPDATE on idle", frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), E::PROTOCOL_ERROR),
        ("window overflow", frame(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]), E::FLOW_CONTROL_ERROR),
        ("CONTINUATION alone", frame(kind::CONTINUATION, 4, 1, b"\x82"), E::PROTOCOL_ERROR),
        ("PRIORITY_UPDATE for 0", frame(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]), E::PROTOCOL_ERROR),
        ("too large", FrameHead { len: 16_385, kind: 99, flags: 0, stream: 0 }.bytes().to_vec(), E::FRAME_SIZE_ERROR),
    ];
    for (name, bytes, code) in cases {
        let (mut connection, _) = server();
        assert_eq!(code_of(&mut connection, bytes), *code, "{name}");
    }
}

#[test]
fn the_first_bytes_have_to_be_right() {
    let mut server = Connection::new(&config(Role::Server));
    assert_eq!(code_of(&mut server, b"GET / HTTP/1.1\r\n"), ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn a_head_that_does_not_come_costs_its_stream_alone() {
    let (mut server, mut encoder) = server();
    let bytes = request(&mut encoder, 1, true);
    let (first, second) = bytes.split_at(12);
    feed(&mut server, first).unwrap();
    server.give_up_block();
    server.give_up_block();
    assert_eq!(shape(&written(&mut server)), [(kind::RST_STREAM, 1, 4, false)]);
    assert_eq!(feed(&mut server, second), Ok(vec![]));
    begin(&mut server, &mut encoder, 3, true);
}

#[test]
fn only_its_continuation_follows_a_part_of_a_head() {
    let (mut connection, mut encoder) = server();
    let block = request_block(&mut encoder, "/");
    let (first, second) = block.split_at(3);
    feed(&mut connection, &frame(kind::HEADERS, flag::END_STREAM, 1, first)).unwrap();
    assert!(connection.is_in_block());
    assert_eq!(
        code_of(&mut connection, &frame(kind::CONTINUATION, flag::END_HEADERS, 3, second)),
        ErrorCode::PROTOCOL_ERROR
    );
    let (mut connection, _) = server();
    feed(&mut connection, &frame(kind::HEADERS, flag::END_STREAM, 1, first)).unwrap();
    let seen = feed(&mut connection, &frame(kind::CONTINUATION, flag::END_HEADERS, 1, second)).unwrap();
    assert!(matches!(&seen[..], [Seen::Head(_, true, fields)] if fields.len() == 4), "{seen:?}");
    assert!(!connection.is_in_block());
}

#[test]
fn wrong_frames_on_a_stream_reset_it() {
    use ErrorCode as E;
    let cases: &[(&str, bool, Vec<u8>, E)] = &[
        ("DATA behind the end", true, frame(kind::DATA, 0, 1, b"x"), E::STREAM_CLOSED),
        ("trailers behind the end", true, frame(kind::HEADERS, 5, 1, b""), E::STREAM_CLOSED),
        ("trailers that end nothing", false, frame(kind::HEADERS, 4, 1, b""), E::PROTOCOL_ERROR),
        ("pseudo-fields in trailers", false, frame(kind::HEADERS, 5, 1, b"\x82"), E::PROTOCOL_ERROR),
        ("WINDOW_UPDATE of 0", false, frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]), E::PROTOCOL_ERROR),
        ("window overflow", false, frame(kind::WINDOW_UPDATE, 0, 1, &[0x7f, 255, 255, 255]), E::FLOW_CONTROL_ERROR),
        ("PRIORITY on itself", false, frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]), E::PROTOCOL_ERROR),
    ];
    for (name, ends, bytes, code) in cases {
        let (mut server, mut encoder) = server();
        let slot = begin(&mut server, &mut encoder, 1, *ends);
        assert_eq!(feed(&mut server, bytes), Ok(vec![Seen::Reset(slot, *code, false)]), "{name}");
        let sent = frames(&written(&mut server));
        assert_eq!((sent[0].0.kind, &sent[0].1[..]), (kind::RST_STREAM, &code.0.to_be_bytes()[..]), "{name}");
        server.release(slot);
        begin(&mut server, &mut encoder, 3, true);
    }
}

#[test]
fn a_body_has_the_length_that_was_announced() {
    for (body, ends, missing) in [(&b"123456"[..], false, 0), (b"1234", true, 1)] {
        let (mut server, mut encoder) = server();
        let slot = begin(&mut server, &mut encoder, 1, false);
        server.expect(slot, 5);
        let seen = feed(&mut server, &frame(kind::DATA, u8::from(ends), 1, body)).unwrap();
        assert_eq!(seen.last(), Some(&Seen::WrongLength(slot, missing)), "{ends}");
        assert_eq!(feed(&mut server, &frame(kind::PING, 0, 0, &[0; 8])), Ok(vec![]));
        written(&mut server);
        answer(&mut server, slot, b"400");
        assert_eq!(shape(&written(&mut server)).last().unwrap().0, kind::RST_STREAM);
    }
}

#[test]
fn more_than_the_window_resets_the_stream() {
    let (mut server, mut encoder) = server();
    let slot = begin(&mut server, &mut encoder, 1, false);
    for _ in 0..3 {
        feed(&mut server, &frame(kind::DATA, 0, 1, &[0; 16_384])).unwrap();
    }
    let seen = feed(&mut server, &frame(kind::DATA, 0, 1, &[0; 16_384])).unwrap();
    assert_eq!(seen, [Seen::Reset(slot, ErrorCode::FLOW_CONTROL_ERROR, false)]);
}

#[test]
fn frames_for_closed_streams_are_told_apart() {
    let closed = |how: &dyn Fn(&mut Connection, Slot)| {
        let (mut server, mut encoder) = server();
        let slot = begin(&mut server, &mut encoder, 1, true);
        how(&mut server, slot);
        server.release(slot);
        written(&mut server);
        (server, encoder)
    };
    let complete = |server: &mut Connection, slot| {
        answer(server, slot, b"x");
        written(server);
    };
    let by_peer = |server: &mut Connection, _| drop(feed(server, &frame(kind::RST_STREAM, 0, 1, &[0; 4])));
    for how in [&complete as &dyn Fn(&mut Connection, Slot), &by_peer] {
        let (mut server, _) = closed(how);
        assert_eq!(code_of(&mut server, &frame(kind::DATA, 0, 1, b"x")), ErrorCode::STREAM_CLOSED);
        let (mut server, mut encoder) = closed(how);
        let code = code_of(&mut server, &request(&mut encoder, 1, true));
        assert!([ErrorCode::STREAM_CLOSED, ErrorCode::PROTOCOL_ERROR].contains(&code), "{code:?}");
        // These may have been on their way.
        let (mut server, _) = closed(how);
        for late in [frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), frame(kind::RST_STREAM, 0, 1, &[0; 4])] {
            assert_eq!(feed(&mut server, &late), Ok(vec![]));
        }
    }
    let (mut server, mut encoder) = server();
    begin(&mut server, &mut encoder, 5, true);
    assert_eq!(code_of(&mut server, &request(&mut encoder, 3, true)), ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn padding_is_given_back_and_may_be_all_there_is() {
    for part in [1, 3, 1000] {
        let (mut server, mut encoder) = server();
        let slot = begin(&mut server, &mut encoder, 1, false);
        let padded = frame(kind::DATA, flag::PADDED, 1, &[&[200][..], b"body", &[0; 200]].concat());
        assert_eq!(feed_split(&mut server, &padded, part, 0), Ok(vec![Seen::Data(slot, b"body".to_vec())]));
        let only = frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, &[&[10][..], &[0; 10]].concat());
        assert_eq!(feed_split(&mut server, &only, part, 0), Ok(vec![Seen::End(slot)]));
        server.consumed(slot, 4);
        let (mut connection, mut encoder) = super::server();
        begin(&mut connection, &mut encoder, 1, false);
        assert_eq!(code_of(&mut connection, &frame(kind::DATA, flag::PADDED, 1, &[5, 0])), ErrorCode::PROTOCOL_ERROR);
    }
}

#[test]
fn a_malformed_request_is_answered_and_reset() {
    let (mut server, mut encoder) = server();
    let slot = begin(&mut server, &mut encoder, 1, true);
    server.reset_at_end(slot, ErrorCode::PROTOCOL_ERROR);
    answer(&mut server, slot, b"400");
    let kinds: Vec<_> = shape(&written(&mut server)).iter().map(|frame| frame.0).collect();
    assert_eq!(kinds, [kind::HEADERS, kind::DATA, kind::RST_STREAM]);
}
