//! What both sides do in order.

use super::*;
use crate::h2::settings;
use crate::h2::{MemoryPool, Priority};

/// Lets both sides take what the other one has written, until neither writes.
fn talk(client: &mut Connection, server: &mut Connection, part: usize) -> (Vec<Seen>, Vec<Seen>) {
    let (mut at_client, mut at_server) = (Vec::new(), Vec::new());
    loop {
        let (to_server, to_client) = (written(client), written(server));
        if to_server.is_empty() && to_client.is_empty() {
            return (at_client, at_server);
        }
        at_server.extend(feed_split(server, &to_server, part, 1).unwrap());
        at_client.extend(feed_split(client, &to_client, part, 1).unwrap());
    }
}

fn fields(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_request_and_its_response_cross_in_any_parts() {
    for part in [1, 2, 7, 100, 100_000] {
        let (mut client, mut server) = (Connection::new(&config(Role::Client)), Connection::new(&config(Role::Server)));
        let (seen, _) = talk(&mut client, &mut server, part);
        assert_eq!(seen, [Seen::Settings]);
        assert!(client.knows_peer());
        assert_eq!(client.peer_settings().max_concurrent_streams, 10);
        let slot = client.open().unwrap();
        client.head(slot, false, |encoder, out| {
            encoder.pseudo(Pseudo::Method, b"POST", out);
            encoder.pseudo(Pseudo::Path, b"/up", out);
            encoder.field(b"Content-Length", b"5000", out);
        });
        client.data(slot, vec![7; 5000].into(), true);
        let (_, seen) = talk(&mut client, &mut server, part);
        let head = fields(&[(":method", "POST"), (":path", "/up"), ("content-length", "5000")]);
        let [Seen::Head(there, false, got), Seen::Data(_, body), Seen::End(_)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((got, body.len()), (&head, 5000));
        let there = *there;
        server.head(there, false, |encoder, out| encoder.status(103, out));
        server.head(there, false, |encoder, out| encoder.status(200, out));
        server.data(there, vec![1; 3000].into(), false);
        server.trailers(there, vec![(b"grpc-status"[..].into(), b"0"[..].into())]);
        let (seen, _) = talk(&mut client, &mut server, part);
        let expected = [
            Seen::Head(slot, false, fields(&[(":status", "103")])),
            Seen::Head(slot, false, fields(&[(":status", "200")])),
            Seen::Data(slot, vec![1; 3000]),
            Seen::Trailers(slot, fields(&[("grpc-status", "0")])),
        ];
        assert_eq!(seen, expected);
        assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
        client.release(slot);
        server.release(there);
        assert!(client.is_idle() && server.is_idle());
        let mut spare = MemoryPool::default();
        let before = server.heap_bytes();
        server.release_memory(&mut spare);
        assert!(server.heap_bytes() + 500 < before, "{} of {before} bytes", server.heap_bytes());
        server.reuse_memory(&mut spare);
        assert!(server.heap_bytes() + 100 > before, "{} of {before} bytes", server.heap_bytes());
        let again = client.open().unwrap();
        client.head(again, true, |encoder, out| encoder.field(b":method", b"GET", out));
        let (_, seen) = talk(&mut client, &mut server, part);
        assert!(matches!(seen[..], [Seen::Head(_, true, _)]), "{seen:?}");
    }
}

#[test]
fn a_connection_that_is_left_alone_gives_up_its_tables_and_goes_on() {
    let (mut client, mut server) = (Connection::new(&config(Role::Client)), Connection::new(&config(Role::Server)));
    talk(&mut client, &mut server, usize::MAX);
    let answer = |encoder: &mut Encoder, out: &mut Vec<u8>| {
        encoder.status(200, out);
        encoder.field(b"server", b"something", out);
    };
    let mut spare = MemoryPool::default();
    for round in 0..3 {
        let slot = client.open().unwrap();
        client.head(slot, true, |encoder, out| {
            encoder.field(b":method", b"GET", out);
            encoder.field(b"user-agent", b"somebody", out);
        });
        let (_, seen) = talk(&mut client, &mut server, usize::MAX);
        let [Seen::Head(there, true, _)] = seen[..] else { panic!("{round}: {seen:?}") };
        assert!(!server.hibernate(u64::MAX), "a stream is open");
        server.head(there, true, answer);
        let (seen, _) = talk(&mut client, &mut server, usize::MAX);
        let expected = fields(&[(":status", "200"), ("server", "something")]);
        assert_eq!(seen, [Seen::Head(slot, true, expected)], "{round}");
        client.release(slot);
        server.release(there);
        server.release_memory(&mut spare);
        let before = server.heap_bytes();
        assert!(!server.hibernate(0), "something has come since");
        assert!(server.hibernate(u64::MAX) && !server.hibernate(u64::MAX));
        assert!(server.heap_bytes() + 300 < before, "{} of {before} bytes", server.heap_bytes());
        server.reuse_memory(&mut spare);
    }
}

#[test]
fn a_large_head_comes_in_several_frames() {
    let (mut client, mut server) = (Connection::new(&config(Role::Client)), Connection::new(&config(Role::Server)));
    talk(&mut client, &mut server, usize::MAX);
    let slot = client.open().unwrap();
    let value = "\u{1}".repeat(7000);
    client.head(slot, true, |encoder, out| {
        for name in ["a", "b", "c"] {
            encoder.field(name.as_bytes(), value.as_bytes(), out);
        }
    });
    let bytes = written(&mut client);
    let kinds: Vec<_> = shape(&bytes).iter().map(|(kind, _, len, _)| (*kind, *len <= 16_384)).collect();
    assert!(kinds.len() > 1, "{kinds:?}");
    assert!(kinds.iter().all(|(_, fits)| *fits) && kinds[0].0 == kind::HEADERS && kinds[1].0 == kind::CONTINUATION);
    let seen = feed_split(&mut server, &bytes, 1000, 0).unwrap();
    let [Seen::Head(_, true, got)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(got.len(), 3);
}

#[test]
fn nothing_exceeds_the_windows_and_what_waits_goes_on() {
    let (mut server, mut encoder) = server();
    let slots: Vec<_> = [1, 3].map(|id| begin(&mut server, &mut encoder, id, true)).to_vec();
    for slot in &slots {
        server.head(*slot, false, |encoder, out| encoder.status(200, out));
        assert_eq!(server.room(*slot), 65_535);
    }
    let rest = |server: &mut Connection| shape(&written(server)).iter().map(|(_, _, len, _)| *len).sum::<usize>();
    server.data(slots[0], vec![0; 40_000].into(), false);
    server.data(slots[1], vec![0; 20_000].into(), false);
    written(&mut server);
    // 5,535 bytes are left for the connection.
    assert_eq!((server.room(slots[0]), server.room(slots[1])), (5_535, 5_535));
    server.data(slots[0], vec![0; 5_535].into(), false);
    assert_eq!(rest(&mut server), 5_535);
    assert_eq!((server.room(slots[0]), server.room(slots[1])), (0, 0));
    assert_eq!(server.take_woken(), None);
    feed(&mut server, &frame(kind::WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes())).unwrap();
    let woken: Vec<_> = std::iter::from_fn(|| server.take_woken()).collect();
    assert_eq!(woken.len(), 2);
    assert_eq!((server.room(slots[0]), server.room(slots[1])), (20_000, 45_535));
    // A smaller window of all streams takes back what was allowed.
    let mut payload = Vec::new();
    settings::push(settings::INITIAL_WINDOW_SIZE, 10, &mut payload);
    feed(&mut server, &frame(kind::SETTINGS, 0, 0, &payload)).unwrap();
    written(&mut server);
    assert_eq!(server.room(slots[1]), 0);
    feed(&mut server, &frame(kind::WINDOW_UPDATE, 0, 3, &20_000_u32.to_be_bytes())).unwrap();
    assert_eq!(server.take_woken(), Some(slots[1]));
    assert_eq!(server.room(slots[1]), 10);
    server.data(slots[1], vec![0; 10].into(), true);
    assert_eq!(shape(&written(&mut server)), [(kind::DATA, 3, 10, true)]);
}

#[test]
fn ends_need_no_window() {
    let (mut server, mut encoder) = server();
    let [first, second] = [1, 3].map(|id| begin(&mut server, &mut encoder, id, true));
    for slot in [first, second] {
        server.head(slot, false, |encoder, out| encoder.status(200, out));
    }
    server.data(first, vec![0; 65_535].into(), false);
    written(&mut server);
    feed(&mut server, &frame(kind::WINDOW_UPDATE, 0, 1, &10_u32.to_be_bytes())).unwrap();
    assert_eq!(server.room(first), 0, "the connection's window is used up");
    server.data(second, Vec::new().into(), true);
    assert_eq!(shape(&written(&mut server)), [(kind::DATA, 3, 0, true)]);
}

#[test]
fn urgent_streams_overtake_and_incremental_ones_take_turns() {
    let mut config = config(Role::Server);
    config.chunk = 100;
    let (mut server, mut encoder) = server_with(&config);
    let slots = [1, 3, 5, 7].map(|id| begin(&mut server, &mut encoder, id, true));
    for (slot, text) in slots.iter().zip(["u=5", "u=3,i", "u=3,i", "u=1"]) {
        server.set_priority(*slot, Priority::parse(text.as_bytes()));
        server.head(*slot, false, |encoder, out| encoder.status(200, out));
    }
    written(&mut server);
    for slot in slots {
        server.data(slot, vec![0; 250].into(), true);
    }
    let order: Vec<_> = shape(&written(&mut server)).iter().map(|(_, stream, len, _)| (*stream, *len)).collect();
    let expected = [
        (7, 100),
        (7, 100),
        (7, 50),
        (3, 100),
        (5, 100),
        (3, 100),
        (5, 100),
        (3, 50),
        (5, 50),
        (1, 100),
        (1, 100),
        (1, 50),
    ];
    assert_eq!(order, expected);
}

/// The owner of an urgent stream that has sent all it had may have more of it at once.
#[test]
fn less_urgent_streams_wait_for_the_owner_of_an_urgent_one() {
    let (mut server, mut encoder) = server();
    let slots = [1, 3].map(|id| begin(&mut server, &mut encoder, id, true));
    for (slot, text) in slots.iter().zip(["u=5", "u=1"]) {
        server.set_priority(*slot, Priority::parse(text.as_bytes()));
        server.head(*slot, false, |encoder, out| encoder.status(200, out));
    }
    written(&mut server);
    let sent = |server: &mut Connection| {
        server.owners_had_their_turn();
        let is_held_back = server.fill(usize::MAX);
        let data = shape(&written(server));
        (is_held_back, data.iter().map(|frame| (frame.1, frame.2)).collect::<Vec<_>>())
    };
    // More than a frame, so that it is not written at once.
    server.data(slots[0], vec![0; 17_000].into(), false);
    for _ in 0..2 {
        server.data(slots[1], vec![0; 17_000].into(), false);
        assert_eq!(sent(&mut server), (true, vec![(3, 16_384), (3, 616)]));
    }
    // It has no more for now.
    assert_eq!(sent(&mut server), (false, vec![(1, 16_384), (1, 616)]));
    server.data(slots[0], vec![0; 100].into(), false);
    server.data(slots[1], vec![0; 100].into(), true);
    assert_eq!(sent(&mut server), (false, vec![(1, 100), (3, 100)]));
}

/// A client whose window for all streams is small opens it again and again.
#[test]
fn incremental_streams_get_a_small_window_in_turns() {
    for (text, expected) in [("i", [1, 3, 5, 1, 3]), ("u=3", [1, 1, 1, 1, 1])] {
        let (mut server, mut encoder) = server();
        let mut payload = Vec::new();
        settings::push(settings::INITIAL_WINDOW_SIZE, 1_000_000, &mut payload);
        feed(&mut server, &frame(kind::SETTINGS, 0, 0, &payload)).unwrap();
        let slots = [1, 3, 5].map(|id| begin(&mut server, &mut encoder, id, true));
        for slot in slots {
            server.set_priority(slot, Priority::parse(text.as_bytes()));
            server.head(slot, false, |encoder, out| encoder.status(200, out));
        }
        let mut order = Vec::new();
        for _ in expected {
            for slot in
                if order.is_empty() { slots.to_vec() } else { std::iter::from_fn(|| server.take_woken()).collect() }
            {
                let room = server.room(slot);
                server.data(slot, vec![0; room].into(), false);
                assert_eq!(server.room(slot), 0);
            }
            order.extend(shape(&written(&mut server)).iter().find(|frame| frame.0 == kind::DATA).map(|frame| frame.1));
            feed(&mut server, &frame(kind::WINDOW_UPDATE, 0, 0, &40_000_u32.to_be_bytes())).unwrap();
        }
        assert_eq!(order, expected, "{text}");
    }
}

#[test]
fn a_priority_may_come_before_its_stream_and_change() {
    let mut config = config(Role::Server);
    config.chunk = 100;
    let (mut server, mut encoder) = server_with(&config);
    let update =
        |id: u32, text: &str| frame(kind::PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], text.as_bytes()].concat());
    feed(&mut server, &update(3, "u=0")).unwrap();
    let slots = [1, 3].map(|id| begin(&mut server, &mut encoder, id, true));
    for slot in slots {
        server.head(slot, false, |encoder, out| encoder.status(200, out));
    }
    written(&mut server);
    for slot in slots {
        server.data(slot, vec![0; 200].into(), true);
    }
    server.fill(1);
    feed(&mut server, &update(1, "u=0")).unwrap();
    feed(&mut server, &update(3, "u=6")).unwrap();
    let data: Vec<_> =
        shape(&written(&mut server)).iter().filter(|frame| frame.0 == kind::DATA).map(|frame| frame.1).collect();
    assert_eq!(data, [3, 1, 1, 3]);
}

#[test]
fn a_reader_that_keeps_up_gets_a_larger_window() {
    let (mut server, mut encoder) = server();
    let slot = begin(&mut server, &mut encoder, 1, false);
    let mut window = 65_535_usize;
    let mut grown = Vec::new();
    for _ in 0..200 {
        let len = window.min(16_384);
        feed(&mut server, &frame(kind::DATA, 0, 1, &vec![0; len])).unwrap();
        window -= len;
        server.consumed(slot, len);
        for (head, payload) in frames(&written(&mut server)) {
            assert_eq!((head.kind, head.stream), (kind::WINDOW_UPDATE, 1));
            window += u32::from_be_bytes(payload.try_into().unwrap()) as usize;
        }
        grown.push(window);
    }
    assert!(*grown.iter().max().unwrap() > 500_000, "{grown:?}");
    // One that does not read keeps what it has.
    let slot = begin(&mut server, &mut encoder, 3, false);
    for _ in 0..3 {
        feed(&mut server, &frame(kind::DATA, 0, 3, &[0; 16_384])).unwrap();
        server.consumed(slot, 1000);
        assert_eq!(written(&mut server), b"");
    }
}

#[test]
fn the_end_comes_in_two_steps() {
    let (mut server, mut encoder) = server();
    let first = begin(&mut server, &mut encoder, 1, true);
    server.announce_end();
    let asked = frames(&written(&mut server));
    let [(goaway, last), (ping, data)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((goaway.kind, &last[..]), (kind::GOAWAY, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0][..]));
    assert_eq!((ping.kind, ping.flags), (kind::PING, 0));
    // A stream that was on its way is served.
    let second = begin(&mut server, &mut encoder, 3, true);
    assert_eq!(feed(&mut server, &frame(kind::PING, flag::ACK, 0, data)), Ok(vec![Seen::LastCallAnswered]));
    server.finish(ErrorCode::NO_ERROR);
    assert_eq!(frames(&written(&mut server))[0].1, [0, 0, 0, 3, 0, 0, 0, 0]);
    // Nothing is done for later ones.
    assert_eq!(feed(&mut server, &request(&mut encoder, 5, true)), Ok(vec![]));
    for slot in [first, second] {
        answer(&mut server, slot, b"x");
        server.release(slot);
    }
    let sent = shape(&written(&mut server));
    assert_eq!(sent.iter().filter(|(.., ends)| *ends).count(), 2, "{sent:?}");
    assert!(server.is_finished() && server.is_idle());
}

#[test]
fn a_client_learns_what_was_not_looked_at() {
    let mut client = Connection::new(&config(Role::Client));
    feed(&mut client, &frame(kind::SETTINGS, 0, 0, &[])).unwrap();
    let slots: Vec<_> = (0..3).map(|_| client.open().unwrap()).collect();
    for slot in &slots {
        client.head(*slot, true, |encoder, out| encoder.pseudo(Pseudo::Path, b"/", out));
    }
    let goaway = frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(feed(&mut client, &goaway), Ok(vec![Seen::GoneAway(3, ErrorCode::NO_ERROR)]));
    assert_eq!(client.take_unprocessed(), Some(slots[2]));
    assert_eq!(client.take_unprocessed(), None);
    assert!(client.open().is_none() && !client.is_reset(slots[1]));
}

#[test]
fn a_connection_that_is_left_alone_is_little_more_than_its_state() {
    // There are thousands of them. What only streams need, and what is rare, stands behind pointers. The driver of a server
    // counts on this size.
    assert!(size_of::<Connection>() <= 392, "{}", size_of::<Connection>());
}

#[test]
fn a_window_is_opened_only_for_what_is_still_to_come() {
    for is_short in [true, false] {
        let (mut client, mut server) = (Connection::new(&config(Role::Client)), Connection::new(&config(Role::Server)));
        talk(&mut client, &mut server, 1000);
        let slot = client.open().unwrap();
        client.head(slot, false, |encoder, out| encoder.pseudo(Pseudo::Method, b"POST", out));
        let head = written(&mut client);
        client.data(slot, vec![7; 100].into(), is_short);
        let body = written(&mut client);
        // The reader is there before the body is looked at, as when both have come at once.
        let [Seen::Head(there, false, _)] = feed(&mut server, &head).unwrap()[..] else { panic!() };
        server.open_window(there, 1_000_000);
        assert!(server.wants_to_write());
        feed(&mut server, &body).unwrap();
        let updates: Vec<FrameHead> = frames(&written(&mut server))
            .into_iter()
            .map(|(head, _)| head)
            .filter(|head| head.kind == kind::WINDOW_UPDATE)
            .collect();
        assert_eq!(updates.len(), usize::from(!is_short), "{updates:?}");
        assert!(!server.wants_to_write());
    }
}
