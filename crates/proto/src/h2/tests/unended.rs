//! Requests that are answered before they have ended.

use super::*;

/// A block of fields that ends a message.
fn trailers(encoder: &mut Encoder, id: u32) -> Vec<u8> {
    let mut block = Vec::new();
    encoder.begin(&mut block);
    encoder.field(b"late", b"yes", &mut block);
    frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, id, &block)
}

/// Begins a request, whose body may have been announced to be this long, and answers it. What was written is gone.
fn answered(server: &mut Connection, encoder: &mut Encoder, id: u32, length: Option<u64>) -> Slot {
    let slot = begin(server, encoder, id, false);
    length.into_iter().for_each(|length| server.expect(slot, length));
    answer(server, slot, b"no");
    server.release(slot);
    let sent = shape(&written(server));
    assert_eq!(sent.iter().map(|frame| frame.0).collect::<Vec<_>>(), [kind::HEADERS, kind::DATA]);
    slot
}

/// The streams that are reset in these bytes, with the codes.
fn resets(bytes: &[u8]) -> Vec<(u32, u32)> {
    let resets = frames(bytes).into_iter().filter(|(head, _)| head.kind == kind::RST_STREAM);
    resets.map(|(head, payload)| (head.stream, u32::from_be_bytes(payload.try_into().unwrap()))).collect()
}

#[test]
fn a_short_rest_is_thrown_away_and_ends_the_stream() {
    for ends_with_trailers in [false, true] {
        let (mut server, mut encoder) = server();
        let slot = answered(&mut server, &mut encoder, 1, None);
        assert!(server.is_idle());
        assert_eq!((server.open_streams(), server.used_slots()), (1, 0));
        assert_eq!(feed_split(&mut server, &frame(kind::DATA, 0, 1, &[0; 10_000]), 999, 0), Ok(vec![]));
        let (end, seen) = if ends_with_trailers {
            let fields = vec![("late".into(), "yes".into())];
            (trailers(&mut encoder, 1), vec![Seen::Trailers(slot, fields)])
        } else {
            (frame(kind::DATA, flag::END_STREAM, 1, b"end"), vec![])
        };
        assert_eq!(feed(&mut server, &end), Ok(seen));
        assert_eq!(server.open_streams(), 0);
        assert_eq!(feed(&mut server, &frame(kind::RST_STREAM, 0, 1, &[0; 4])), Ok(vec![]));
        begin(&mut server, &mut encoder, 3, true);
        assert_eq!(written(&mut server), b"");
    }
}

#[test]
fn a_rest_that_needs_more_window_is_cut_off_without_an_error() {
    // It is known from the beginning.
    let (mut server, mut encoder) = server();
    let slot = begin(&mut server, &mut encoder, 1, false);
    server.expect(slot, 65_536);
    answer(&mut server, slot, b"no");
    assert_eq!(resets(&written(&mut server)), [(1, 0)]);
    server.release(slot);
    assert_eq!(feed(&mut server, &frame(kind::DATA, 0, 1, b"late")), Ok(vec![]));
    // What was on its way is ignored, but for the table of header compression.
    assert_eq!(feed(&mut server, &trailers(&mut encoder, 1)), Ok(vec![]));
    // Most of the window was used before the answer.
    let slot = begin(&mut server, &mut encoder, 3, false);
    for _ in 0..3 {
        feed(&mut server, &frame(kind::DATA, 0, 3, &[0; 16_384])).unwrap();
    }
    answer(&mut server, slot, b"no");
    assert_eq!(resets(&written(&mut server)), [(3, 0)]);
    server.release(slot);
    // The client goes on.
    answered(&mut server, &mut encoder, 5, None);
    for _ in 0..2 {
        assert_eq!(feed(&mut server, &frame(kind::DATA, 0, 5, &[0; 16_000])), Ok(vec![]));
        assert_eq!(written(&mut server), b"");
    }
    assert_eq!(feed(&mut server, &frame(kind::DATA, 0, 5, &[0; 16_000])), Ok(vec![]));
    assert_eq!(resets(&written(&mut server)), [(5, 0)]);
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn a_rest_that_does_not_come_is_not_waited_for() {
    let (mut server, mut encoder) = server();
    for (id, now) in [(1, 1000), (3, 1200)] {
        feed_split(&mut server, &request(&mut encoder, id, false), usize::MAX, now).unwrap();
        let slot = server.streams.find(id).unwrap();
        answer(&mut server, slot, b"no");
        server.release(slot);
    }
    written(&mut server);
    assert_eq!(server.unended_since(), Some(1000));
    server.cut_off_until(999);
    assert_eq!(written(&mut server), b"");
    server.cut_off_until(1000);
    assert_eq!((resets(&written(&mut server)), server.unended_since()), (vec![(1, 0)], Some(1200)));
    server.cut_off_until(2000);
    assert_eq!((resets(&written(&mut server)), server.open_streams()), (vec![(3, 0)], 0));
}

#[test]
fn rules_hold_until_the_request_has_ended() {
    use ErrorCode as E;
    let cases: &[(&str, Vec<u8>, E)] = &[
        ("a length above", frame(kind::DATA, 0, 1, b"123456"), E::PROTOCOL_ERROR),
        ("a length below", frame(kind::DATA, flag::END_STREAM, 1, b"1234"), E::PROTOCOL_ERROR),
        ("trailers that end nothing", frame(kind::HEADERS, 4, 1, b""), E::PROTOCOL_ERROR),
        ("pseudo-fields in trailers", frame(kind::HEADERS, 5, 1, b"\x82"), E::PROTOCOL_ERROR),
        ("WINDOW_UPDATE of 0", frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]), E::PROTOCOL_ERROR),
        ("window overflow", frame(kind::WINDOW_UPDATE, 0, 1, &[0x7f, 255, 255, 255]), E::FLOW_CONTROL_ERROR),
    ];
    for (name, bytes, code) in cases {
        let (mut server, mut encoder) = server();
        let slot = answered(&mut server, &mut encoder, 1, Some(5));
        assert_eq!(feed(&mut server, bytes).unwrap().last(), Some(&Seen::Reset(slot, *code, false)), "{name}");
        assert_eq!(resets(&written(&mut server)), [(1, code.0)], "{name}");
        assert_eq!((server.open_streams(), server.used_slots()), (0, 0), "{name}");
        begin(&mut server, &mut encoder, 3, true);
    }
    // A client that resets the stream has closed it.
    let (mut server, mut encoder) = server();
    let slot = answered(&mut server, &mut encoder, 1, None);
    let reset = feed(&mut server, &frame(kind::RST_STREAM, 0, 1, &[0; 4]));
    assert_eq!(reset, Ok(vec![Seen::Reset(slot, E::NO_ERROR, true)]));
    assert_eq!(feed(&mut server, &frame(kind::DATA, 0, 1, b"x")).unwrap_err().code, E::STREAM_CLOSED);
}

