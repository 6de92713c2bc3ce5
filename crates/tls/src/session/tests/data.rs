//! Plaintext in both directions, and the end of a session.

use super::super::{Event, FailureKind, MIN_OUTPUT, ServerSettings};
use super::client::Ability;
use super::{End, NOW, config, exchange, handshake, settings};
use bytes::BytesMut;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

const SUITES: [(&SupportedProtocolVersion, u16); 5] =
    [(&TLS12, 0xc02b), (&TLS12, 0xc02c), (&TLS12, 0xcca9), (&TLS13, 0x1301), (&TLS13, 0x1303)];

fn numbers(length: usize) -> Vec<u8> {
    (0..length).map(|number| (number % 251) as u8).collect()
}

fn ability(version: &'static SupportedProtocolVersion, suite: u16) -> Ability {
    Ability { versions: vec![version], suites: Some(vec![suite]), ..Ability::default() }
}

#[test]
fn plaintext_arrives_whatever_the_buffers_are() {
    let text = numbers(50_000);
    for (version, suite) in SUITES {
        for (size, room, piece) in [(300, 1, 1000), (1000, 100, 7), (16_406, 16_384, 20_000), (40_000, 20_000, 1 << 20)]
        {
            let mut client = ability(version, suite).client();
            let mut server = handshake(&mut client, &config());
            server.send(&text, size);
            client.receive(&std::mem::take(&mut server.output));
            assert!(client.plaintext == text, "{suite:x} in buffers of {size}");
            server.room = room;
            for bytes in client.send(&text).chunks(piece) {
                server.receive(bytes);
            }
            assert!(server.plaintext == text, "{suite:x} in pieces of {piece} with room for {room}");
        }
    }
}

#[test]
fn encryption_uses_the_whole_buffer() {
    let text = numbers(40_000);
    for (version, suite) in SUITES {
        let mut server = handshake(&mut ability(version, suite).client(), &config());
        for size in [MIN_OUTPUT, 1000, 16_000, 16_500, 33_000] {
            let mut buffer = vec![0; size];
            let encrypted = server.session.encrypt(&text, &mut buffer).expect("to encrypt");
            assert!(encrypted.written <= size && encrypted.written + 30 > size, "{suite:x}: {encrypted:?} of {size}");
        }
    }
}

#[test]
fn records_are_no_larger_than_the_settings_say() {
    let config = ServerSettings { fragment: 1400, ..settings() }.build().expect("settings");
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config);
    server.send(&numbers(20_000), 30_000);
    let mut records = &server.output[..];
    while let [_, _, _, high, low, rest @ ..] = records {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        assert!(length <= 1400 + 17, "{length}");
        records = &rest[length..];
    }
    client.receive(&server.output);
    assert_eq!(client.plaintext, numbers(20_000));
}

#[test]
fn plaintext_directly_behind_the_handshake_is_there_after_it() {
    let mut client = ability(&TLS13, 0x1301).client();
    let mut server = End::server(&config());
    server.receive(&client.take_output());
    client.receive(&std::mem::take(&mut server.output));
    server.received = client.send(b"request");
    // The end of the handshake is told first, and an answer may be encrypted before the request is read.
    let progress = server.session.step(NOW, &mut server.received, &mut server.output, &mut Vec::new(), 100);
    server.received.drain(..progress.consumed);
    assert_eq!(progress.event, Event::Established);
    // All received bytes may be consumed by then, so the session itself has to say that there is something to read.
    assert!(server.session.has_more() || !server.received.is_empty());
    server.send(b"early answer", 1000);
    server.receive(&[]);
    assert_eq!(server.plaintext, b"request");
    client.receive(&server.output);
    assert_eq!(client.plaintext, b"early answer");
}

#[test]
fn both_sides_close() {
    for version in [&TLS12, &TLS13] {
        let ability = Ability { versions: vec![version], ..Ability::default() };
        // The client first: the server may still send.
        let mut client = ability.client();
        let mut server = handshake(&mut client, &config());
        let mut bytes = client.send(b"last words");
        client.connection.send_close_notify();
        bytes.extend(client.take_output());
        server.receive(&bytes);
        server.receive(b"behind the end");
        assert_eq!(server.plaintext, b"last words");
        assert_eq!(server.events, [Event::Established, Event::PeerClosed]);
        server.send(b"answer", 1000);
        server.session.close(&mut server.output);
        client.receive(&server.output);
        assert!(client.closed && client.plaintext == b"answer");

        // The server first: the client may still send, and closes then.
        let mut client = ability.client();
        let mut server = handshake(&mut client, &config());
        server.session.close(&mut server.output);
        let length = server.output.len();
        server.session.close(&mut server.output);
        assert_eq!(server.output.len(), length, "closed once");
        client.receive(&std::mem::take(&mut server.output));
        assert!(client.closed);
        let mut bytes = client.send(b"late words");
        client.connection.send_close_notify();
        bytes.extend(client.take_output());
        server.receive(&bytes);
        assert_eq!(server.plaintext, b"late words");
        assert_eq!(server.events, [Event::Established, Event::PeerClosed]);
        server.receive(b"behind the end");
        assert!(server.output.is_empty() && server.received.is_empty());
    }
}

