//! Plaintext in both directions, and the end of a session.

use super::super::{Event, MIN_OUTPUT, ServerSettings};
use super::client::Ability;
use super::{NOW, Server, config, exchange, handshake, settings};
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
    let mut server = Server::new(&config());
    server.receive(&client.take_output());
    client.receive(&std::mem::take(&mut server.output));
    server.received = client.send(b"request");
    // The end of the handshake is told first, and an answer may be encrypted before the request is read.
    let progress = server.session.step(NOW, &mut server.received, &mut server.output, &mut [0; 100]);
    server.received.drain(..progress.consumed);
    assert_eq!(progress.event, Event::Established);
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

        // The server first: what comes then is not read.
        let mut client = ability.client();
        let mut server = handshake(&mut client, &config());
        server.session.close(&mut server.output);
        let length = server.output.len();
        server.session.close(&mut server.output);
        assert_eq!(server.output.len(), length, "closed once");
        client.receive(&server.output);
        assert!(client.closed);
        server.receive(&client.send(b"late words"));
        server.receive(b"garbage");
        assert!(server.plaintext.is_empty() && server.received.is_empty());
        assert_eq!(server.events, [Event::Established]);
    }
}

#[test]
fn before_the_end_of_the_handshake_there_is_nothing_to_close() {
    let mut server = Server::new(&config());
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
    assert_eq!(server.session.rest.capacity(), 0);
    assert!(!server.session.has_plaintext());
    assert!(server.received.is_empty());
}

#[test]
fn plaintext_waits_for_room() {
    let mut client = Ability::default().client();
    let mut server = handshake(&mut client, &config());
    let mut received = client.send(b"words");
    let mut output = Vec::new();
    for _ in 0..2 {
        let progress = server.session.step(NOW, &mut received, &mut output, &mut []);
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
