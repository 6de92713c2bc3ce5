//! Sessions of clients, against those of servers and against rustls's own server.

use super::super::{
    ClientConfig, ClientSessions, ClientSettings, Event, FailureKind, SessionParameters, TlsSession, TlsVersion,
};
use super::library_server::{LibraryServer, config as library_config};
use super::{End, NOW, ServerSettings, config, ec, established, keeping, pass, rsa, settings};
use crate::fixtures::{EC_CRT, EC_KEY, ED25519_CRT, ED25519_KEY, OTHER_RSA_KEY, RSA_CRT, RSA_KEY};
use crate::load::CertifiedKey;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

const VERSIONS: [(TlsVersion, &SupportedProtocolVersion); 2] =
    [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];

fn only(version: TlsVersion) -> ClientConfig {
    ClientSettings { versions: vec![version], ..ClientSettings::default() }.build().expect("settings")
}

fn der(key: &CertifiedKey) -> Vec<Vec<u8>> {
    key.chain().map(<[u8]>::to_vec).collect()
}

#[test]
fn both_sides_agree_and_data_goes_both_ways() {
    for (version, cipher) in
        [(TlsVersion::Tls12, "ECDHE-ECDSA-AES256-GCM-SHA384"), (TlsVersion::Tls13, "TLS_AES_256_GCM_SHA384")]
    {
        let (mut client, mut server) = established(&only(version), None, &config());
        let mut agreed = SessionParameters {
            version,
            cipher,
            group: if version == TlsVersion::Tls13 { "X25519MLKEM768" } else { "X25519" },
            server_name: None,
            alpn: None,
            resumed: false,
            session_id: None,
            early_data: false,
        };
        assert_eq!(client.session.agreed(), Some(agreed));
        agreed.server_name = Some("www.example.org");
        assert_eq!(server.session.agreed(), Some(agreed));
        assert!(client.session.peer_certificates().eq(der(&ec())));
        assert_eq!(server.session.peer_certificates().count(), 0);
        client.send(b"request", 300);
        server.send(b"answer", 300);
        pass(&mut client, &mut server);
        assert_eq!((&client.plaintext[..], &server.plaintext[..]), (&b"answer"[..], &b"request"[..]));
        client.session.close(&mut client.output);
        pass(&mut client, &mut server);
        assert_eq!(server.events, [Event::Established, Event::PeerClosed]);
    }
}

#[test]
fn names_are_sent_and_addresses_are_not() {
    let named = |name: Option<&str>| {
        let mut client = End::of(TlsSession::client(&only(TlsVersion::Tls13), NOW, name, None).expect("a session"));
        let mut server = End::server(&config());
        pass(&mut client, &mut server);
        server.session.agreed().expect("a session").server_name.map(str::to_owned)
    };
    assert_eq!(named(Some("www.example.org")).as_deref(), Some("www.example.org"));
    assert_eq!(named(Some("under_score.example")).as_deref(), Some("under_score.example"));
    assert_eq!(named(None), None);
    assert_eq!(named(Some("127.0.0.1")), None);
    assert_eq!(named(Some("::1")), None);
    for name in ["", "a\0b", &"x".repeat(254)] {
        let failed = TlsSession::client(&only(TlsVersion::Tls13), NOW, Some(name), None).expect_err(name);
        assert_eq!(failed.kind, FailureKind::ServerName);
    }
}

