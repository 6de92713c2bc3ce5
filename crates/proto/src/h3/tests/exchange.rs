//! Requests and their responses.

use super::*;

#[test]
fn a_server_answers_a_request() {
    let mut server = server();
    let seen = feed(&mut server, 0, &get(), true);
    assert_eq!(seen, Ok(vec![Seen::Head(0, true, fields(GET))]));
    assert_eq!((server.open_streams(), server.used_streams(), server.section_len() > 10), (1, 1, true));
    let response = respond(&mut server, 0, b"hello");
    assert_eq!(server.sent_bytes(StreamId(0)), response.len() as u64);
    assert_eq!(server.end(StreamId(0)), None, "the request has ended");
    server.release(StreamId(0));
    assert_eq!((server.open_streams(), server.used_streams()), (0, 0));

    let mut client = client();
    assert!(client.open(StreamId(0)));
    let expected = [Seen::Head(0, false, fields(OK)), Seen::Data(0, b"hello".to_vec()), Seen::End(0)];
    assert_eq!(feed(&mut client, 0, &response, true), Ok(expected.to_vec()));
    assert_eq!(client.open_streams(), 1, "the client has not sent its request");
    assert_eq!(client.end(StreamId(0)), None);
    client.release(StreamId(0));
    assert_eq!(client.used_streams(), 0);
}

#[test]
fn the_end_of_a_request_may_come_later() {
    let mut server = server();
    assert_eq!(feed(&mut server, 0, &get(), false), Ok(vec![Seen::Head(0, false, fields(GET))]));
    assert_eq!(feed(&mut server, 0, &[], true), Ok(vec![Seen::End(0)]));
    assert_eq!(feed(&mut server, 0, &[], true), Ok(vec![]), "it ends once");
}

#[test]
fn messages_have_interim_heads_bodies_and_trailers() {
    let mut client = client();
    assert!(client.open(StreamId(0)));
    let response = [
        headers(&[(":status", "103"), ("link", "</a>")]),
        frame(0x21, b"ignored"),
        headers(&[(":status", "100")]),
        headers(&[(":status", "200")]),
        data(b"one"),
        frame(0x40 + 0x1f * 7, &[]),
        data(b"two"),
        headers(&[("x-sum", "1")]),
        frame(0x21, b"ignored, too"),
    ]
    .concat();
    let expected = [
        Seen::Head(0, false, fields(&[(":status", "103"), ("link", "</a>")])),
        Seen::Head(0, false, fields(&[(":status", "100")])),
        Seen::Head(0, false, fields(&[(":status", "200")])),
        Seen::Data(0, b"onetwo".to_vec()),
        Seen::Trailers(0, fields(&[("x-sum", "1")])),
        Seen::End(0),
    ];
    assert_eq!(feed(&mut client, 0, &response, true), Ok(expected.to_vec()));
}

#[test]
fn a_server_sends_interim_heads_and_trailers() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), true).is_ok());
    let mut out = Vec::new();
    assert!(server.head(StreamId(0), &mut out, |encoder, out| encoder.status(103, out)));
    out.extend(respond(&mut server, 0, b"x"));
    assert!(server.trailers(StreamId(0), &mut out, |encoder, out| encoder.field(b"X-Sum", b"1", out)));
    assert_eq!(server.end(StreamId(0)), None);
    assert!(!server.head(StreamId(0), &mut out, |_, _| panic!("the stream is over")));
    assert_eq!(server.data(StreamId(0), 3), None);
    let mut client = client();
    assert!(client.open(StreamId(0)));
    let expected = [
        Seen::Head(0, false, fields(&[(":status", "103")])),
        Seen::Head(0, false, fields(OK)),
        Seen::Data(0, b"x".to_vec()),
        Seen::Trailers(0, fields(&[("x-sum", "1")])),
        Seen::End(0),
    ];
    assert_eq!(feed(&mut client, 0, &out, true), Ok(expected.to_vec()));
}

/// Lengths of more than two bytes have another head.
#[test]
fn a_large_head_is_one_frame() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), true).is_ok());
    let mut out = b"before".to_vec();
    let value = "\u{1}".repeat(9000);
    assert!(server.head(StreamId(0), &mut out, |encoder, out| {
        encoder.status(200, out);
        encoder.field(b"x-a", value.as_bytes(), out);
        encoder.field(b"x-b", value.as_bytes(), out);
    }));
    assert_eq!(server.sent_bytes(StreamId(0)), out.len() as u64 - 6);
    let mut client = connection_with(
        &H3Config { limits: BlockLimits { most_string: 10_000, ..LIMITS }, ..config(Role::Client) },
        &[],
    );
    assert!(client.open(StreamId(0)));
    let expected = fields(&[(":status", "200"), ("x-a", &value), ("x-b", &value)]);
    assert_eq!(feed(&mut client, 0, &out[6..], false), Ok(vec![Seen::Head(0, false, expected)]));
}