#[test]
fn they_are_few_and_hold_up_no_other_stream() {
    let (mut server, mut encoder) = server();
    for id in (1..=9).step_by(2) {
        answered(&mut server, &mut encoder, id, None);
    }
    let slot = begin(&mut server, &mut encoder, 11, false);
    answer(&mut server, slot, b"no");
    assert_eq!(resets(&written(&mut server)), [(1, 0)]);
    server.release(slot);
    // As many streams as the client may have, all of which are served.
    for id in (13..=31).step_by(2) {
        begin(&mut server, &mut encoder, id, true);
    }
    assert_eq!(resets(&written(&mut server)), [(3, 0), (5, 0), (7, 0), (9, 0), (11, 0)]);
    assert_eq!(server.open_streams(), 10);
}

#[test]
fn small_pieces_that_nobody_reads_are_paid_for() {
    for length in [None, Some(60_000)] {
        let (mut server, mut encoder) = server();
        let mut id = 1;
        answered(&mut server, &mut encoder, id, length);
        let failure = (0..1_000_000).find_map(|_| {
            let failure = feed(&mut server, &frame(kind::DATA, 0, id, b"x")).err();
            if failure.is_none() && !resets(&written(&mut server)).is_empty() {
                id += 2;
                answered(&mut server, &mut encoder, id, length);
            }
            failure
        });
        assert_eq!(failure.map(|failure| failure.code), Some(ErrorCode::ENHANCE_YOUR_CALM), "{length:?}");
        assert!(id < 5, "{id}");
    }
}

/// CVE-2025-8671, on streams that were answered at once.
#[test]
fn answered_streams_on_which_the_rules_are_broken_are_counted() {
    let (mut server, mut encoder) = server();
    let failure = (0..2000).find_map(|number| {
        let id = number * 2 + 1;
        answered(&mut server, &mut encoder, id, None);
        let failure = feed(&mut server, &frame(kind::WINDOW_UPDATE, 0, id, &[0x7f, 0xff, 0xff, 0xff])).err();
        written(&mut server);
        failure.map(|failure| (number, failure.code))
    });
    let (count, code) = failure.unwrap();
    assert_eq!(code, ErrorCode::ENHANCE_YOUR_CALM);
    assert!(count <= 1001, "{count}");
}

/// A connection that fails has nothing going on, whatever its streams had still to send.
#[test]
fn a_failed_connection_keeps_no_streams() {
    let (mut server, mut encoder) = server();
    answered(&mut server, &mut encoder, 1, None);
    let slot = begin(&mut server, &mut encoder, 3, true);
    server.head(slot, false, |encoder, out| encoder.status(200, out));
    server.data(slot, vec![0; 100_000].into(), true);
    server.release(slot);
    assert_eq!(server.used_slots(), 1);
    feed(&mut server, &frame(kind::PING, 0, 1, &[0; 8])).unwrap_err();
    assert_eq!((server.used_slots(), server.is_finished()), (0, true));
}

/// The fields of a block that resets its stream are not those of the next request.
#[test]
fn fields_of_broken_blocks_are_told_by_an_event() {
    let (mut server, mut encoder) = server();
    begin(&mut server, &mut encoder, 1, false);
    let mut sink = Collected::default();
    let mut priority = Vec::from([0, 0, 0, 3, 16]);
    priority.extend(request_block(&mut encoder, "/self"));
    let self_dependent = frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM | flag::PRIORITY, 3, &priority);
    for bytes in [frame(kind::HEADERS, 4, 1, &request_block(&mut encoder, "/again")), self_dependent] {
        let mut bytes = &bytes[..];
        while server.receive(&mut bytes, 0, &mut sink).unwrap().is_some() {
            sink.0.clear();
        }
        assert_eq!(sink.0, []);
    }
}