#[test]
fn nothing_is_sent_behind_the_end_whatever_the_peer_still_does() {
    let mut client = ability(&TLS13, 0x1301).client();
    let mut server = handshake(&mut client, &config());
    server.session.close(&mut server.output);
    server.output.clear();
    // New keys, which would be answered, and a record that is none of the session's, for which there would be an alert.
    client.connection.refresh_traffic_keys().expect("to refresh");
    server.receive(&client.send(b"late words"));
    assert_eq!(server.plaintext, b"late words");
    server.receive(b"\x17\x03\x03\x00\x20this is no record of the session");
    assert_eq!((server.failure().kind, server.failure().alert), (FailureKind::BadRecord, None));
    assert!(server.output.is_empty());
}

#[test]
fn plaintext_that_waits_for_room_is_there_after_the_close() {
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config());
    let mut received = client.send(b"some words");
    let mut plaintext = Vec::new();
    let progress = server.session.step(NOW, &mut received, &mut server.output, &mut plaintext, 4);
    received.drain(..progress.consumed);
    server.session.close(&mut server.output);
    assert!(server.session.has_more());
    server.received = received;
    server.receive(&[]);
    assert_eq!((&plaintext[..], &server.plaintext[..]), (&b"some"[..], &b" words"[..]));
}

#[test]
fn before_the_end_of_the_handshake_there_is_nothing_to_close() {
    let mut server = End::server(&config());
    server.session.close(&mut server.output);
    assert!(server.output.is_empty());
    exchange(&mut Ability::default().client(), &mut server, usize::MAX);
    assert!(server.established());
}

#[test]
fn a_session_that_waits_has_no_buffers() {
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config());
    server.room = 100;
    let text = numbers(30_000);
    server.receive(&client.send(&text));
    assert_eq!(server.plaintext, text);
    assert_eq!(server.session.kept_bytes(), 0);
    assert!(!server.session.has_more());
    assert!(server.received.is_empty());
}

#[test]
fn plaintext_waits_for_room() {
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config());
    let mut received = client.send(b"words");
    let mut output = Vec::new();
    let mut full: &mut [u8] = &mut [];
    for most in [0, 100] {
        // There is no room because of either limit.
        let progress = match most {
            0 => server.session.step(NOW, &mut received, &mut output, &mut Vec::new(), most),
            _ => server.session.step(NOW, &mut received, &mut output, &mut full, most),
        };
        received.drain(..progress.consumed);
        assert_eq!(progress.event, Event::Plaintext(0));
    }
    // Sending in the meantime does not lose it.
    server.send(b"answer", 1000);
    server.received = received;
    server.receive(&[]);
    assert_eq!(server.plaintext, b"words");
}

#[test]
fn new_keys_of_the_client_are_followed() {
    let mut client = ability(&TLS13, 0x1301).client();
    let mut server = handshake(&mut client, &config());
    for _ in 0..3 {
        client.connection.refresh_traffic_keys().expect("to refresh");
        server.receive(&client.send(b"x"));
        server.send(b"y", MIN_OUTPUT);
        client.receive(&std::mem::take(&mut server.output));
    }
    assert_eq!((&server.plaintext[..], &client.plaintext[..]), (&b"xxx"[..], &b"yyy"[..]));
}

#[test]
fn a_buffer_of_any_kind_gets_plaintext_behind_what_it_has() {
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config());
    let mut received = client.send(b"some words");
    let mut buffer = BytesMut::from(&b"before: "[..]);
    let mut given = Vec::new();
    for most in [4, 100] {
        let progress = server.session.step(NOW, &mut received, &mut server.output, &mut buffer, most);
        received.drain(..progress.consumed);
        given.push(progress.event);
    }
    assert_eq!(given, [Event::Plaintext(4), Event::Plaintext(6)]);
    assert_eq!(&buffer[..], b"before: some words");
}

#[test]
fn the_end_of_the_handshake_and_of_the_session_may_come_together() {
    for version in [&TLS12, &TLS13] {
        let mut client = Ability { versions: vec![version], ..Ability::default() }.client();
        let mut server = End::server(&config());
        server.receive(&client.take_output());
        client.receive(&std::mem::take(&mut server.output));
        let mut last = client.take_output();
        client.connection.send_close_notify();
        last.extend(client.take_output());
        server.receive(&last);
        assert_eq!(server.events, [Event::Established, Event::PeerClosed], "{version:?}");
        assert!(server.session.agreed().is_some());
        server.receive(b"behind the end");
        assert!(server.received.is_empty());
        // What is said to the peer after its end still arrives.
        server.send(b"answer", 1000);
        server.session.close(&mut server.output);
        client.receive(&server.output);
        assert!(client.closed && client.plaintext == b"answer", "{version:?}");
    }
}

#[test]
fn a_record_that_has_begun_before_the_close_ends_after_it() {
    for version in [&TLS12, &TLS13] {
        let mut client = Ability { versions: vec![version], ..Ability::default() }.client();
        let mut server = handshake(&mut client, &config());
        let record = client.send(b"words");
        server.receive(&record[..10]);
        assert_eq!(server.received.len(), 10);
        server.session.close(&mut server.output);
        server.receive(&record[10..]);
        assert_eq!(server.plaintext, b"words", "{version:?}");
    }
}