#[test]
fn a_body_has_the_announced_length() {
    let post = |body: &[&[u8]]| [&[get()], &*body.iter().map(|part| data(part)).collect::<Vec<_>>()].concat().concat();
    let run = |body: &[&[u8]], fin| {
        let mut server = server();
        let bytes = post(body);
        let head = get().len();
        assert!(feed(&mut server, 0, &bytes[..head], false).is_ok());
        server.expect(StreamId(0), 5);
        let seen = feed(&mut server, 0, &bytes[head..], fin).expect("no error of the connection");
        (seen, server)
    };
    assert_eq!(run(&[b"he", b"llo"], true).0, [Seen::Data(0, b"hello".to_vec()), Seen::End(0)]);
    let (seen, mut server) = run(&[b"hell"], true);
    assert_eq!(seen, [Seen::Data(0, b"hell".to_vec()), Seen::WrongLength(0, 1)]);
    respond(&mut server, 0, b"sorry");
    assert_eq!(server.end(StreamId(0)), None);
    let (seen, mut server) = run(&[b"hello", b"!", b"more"], false);
    assert_eq!(seen, [Seen::Data(0, b"hello".to_vec()), Seen::WrongLength(0, 0)]);
    respond(&mut server, 0, b"sorry");
    assert_eq!(server.end(StreamId(0)), Some(H3ErrorCode::H3_MESSAGE_ERROR), "nobody wants the rest");
    assert_eq!(feed(&mut server, 0, &data(b"more"), true), Ok(vec![]));

    let mut server = run(&[b"hell"], false).1;
    let trailers = headers(&[("a", "b")]);
    assert_eq!(feed(&mut server, 0, &trailers, true), Ok(vec![Seen::WrongLength(0, 1)]));

    let mut client = client();
    assert!(client.open(StreamId(0)));
    assert!(feed(&mut client, 0, &headers(OK), false).is_ok());
    client.expect(StreamId(0), 2);
    let reset = Seen::Reset(0, H3ErrorCode::H3_MESSAGE_ERROR, false);
    assert_eq!(feed(&mut client, 0, &data(b"long"), false), Ok(vec![reset]));
}

#[test]
fn an_answer_before_the_end_of_the_request_stops_it() {
    let mut server = server();
    assert!(feed(&mut server, 0, &[get(), data(b"a")].concat(), false).is_ok());
    respond(&mut server, 0, b"no");
    assert_eq!(server.end(StreamId(0)), Some(H3ErrorCode::H3_NO_ERROR));
    assert_eq!(server.open_streams(), 0);
    assert_eq!(written(&mut server, OwnStream::Decoder), [3, 0x40], "sections that may come are not decoded");

    // A tunnel goes on.
    assert!(feed(&mut server, 4, &get(), false).is_ok());
    server.stay_open(StreamId(4));
    respond(&mut server, 4, b"");
    assert_eq!(server.end(StreamId(4)), None);
    assert_eq!(feed(&mut server, 4, &data(b"more"), true), Ok(vec![Seen::Data(4, b"more".to_vec()), Seen::End(4)]));
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn a_malformed_request_is_answered_and_stopped() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), false).is_ok());
    server.stop_at_end(StreamId(0), H3ErrorCode::H3_MESSAGE_ERROR);
    let unread = [data(b"unread"), headers(&[("unread", "too")])].concat();
    assert_eq!(feed(&mut server, 0, &unread, false), Ok(vec![]));
    respond(&mut server, 0, b"400");
    assert_eq!(server.end(StreamId(0)), Some(H3ErrorCode::H3_MESSAGE_ERROR));
    assert_eq!(server.failure(), None);
}