#[test]
fn any_certificate_is_accepted_whose_key_the_server_has() {
    for (version, library) in VERSIONS {
        // Those of RSA are of version 1, which webpki does not read.
        for (certificate, key) in [(RSA_CRT, RSA_KEY), (EC_CRT, EC_KEY), (ED25519_CRT, ED25519_KEY)] {
            let mut client = End::client(&only(version), None);
            client.receive(&[]);
            let mut server = LibraryServer::new(library_config(certificate, key, &[library]));
            for _ in 0..3 {
                let output = std::mem::take(&mut client.output);
                client.receive(&server.exchange(&output));
            }
            assert_eq!(client.events, [Event::Established], "{version:?}");
        }
    }
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_noticed() {
    for (version, library) in VERSIONS {
        let mut client = End::client(&only(version), None);
        client.receive(&[]);
        let mut server = LibraryServer::new(library_config(RSA_CRT, OTHER_RSA_KEY, &[library]));
        let output = std::mem::take(&mut client.output);
        client.receive(&server.exchange(&output));
        assert_eq!(client.failure().kind, FailureKind::Certificate, "{version:?}");
        assert_eq!(client.session.peer_certificates().count(), 0);
    }
}

#[test]
fn protocols_above_tls_are_agreed_on() {
    let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let client = ClientSettings { alpn, ..ClientSettings::default() }.build().expect("settings");
    let server = ServerSettings { alpn: vec![b"http/1.1".to_vec()], ..settings() }.build().expect("settings");
    let (client, _) = established(&client, None, &server);
    assert_eq!(client.session.agreed().and_then(|agreed| agreed.alpn), Some(&b"http/1.1"[..]));
}

#[test]
fn suites_and_groups_are_those_of_the_settings() {
    let settings = ClientSettings { suites: vec![0x1303, 0xcca9], groups: vec![24], ..ClientSettings::default() };
    let (client, _) = established(&settings.build().expect("settings"), None, &config());
    let agreed = client.session.agreed().expect("a session");
    assert_eq!((agreed.cipher, agreed.group), ("TLS_CHACHA20_POLY1305_SHA256", "secp384r1"));
}

#[test]
fn a_server_of_another_version_is_refused() {
    let only13 = ServerSettings { versions: vec![TlsVersion::Tls13], ..settings() }.build().expect("settings");
    let (mut client, mut server) = (End::client(&only(TlsVersion::Tls12), None), End::server(&only13));
    pass(&mut client, &mut server);
    assert_eq!(
        client.failure().openssl(),
        "SSL: error:0A00042E:SSL routines::tlsv1 alert protocol version:SSL alert number 70"
    );
}

#[test]
fn sessions_are_resumed_with_the_same_peer_only() {
    for (version, _) in VERSIONS {
        let server = keeping(&config());
        let (client, sessions) = (only(version), ClientSessions::new(10));
        let resumed = |key: &[u8]| {
            let (client, server) = established(&client, Some(&sessions.peer(key)), &server);
            assert!(client.session.peer_certificates().eq(der(&ec())), "also of a resumed session");
            let [client, server] = [&client, &server].map(|end| end.session.agreed().expect("a session").resumed);
            assert_eq!(client, server);
            client
        };
        assert_eq!([b"a", b"b", b"a", b"b", b"a"].map(|key| resumed(key)), [false, false, true, true, true]);
        // Without a store there is nothing to resume.
        let (client, _) = established(&client, None, &server);
        assert_eq!(client.session.agreed().map(|agreed| agreed.resumed), Some(false));
    }
}

#[test]
fn sessions_are_not_resumed_with_another_certificate() {
    let server = keeping(&config());
    let peer = ClientSessions::new(10).peer(b"a");
    let (plain, key) = (only(TlsVersion::Tls13), ec());
    let resumed = |client: &ClientConfig| {
        let (client, _) = established(client, Some(&peer), &server);
        client.session.agreed().map(|agreed| agreed.resumed)
    };
    assert_eq!(resumed(&plain), Some(false));
    assert_eq!(resumed(&plain), Some(true));
    assert_eq!(resumed(&plain.with_certificate(Some(&key))), Some(false));
    assert_eq!(resumed(&plain.with_certificate(Some(&key))), Some(true), "the same, made once more");
    assert_eq!(resumed(&plain.with_certificate(Some(&rsa()))), Some(false));
}

#[test]
fn sessions_of_few_peers_are_kept() {
    let server = keeping(&config());
    let (client, sessions) = (only(TlsVersion::Tls12), ClientSessions::new(5));
    for peer in 0..100_u8 {
        drop(established(&client, Some(&sessions.peer(&[peer])), &server));
    }
    assert_eq!(format!("{sessions:?}"), "ClientSessions { peers: 5 }");
    let none = ClientSessions::new(0);
    drop(established(&client, Some(&none.peer(b"a")), &server));
    assert_eq!(format!("{none:?}"), "ClientSessions { peers: 0 }");
}

#[test]
fn tickets_may_come_in_many_records() {
    for length in [1, 1000, 30_000] {
        let mut client = End::client(&only(TlsVersion::Tls13), None);
        let mut server = LibraryServer::with_long_tickets(library_config(EC_CRT, EC_KEY, &[&TLS13]), length);
        client.receive(&[]);
        let mut from_server = server.exchange(&std::mem::take(&mut client.output));
        client.receive(&from_server);
        from_server = server.exchange(&std::mem::take(&mut client.output));
        from_server.extend(server.send(b"first"));
        from_server.extend(server.send(b"second"));
        client.room = 3;
        let mut sent = 0;
        for (at, piece) in from_server.chunks(100).enumerate() {
            client.receive(piece);
            assert!(client.received.len() < 300, "the session keeps the pieces of a message itself");
            // What is sent in the meantime does not disturb it.
            if at % 50 == 0 {
                client.send(b"x", 300);
                server.exchange(&std::mem::take(&mut client.output));
                sent += 1;
            }
        }
        assert_eq!(server.plaintext(), vec![b'x'; sent]);
        assert_eq!(client.plaintext, b"firstsecond", "tickets of {length} bytes");
        assert_eq!(client.session.kept_bytes(), 0);
        assert_eq!(client.events, [Event::Established]);
    }
}

#[test]
fn a_session_may_be_closed_in_the_middle_of_a_message() {
    let mut client = End::client(&only(TlsVersion::Tls13), None);
    let mut server = LibraryServer::with_long_tickets(library_config(EC_CRT, EC_KEY, &[&TLS13]), 1000);
    client.receive(&[]);
    let flight = server.exchange(&std::mem::take(&mut client.output));
    client.receive(&flight);
    let tickets = server.exchange(&std::mem::take(&mut client.output));
    client.receive(&tickets[..400]);
    client.session.close(&mut client.output);
    assert!(!client.output.is_empty());
    client.receive(&tickets[400..]);
    assert_eq!((client.session.kept_bytes(), client.received.len()), (0, 0));
    drop(server.exchange(&client.output));
    assert!(server.0.process_new_packets().expect("no error").peer_has_closed());
}
