//! Ends of streams and of connections.

use super::*;

#[test]
fn a_server_ends_in_two_steps() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), true).is_ok());
    server.announce_end();
    server.announce_end();
    let goaway = frame(kind::GOAWAY, &number((1 << 62) - 4));
    assert_eq!(written(&mut server, OwnStream::Control), goaway);
    assert!(server.is_ending() && !server.is_finished());
    assert!(feed(&mut server, 8, &get(), true).is_ok(), "a stream was on its way");
    server.finish();
    server.finish();
    assert_eq!(written(&mut server, OwnStream::Control), frame(kind::GOAWAY, &number(12)));
    assert!(feed(&mut server, 4, &get(), true).is_ok(), "a stream with a lower number may still come");
    let refused = Seen::Reset(12, H3ErrorCode::H3_REQUEST_REJECTED, false);
    assert_eq!(feed(&mut server, 12, &get(), true), Ok(vec![refused]));
    assert_eq!(server.open_streams(), 3);
    for id in [0, 4, 8] {
        let _ = respond(&mut server, id, b"x");
        assert_eq!(server.end(StreamId(id)), None);
        server.release(StreamId(id));
    }
    write_all(&mut server);
    assert!(server.is_idle());
}

#[test]
fn streams_begin_in_any_order_and_only_once() {
    let mut server = server();
    for id in [20, 8, 12, 0, 16, 4, 28] {
        assert_eq!(feed(&mut server, id, &get(), true), Ok(vec![Seen::Head(id, true, fields(GET))]));
        respond(&mut server, id, b"x");
        assert_eq!(server.end(StreamId(id)), None);
        server.release(StreamId(id));
    }
    for id in [0, 4, 8, 12, 16, 20, 28] {
        assert_eq!(feed(&mut server, id, &get(), true), Ok(vec![]), "stream {id} is over");
    }
    assert_eq!(server.peer_resets(StreamId(24), H3ErrorCode::H3_REQUEST_CANCELLED, 0), Ok(None));
    assert_eq!(feed(&mut server, 24, &get(), true), Ok(vec![]), "the stream was reset before it came");
    assert_eq!(server.used_streams(), 0);
}

#[test]
fn a_client_learns_which_streams_were_not_looked_at() {
    let mut client = client();
    for id in [0, 4, 8] {
        assert!(client.open(StreamId(id)));
    }
    assert!(!client.open(StreamId(8)) && !client.open(StreamId(9)), "no number of a new request");
    let far = frame(kind::GOAWAY, &number(100));
    assert_eq!(feed(&mut client, SERVER[0], &far, false), Ok(vec![Seen::GoneAway(100)]));
    assert!(!client.can_open() && client.take_unprocessed().is_none());
    assert_eq!(feed(&mut client, SERVER[0], &frame(kind::GOAWAY, &[4]), false), Ok(vec![Seen::GoneAway(4)]));
    assert_eq!([(); 3].map(|()| client.take_unprocessed()), [Some(StreamId(4)), Some(StreamId(8)), None]);
    assert_eq!(client.open_streams(), 1);
    client.finish();
    assert_eq!(written(&mut client, OwnStream::Control), frame(kind::GOAWAY, &[0]));
}

#[test]
fn the_peer_gives_a_stream_up() {
    let mut server = server();
    assert!(feed(&mut server, 0, &get(), false).is_ok());
    let cancelled = H3ErrorCode::H3_REQUEST_CANCELLED;
    let reset = server.peer_resets(StreamId(0), cancelled, 0);
    assert_eq!(reset, Ok(Some(H3Event::Reset { stream: StreamId(0), code: cancelled, by_peer: true })));
    server.check_invariants();
    assert!(server.is_reset(StreamId(0)) && !server.head(StreamId(0), &mut Vec::new(), |_, _| {}));
    assert_eq!(server.peer_stops(StreamId(0), cancelled, 0), Ok(None));
    assert_eq!((server.open_streams(), server.used_streams()), (0, 1));
    server.release(StreamId(0));
    assert_eq!(server.used_streams(), 0);
    // A request that has ended is given up by its client in another way.
    assert!(feed(&mut server, 4, &get(), true).is_ok());
    let reset = server.peer_stops(StreamId(4), cancelled, 0);
    assert_eq!(reset, Ok(Some(H3Event::Reset { stream: StreamId(4), code: cancelled, by_peer: true })));
    server.release(StreamId(4));
    assert_eq!(written(&mut server, OwnStream::Decoder), [3, 0x40], "only the first one was not read to its end");

    let mut client = client();
    assert!(client.open(StreamId(0)) && client.open(StreamId(4)));
    let no_error = H3ErrorCode::H3_NO_ERROR;
    let stopped = client.peer_stops(StreamId(0), no_error, 0);
    assert_eq!(stopped, Ok(Some(H3Event::Stopped { stream: StreamId(0), code: no_error })));
    assert_eq!(client.data(StreamId(0), 1), None);
    assert!(feed(&mut client, 0, &headers(OK), true).is_ok(), "the response goes on");
    assert_eq!(client.open_streams(), 1);
    let reset = client.peer_resets(StreamId(4), cancelled, 0);
    assert_eq!(reset, Ok(Some(H3Event::Reset { stream: StreamId(4), code: cancelled, by_peer: true })));
    client.check_invariants();
}

