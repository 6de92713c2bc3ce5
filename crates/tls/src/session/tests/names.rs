//! Names of servers that rustls does not take for names.

use super::super::{
    ClientCertificates, ClientConfig, ClientSettings, Event, FailureKind, PeerSessions, ServerConfig, TlsSession,
    TlsVersion,
};
use super::{End, NOW, ServerSettings, kept, rsa, settings};
use freerun_proto::tls::replace_in_messages;

const VERSIONS: [TlsVersion; 2] = TlsVersion::ALL;

const P256: u16 = 23;
const X25519: u16 = 29;

/// Names that are none of DNS by the rules of rustls, and one that is.
const NAMES: [&str; 14] = [
    "www.example.org",
    "x-.cdn.example.com",
    "-a.test",
    "a.test-",
    "123",
    "a.1",
    "a.test:443",
    "[::1]",
    "a..test",
    ".a.test",
    "*.test",
    "-",
    "a b",
    "münchen.test",
];

fn client(settings: ClientSettings, name: &str, peer: Option<&PeerSessions>) -> End {
    let config: ClientConfig = settings.build().expect("settings");
    End::of(TlsSession::client(&config, NOW, Some(name), peer.cloned()).expect("a session"))
}

fn only(version: TlsVersion) -> ClientSettings {
    ClientSettings { versions: vec![version], ..ClientSettings::default() }
}

/// A handshake in which the server answers the whole ClientHello, and data that goes both ways after it. The server gets what the
/// client sends in pieces of this size.
fn talk(mut client: End, config: &ServerConfig, piece: usize) -> (End, End) {
    client.receive(&[]);
    let mut server = End::answering(config, &std::mem::take(&mut client.output));
    while !server.output.is_empty() {
        client.receive(&std::mem::take(&mut server.output));
        for piece in std::mem::take(&mut client.output).chunks(piece) {
            server.receive(piece);
        }
    }
    assert_eq!((&client.events[..], &server.events[..]), (&[Event::Established][..], &[Event::Established][..]));
    client.send(b"request", 300);
    server.receive(&std::mem::take(&mut client.output));
    server.send(b"answer", 300);
    client.receive(&std::mem::take(&mut server.output));
    assert_eq!((&client.plaintext[..], &server.plaintext[..]), (&b"answer"[..], &b"request"[..]));
    (client, server)
}

fn name_of(server: &End) -> Option<&str> {
    server.session.agreed().expect("a session").server_name
}

#[test]
fn any_name_may_be_asked_for() {
    let longest = ["b".repeat(64), "c".repeat(63), "d".repeat(63), "e".repeat(60)].join(".");
    assert_eq!(longest.len(), 253);
    for version in VERSIONS {
        for name in NAMES.into_iter().chain([longest.as_str(), &longest[..127], &longest[..64]]) {
            let (_, server) = talk(client(only(version), name, None), &settings().build().expect("settings"), 1000);
            assert_eq!(name_of(&server), Some(name), "{version:?}");
        }
    }
}

#[test]
fn any_name_may_be_asked_for_by_a_client_that_shows_a_certificate() {
    let asking = ServerSettings { client_certificates: Some(ClientCertificates::default()), ..settings() }
        .build()
        .expect("settings");
    for version in VERSIONS {
        for name in NAMES {
            let settings = ClientSettings { certificate: Some(rsa()), ..only(version) };
            let (_, server) = talk(client(settings, name, None), &asking, 1000);
            assert_eq!(name_of(&server), Some(name), "{version:?}");
            assert!(server.session.peer_certificates().eq(rsa().chain()), "{version:?}, {name}");
        }
    }
}

#[test]
fn any_name_may_be_asked_for_again_for_another_group() {
    let server = ServerSettings { groups: vec![P256], ..settings() }.build().expect("settings");
    for piece in [1, 7, 1000] {
        for name in NAMES {
            let settings = ClientSettings { groups: vec![X25519, P256], ..only(TlsVersion::Tls13) };
            let (_, server) = talk(client(settings, name, None), &server, piece);
            assert_eq!((name_of(&server), server.session.agreed().unwrap().group), (Some(name), "prime256v1"));
        }
    }
}

#[test]
fn another_name_in_the_second_hello_ends_the_handshake() {
    let config = ServerSettings { groups: vec![P256], ..settings() }.build().expect("settings");
    let settings = ClientSettings { groups: vec![X25519, P256], ..only(TlsVersion::Tls13) };
    let mut client = client(settings, "a b", None);
    client.receive(&[]);
    let mut server = End::answering(&config, &std::mem::take(&mut client.output));
    client.receive(&std::mem::take(&mut server.output));
    let bytes = freerun_proto::tls::message_bytes(&client.output);
    let at = bytes.windows(3).position(|bytes| bytes == b"a b").expect("the name");
    replace_in_messages(&mut client.output, at, b"b a");
    server.receive(&client.output);
    assert_eq!(server.failure().kind, FailureKind::Protocol);
}

#[test]
fn sessions_are_resumed_with_the_name_that_they_began_with() {
    for version in VERSIONS {
        let config = settings().build().expect("settings").with_sessions(&kept(), b"context");
        let peer = PeerSessions::new();
        let is_resumed = |name: &str| {
            let (_, server) = talk(client(only(version), name, Some(&peer)), &config, 1000);
            let agreed = server.session.agreed().expect("a session");
            assert_eq!(agreed.server_name, Some(name));
            agreed.resumed
        };
        for name in ["x-.test", "a b"] {
            assert!(!is_resumed(name), "{version:?}, {name}");
            assert!(is_resumed(name), "{version:?}, {name}");
        }
        assert!(!is_resumed("www.example.org"));
    }
}
