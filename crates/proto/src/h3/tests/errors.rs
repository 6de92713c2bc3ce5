//! Peers that break the rules: each rule has its code.

use super::*;

type Code = H3ErrorCode;

/// The control stream with settings, and then these frames.
fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    [&[number(0), frame(kind::SETTINGS, &[])], frames].concat().concat()
}

#[test]
fn control_streams_have_their_rules() {
    let (id, unexpected) = (Code::H3_ID_ERROR, Code::H3_FRAME_UNEXPECTED);
    let cases: [(Role, Vec<u8>, Code); 25] = [
        (Role::Server, [number(0), frame(kind::GOAWAY, &[0])].concat(), Code::H3_MISSING_SETTINGS),
        (Role::Client, [number(0), frame(0x21, &[])].concat(), Code::H3_MISSING_SETTINGS),
        (Role::Server, control(&[frame(kind::SETTINGS, &[])]), unexpected),
        (Role::Server, control(&[data(b"x")]), unexpected),
        (Role::Server, control(&[get()]), unexpected),
        (Role::Server, control(&[frame(kind::PUSH_PROMISE, &[0])]), unexpected),
        (Role::Client, control(&[frame(kind::MAX_PUSH_ID, &[0])]), unexpected),
        (Role::Client, control(&[frame(kind::PRIORITY_UPDATE, &[0])]), unexpected),
        (Role::Server, control(&[frame(2, &[])]), unexpected),
        (Role::Server, control(&[frame(6, &[0; 8])]), unexpected),
        (Role::Server, control(&[frame(8, &[])]), unexpected),
        (Role::Server, control(&[frame(9, &[])]), unexpected),
        (Role::Server, [number(0), frame(kind::SETTINGS, &[2, 0])].concat(), Code::H3_SETTINGS_ERROR),
        (Role::Server, [number(0), frame(kind::SETTINGS, &[8, 2])].concat(), Code::H3_SETTINGS_ERROR),
        (Role::Server, [number(0), frame(kind::SETTINGS, &[8])].concat(), Code::H3_FRAME_ERROR),
        (Role::Server, control(&[frame(kind::GOAWAY, &[])]), Code::H3_FRAME_ERROR),
        (Role::Server, control(&[frame(kind::GOAWAY, &[0, 0])]), Code::H3_FRAME_ERROR),
        (Role::Server, control(&[frame(kind::MAX_PUSH_ID, &[0x40])]), Code::H3_FRAME_ERROR),
        (Role::Server, control(&[frame(kind::MAX_PUSH_ID, &[3]), frame(kind::MAX_PUSH_ID, &[2])]), id),
        (Role::Server, control(&[frame(kind::CANCEL_PUSH, &[0])]), id),
        (Role::Client, control(&[frame(kind::GOAWAY, &[5])]), id),
        (Role::Client, control(&[frame(kind::GOAWAY, &[4]), frame(kind::GOAWAY, &[8])]), id),
        (Role::Server, control(&[frame(kind::PRIORITY_UPDATE, &[1])]), id),
        (Role::Server, control(&[frame(kind::PRIORITY_UPDATE_PUSH, &[0])]), id),
        (Role::Server, control(&[frame(kind::PRIORITY_UPDATE, &[0; 5000])]), Code::H3_EXCESSIVE_LOAD),
    ];
    for (role, bytes, code) in cases {
        let stream = if role == Role::Server { CLIENT[0] } else { SERVER[0] };
        let mut machine = H3Connection::new(&config(role));
        assert_eq!(code_of(feed(&mut machine, stream, &bytes, false)), code, "{}", bytes.escape_ascii());
        assert_eq!(machine.failure().map(|failure| failure.code), Some(code));
        assert_eq!(code_of(feed(&mut machine, 0, &[], false)), code, "it stays so");
        // Byte for byte.
        let mut machine = H3Connection::new(&config(role));
        let single = bytes.iter().try_for_each(|byte| feed(&mut machine, stream, &[*byte], false).map(|_| ()));
        assert_eq!(code_of(single), code);
    }
    // What a server may hear of a client.
    let mut server = H3Connection::new(&config(Role::Server));
    let fine = control(&[
        frame(kind::MAX_PUSH_ID, &[3]),
        frame(kind::MAX_PUSH_ID, &[3]),
        frame(0x21, b"x"),
        frame(kind::GOAWAY, &[9]),
    ]);
    assert_eq!(feed(&mut server, CLIENT[0], &fine, false), Ok(vec![Seen::Settings, Seen::GoneAway(9)]));
}