#[test]
fn priorities_come_by_frames_and_fields() {
    let mut server = server();
    let update = |id: u64, text: &str| frame(kind::PRIORITY_UPDATE, &[number(id), text.as_bytes().to_vec()].concat());
    let (first, third) = (Priority::parse(b"u=1"), Priority::parse(b"u=5, i"));
    assert_eq!(feed(&mut server, CLIENT[0], &update(4, "u=1"), false), Ok(vec![]), "the stream has not begun");
    for id in [0, 4] {
        assert!(feed(&mut server, id, &get(), true).is_ok());
        server.set_first_priority(StreamId(id), third);
    }
    assert_eq!(server.priority(StreamId(0)), third);
    assert_eq!(server.priority(StreamId(4)), first, "a frame counts more than the field");
    let seen = feed(&mut server, CLIENT[0], &update(0, "u=1"), false);
    assert_eq!(seen, Ok(vec![Seen::Priority(0, first)]));
    assert_eq!(server.priority(StreamId(0)), first);
    // Those of streams that do not come are few.
    for id in 1000..2000u64 {
        assert_eq!(feed(&mut server, CLIENT[0], &update(id * 4, "u=1"), false), Ok(vec![]));
    }
    assert_eq!(feed(&mut server, CLIENT[0], &update(0, "u=5,i"), false), Ok(vec![Seen::Priority(0, third)]));
}

#[test]
fn a_stream_waits_for_entries_that_are_on_their_way() {
    let mut server = server();
    let encoder = CLIENT[1];
    // `:path: /x` is the entry, and the request is otherwise static.
    let insertion = b"\x3f\xe1\x1f\xc1\x02/x";
    let request = frame(kind::HEADERS, b"\x02\x00\xd1\xd7\x50\x01a\x80");
    let bytes = [request.clone(), data(b"body")].concat();
    let (seen, rest) = feed_rest(&mut server, 0, &bytes, true, 0).expect("no error");
    assert_eq!((seen, rest), (vec![Seen::Blocked(0)], &bytes[request.len()..]));
    assert_eq!(feed_rest(&mut server, 0, rest, true, 0), Ok((vec![], rest)), "nothing is taken");
    assert_eq!(server.take_unblocked(), None);
    // The second one comes in single bytes.
    let (seen, rest_of_second) = bytes.split_at(request.len());
    for byte in &seen[..seen.len() - 1] {
        assert_eq!(feed(&mut server, 4, &[*byte], false), Ok(vec![]));
    }
    assert_eq!(feed(&mut server, 4, &seen[seen.len() - 1..], false), Ok(vec![Seen::Blocked(4)]));
    assert_eq!(server.awaited_since(), Some(0));
    assert_eq!(feed(&mut server, encoder, &[&[2], &insertion[..]].concat(), false), Ok(vec![]));
    assert_eq!(written(&mut server, OwnStream::Decoder), [3, 1], "the entry has arrived");
    for (id, rest) in [(0, rest), (4, rest_of_second)] {
        assert_eq!(server.take_unblocked(), Some(StreamId(id)));
        let expected = fields(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x")]);
        let (seen, rest) = feed_rest(&mut server, id, rest, true, 0).expect("no error");
        assert_eq!(seen, [Seen::Head(id, false, expected), Seen::Data(id, b"body".to_vec()), Seen::End(id)]);
        assert!(rest.is_empty());
    }
    assert_eq!((server.take_unblocked(), server.awaited_since()), (None, None));
    assert_eq!(written(&mut server, OwnStream::Decoder), [0x80, 0x84]);
}

#[test]
fn responses_become_shorter() {
    let settings = [(settings::QPACK_MAX_TABLE_CAPACITY, 4096), (settings::QPACK_BLOCKED_STREAMS, 16)];
    let mut server = connection_with(&config(Role::Server), &settings);
    let mut client = client();
    let mut lengths = Vec::new();
    for id in [0, 4, 8] {
        assert!(feed(&mut server, id, &get(), true).is_ok());
        let mut out = Vec::new();
        server.head(StreamId(id), &mut out, |encoder, out| {
            encoder.status(200, out);
            encoder.field(b"Server", b"something/1.2", out);
            encoder.field(b"X-Powered-By", b"something else", out);
            encoder.field(b"Set-Cookie", b"a=b", out);
        });
        lengths.push(out.len());
        let _ = server.end(StreamId(id));
        server.release(StreamId(id));
        // The encoder's stream comes first, and the client's answers before the next response.
        let instructions = written(&mut server, OwnStream::Encoder);
        assert_eq!(feed(&mut client, SERVER[1], &instructions, false), Ok(vec![]));
        assert!(client.open(StreamId(id)));
        let expected = [
            (":status", "200"),
            ("server", "something/1.2"),
            ("x-powered-by", "something else"),
            ("set-cookie", "a=b"),
        ];
        assert_eq!(feed(&mut client, id, &out, true), Ok(vec![Seen::Head(id, true, fields(&expected))]));
        let progress = written(&mut client, OwnStream::Decoder);
        assert_eq!(feed(&mut server, CLIENT[2], &progress, false), Ok(vec![]));
    }
    assert!(lengths[0] > 30 && lengths[1] < 20 && lengths[1] == lengths[2], "{lengths:?}");
}