#[test]
fn a_blocked_stream_is_given_up() {
    let mut server = server();
    let request = frame(kind::HEADERS, b"\x02\x00\xd1\xd7\x50\x01a\x80");
    for id in [0, 4] {
        assert_eq!(feed(&mut server, id, &request, false), Ok(vec![Seen::Blocked(id)]));
    }
    assert!(server.peer_resets(StreamId(0), H3ErrorCode::H3_REQUEST_CANCELLED, 0).is_ok());
    assert!(server.reset(StreamId(4), 0).is_ok());
    server.check_invariants();
    assert_eq!(written(&mut server, OwnStream::Decoder), [3, 0x40, 0x44]);
    assert_eq!(server.used_streams(), 0);
    assert_eq!(feed(&mut server, CLIENT[1], b"\x02\x3f\xe1\x1f\xc1\x02/x", false), Ok(vec![]));
    assert_eq!(server.take_unblocked(), None);
    // One that may go on, and is given up before it does.
    assert_eq!(feed(&mut server, 8, &frame(kind::HEADERS, b"\x03\x00\xd1\x80"), false), Ok(vec![Seen::Blocked(8)]));
    assert_eq!(feed(&mut server, CLIENT[1], b"\x00", false), Ok(vec![]));
    assert!(server.reset(StreamId(8), 0).is_ok());
    server.check_invariants();
    assert_eq!(server.take_unblocked(), None);
}

#[test]
fn heads_that_do_not_come_are_given_up() {
    let mut server = server();
    let request = get();
    let feed_at = |server: &mut H3Connection, id, bytes: &[u8], now| {
        feed_rest(server, id, bytes, false, now).expect("no error of the connection").0
    };
    assert_eq!(feed_at(&mut server, 0, &request[..4], 10), []);
    assert_eq!(feed_at(&mut server, 4, &[], 20), []);
    assert_eq!(feed_at(&mut server, 8, &request, 30).len(), 1);
    assert_eq!(feed_at(&mut server, 0, &request[4..5], 40), []);
    assert_eq!(server.awaited_since(), Some(10));
    assert_eq!(server.take_late(9, 50), Ok(None));
    assert_eq!(server.take_late(10, 50), Ok(Some(StreamId(0))));
    assert_eq!((server.take_late(10, 50), server.awaited_since()), (Ok(None), Some(20)));
    assert_eq!(feed_at(&mut server, 4, &request, 60).len(), 1);
    assert_eq!(server.awaited_since(), None);
    server.check_invariants();
}

#[test]
fn an_idle_connection_holds_little_memory() {
    let mut server = connection_with(&config(Role::Server), &[(settings::QPACK_MAX_TABLE_CAPACITY, 4096)]);
    for id in (0..400).step_by(4) {
        assert!(feed(&mut server, id, &get(), true).is_ok());
        respond(&mut server, id, b"x");
        assert_eq!(server.end(StreamId(id)), None);
        server.release(StreamId(id));
    }
    assert_eq!(feed(&mut server, CLIENT[2], b"\x03\x01", false), Ok(vec![]), "the entry has arrived");
    write_all(&mut server);
    server.shrink(true);
    write_all(&mut server);
    server.shrink(false);
    server.check_invariants();
    assert!(server.heap_bytes() < 400, "{}", server.heap_bytes());
    assert!(size_of::<H3Connection>() <= 760, "{}", size_of::<H3Connection>());
    assert!(size_of::<super::super::stream::RequestStream>() <= 104);
    // It goes on as before.
    assert!(feed(&mut server, 400, &get(), true).is_ok());
    assert!(respond(&mut server, 400, b"x").len() > 4);
}