#[test]
fn streams_that_the_connection_needs_are_there_once_and_stay_open() {
    for kind in [0, 2, 3] {
        let hello = if kind == 0 { control(&[]) } else { number(kind) };
        let mut server = H3Connection::new(&config(Role::Server));
        assert!(feed(&mut server, 2, &hello, false).is_ok());
        let second = feed(&mut server, 6, &hello, false);
        assert_eq!(code_of(second), Code::H3_STREAM_CREATION_ERROR);
        let mut server = H3Connection::new(&config(Role::Server));
        assert!(feed(&mut server, 2, &hello, false).is_ok());
        assert_eq!(code_of(feed(&mut server, 2, &[], true)), Code::H3_CLOSED_CRITICAL_STREAM);
        let mut server = H3Connection::new(&config(Role::Server));
        assert!(feed(&mut server, 2, &hello, false).is_ok());
        let reset = server.peer_resets(StreamId(2), Code::H3_NO_ERROR, 0);
        assert_eq!(code_of(reset), Code::H3_CLOSED_CRITICAL_STREAM);
    }
    let stopped = server().peer_stops(StreamId(SERVER[0]), Code::H3_NO_ERROR, 0);
    assert_eq!(code_of(stopped), Code::H3_CLOSED_CRITICAL_STREAM);
}

#[test]
fn other_streams_are_refused() {
    let mut server = server();
    let unknown = Seen::Reset(14, Code::H3_STREAM_CREATION_ERROR, false);
    assert_eq!(feed(&mut server, 14, &[0x21, 1, 2, 3], false), Ok(vec![unknown]));
    assert_eq!(feed(&mut server, 18, &[0x40], false), Ok(vec![]));
    let unknown = Seen::Reset(18, Code::H3_STREAM_CREATION_ERROR, false);
    assert_eq!(feed(&mut server, 18, &[0x33], false), Ok(vec![unknown]));
    assert_eq!(feed(&mut server, 22, &[0x40], true), Ok(vec![]), "a stream may end before it says what it is");
    assert_eq!(feed(&mut server, 26, &[], true), Ok(vec![]));
    assert_eq!(feed(&mut server, 30, &[0x80], false), Ok(vec![]));
    assert_eq!(server.peer_resets(StreamId(30), Code::H3_NO_ERROR, 0), Ok(None));
    assert_eq!(code_of(feed(&mut server, 34, &[1], false)), Code::H3_STREAM_CREATION_ERROR);
    assert_eq!(code_of(feed(&mut client(), 15, &[1], false)), Code::H3_ID_ERROR);
    assert_eq!(code_of(feed(&mut client(), 1, &get(), false)), Code::H3_STREAM_CREATION_ERROR);
}

#[test]
fn messages_have_their_rules() {
    let trailers = || headers(&[("a", "b")]);
    let unexpected = Code::H3_FRAME_UNEXPECTED;
    let cases: [(Role, Vec<Vec<u8>>, bool, Code); 19] = [
        (Role::Server, vec![data(b"x")], false, unexpected),
        (Role::Server, vec![get(), trailers(), data(b"x")], false, unexpected),
        (Role::Server, vec![get(), trailers(), trailers()], false, unexpected),
        (Role::Client, vec![headers(&[(":status", "100")]), data(b"x")], false, unexpected),
        (Role::Server, vec![frame(kind::SETTINGS, &[])], false, unexpected),
        (Role::Server, vec![get(), frame(kind::GOAWAY, &[0])], false, unexpected),
        (Role::Server, vec![frame(kind::CANCEL_PUSH, &[0])], false, unexpected),
        (Role::Server, vec![frame(kind::MAX_PUSH_ID, &[0])], false, unexpected),
        (Role::Server, vec![frame(kind::PRIORITY_UPDATE, &[0])], false, unexpected),
        (Role::Server, vec![frame(kind::PUSH_PROMISE, &[0])], false, unexpected),
        (Role::Client, vec![frame(kind::PUSH_PROMISE, &[0])], false, Code::H3_ID_ERROR),
        (Role::Server, vec![get(), frame(8, &[])], false, unexpected),
        (Role::Server, vec![frame(kind::HEADERS, b"\x00")], false, Code::QPACK_DECOMPRESSION_FAILED),
        (Role::Server, vec![frame(kind::HEADERS, &[])], false, Code::QPACK_DECOMPRESSION_FAILED),
        (Role::Server, vec![frame(kind::HEADERS, b"\x00\x00\x80")], false, Code::QPACK_DECOMPRESSION_FAILED),
        (Role::Server, vec![get(), vec![0]], true, Code::H3_FRAME_ERROR),
        (Role::Server, vec![get(), vec![0, 5, 1]], true, Code::H3_FRAME_ERROR),
        (Role::Server, vec![vec![1, 5, 0]], true, Code::H3_FRAME_ERROR),
        (Role::Server, vec![get(), vec![0x21, 1]], true, Code::H3_FRAME_ERROR),
    ];
    for (role, frames, fin, code) in cases {
        let machine = || {
            let mut machine = if role == Role::Server { server() } else { client() };
            assert!(role == Role::Server || machine.open(StreamId(0)));
            machine
        };
        let bytes = frames.concat();
        assert_eq!(code_of(feed(&mut machine(), 0, &bytes, fin)), code, "{}", bytes.escape_ascii());
        let mut machine = machine();
        let single = (0..bytes.len())
            .try_for_each(|at| feed(&mut machine, 0, &bytes[at..=at], fin && at + 1 == bytes.len()).map(|_| ()));
        assert_eq!(code_of(single), code);
        assert_eq!(machine.open_streams(), 0);
        machine.check_invariants();
        machine.release(StreamId(0));
        assert_eq!(machine.used_streams(), 0);
    }
}

#[test]
fn a_broken_message_ends_its_stream_alone() {
    let pseudo = headers(&[(":path", "/")]);
    let large = headers(&[("a", &"\u{1}".repeat(9000))]);
    let cases: [(Role, Vec<u8>, bool, Code); 6] = [
        (Role::Server, [get(), pseudo].concat(), false, Code::H3_MESSAGE_ERROR),
        (Role::Server, vec![], true, Code::H3_REQUEST_INCOMPLETE),
        (Role::Server, frame(0x21, b"x"), true, Code::H3_REQUEST_INCOMPLETE),
        (Role::Client, headers(&[(":status", "100")]), true, Code::H3_MESSAGE_ERROR),
        (Role::Client, large.clone(), false, Code::H3_EXCESSIVE_LOAD),
        (Role::Server, [get(), large].concat(), false, Code::H3_EXCESSIVE_LOAD),
    ];
    for (role, bytes, fin, code) in cases {
        let mut machine = if role == Role::Server { server() } else { client() };
        assert!(role == Role::Server || machine.open(StreamId(0)));
        let seen = feed(&mut machine, 0, &bytes, fin).expect("no error of the connection");
        assert_eq!(seen.last(), Some(&Seen::Reset(0, code, false)), "{}", bytes.escape_ascii());
        assert_eq!((machine.open_streams(), machine.failure()), (0, None));
    }
}

#[test]
fn a_request_with_a_large_head_is_answered_and_then_stopped() {
    let large = headers(&[("a", &"\u{1}".repeat(9000))]);
    let endless = [number(kind::HEADERS), number(1 << 40), vec![0; 1000]].concat();
    let rest = [large.clone(), frame(kind::DATA, &[b'x'; 1000])].concat();
    for (bytes, fin) in [(rest, false), (endless, false), (large, true)] {
        let mut machine = server();
        let seen = feed(&mut machine, 0, &bytes, fin).expect("no error of the connection");
        assert_eq!(seen, [Seen::TooLarge(0, fin)], "nothing else of the request is told");
        assert!(machine.head(StreamId(0), &mut Vec::new(), |encoder, out| encoder.status(400, out)));
        assert_eq!(machine.end(StreamId(0)), (!fin).then_some(Code::H3_EXCESSIVE_LOAD));
        assert_eq!((machine.open_streams(), machine.failure(), machine.awaited_since()), (0, None, None));
        machine.check_invariants();
        machine.release(StreamId(0));
        assert_eq!(machine.used_streams(), 0);
        assert!(feed(&mut machine, 4, &get(), true).is_ok(), "the connection goes on");
    }
}

#[test]
fn instructions_have_their_rules() {
    assert_eq!(code_of(feed(&mut server(), 6, b"\x02\x02", false)), Code::QPACK_ENCODER_STREAM_ERROR);
    assert_eq!(code_of(feed(&mut server(), 6, b"\x02\x3f\xe2\x1f", false)), Code::QPACK_ENCODER_STREAM_ERROR);
    assert_eq!(code_of(feed(&mut server(), 10, b"\x03\x80", false)), Code::QPACK_DECODER_STREAM_ERROR);
    assert_eq!(code_of(feed(&mut server(), 10, b"\x03\x01", false)), Code::QPACK_DECODER_STREAM_ERROR);
    // Three streams wait, and two may.
    let mut server = server();
    let request = frame(kind::HEADERS, b"\x02\x00\x80");
    assert!(feed(&mut server, 0, &request, false).is_ok() && feed(&mut server, 4, &request, false).is_ok());
    assert_eq!(code_of(feed(&mut server, 8, &request, false)), Code::QPACK_DECOMPRESSION_FAILED);
}

#[test]
fn more_streams_than_were_allowed_are_refused() {
    let mut server = server();
    for id in 0..10 {
        assert!(feed(&mut server, id * 4, &get(), true).is_ok());
    }
    let refused = |id| Ok(vec![Seen::Reset(id, Code::H3_REQUEST_REJECTED, false)]);
    assert_eq!(feed(&mut server, 40, &get(), true), refused(40));
    // Streams that are reset, and whose requests go on, take room, too.
    for id in 0..10 {
        assert!(server.peer_stops(StreamId(id * 4), Code::H3_REQUEST_CANCELLED, 0).is_ok());
        assert!(feed(&mut server, 100 + id * 4, &get(), true).is_ok());
        assert!(server.peer_stops(StreamId(100 + id * 4), Code::H3_REQUEST_CANCELLED, 0).is_ok());
    }
    assert_eq!((server.open_streams(), server.used_streams()), (0, 20));
    assert_eq!(feed(&mut server, 200, &get(), true), refused(200));
    server.release(StreamId(0));
    assert_eq!(feed(&mut server, 204, &get(), true), Ok(vec![Seen::Head(204, true, fields(GET))]));
}
