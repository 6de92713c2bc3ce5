//! Sessions of servers that are resumed: from a store and from tickets, in time and out of it.

use super::super::{
    ClientConfig, ClientSettings, Event, PeerSessions, ServerConfig, SessionCache, SessionSettings, SessionStore,
    StoreCounts, TicketKeys, TlsVersion,
};
use super::{End, NOW, ServerSettings, config, established, kept, pass, settings};
use std::time::Duration;

const VERSIONS: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

fn only(version: TlsVersion) -> ClientConfig {
    ClientSettings { versions: vec![version], ..ClientSettings::default() }.build().expect("settings")
}

fn tickets() -> SessionSettings {
    let keys = TicketKeys::random(Duration::from_secs(300), NOW).expect("keys");
    SessionSettings { cache: SessionCache::None, tickets: Some(keys), ..kept() }
}

/// A handshake at a time after the usual one: whether it resumes a session, and the server's session.
fn at(seconds: u64, client: &ClientConfig, peer: &PeerSessions, server: &ServerConfig) -> (bool, End) {
    let (mut client, mut server) = (End::client(client, Some(peer)), End::server(server));
    for end in [&mut client, &mut server] {
        end.now = NOW + Duration::from_secs(seconds);
    }
    pass(&mut client, &mut server);
    assert_eq!(server.events, [Event::Established]);
    (server.session.agreed().expect("a session").resumed, server)
}

#[test]
fn each_way_resumes_what_it_promises() {
    for version in VERSIONS {
        let client = only(version);
        for (sessions, resumed) in [
            (SessionSettings { cache: SessionCache::Off, ..kept() }, false),
            (SessionSettings { cache: SessionCache::None, ..kept() }, false),
            (kept(), true),
            (tickets(), true),
            (SessionSettings { cache: SessionCache::Off, ..tickets() }, true),
            (SessionSettings { cache: kept().cache, ..tickets() }, true),
        ] {
            let (peer, server) = (PeerSessions::new(), config().with_sessions(&sessions, b"context"));
            assert!(!at(0, &client, &peer, &server).0);
            assert_eq!(at(1, &client, &peer, &server).0, resumed, "{version:?}, {sessions:?}");
            assert_eq!(at(2, &client, &peer, &server).0, resumed, "{version:?}, {sessions:?}");
        }
    }
}

#[test]
fn a_session_is_not_resumed_for_longer_than_its_time_however_often_it_was() {
    for version in VERSIONS {
        for sessions in [kept(), tickets()] {
            let (client, server) = (only(version), config().with_sessions(&sessions, b"context"));
            let peer = PeerSessions::new();
            let resumed = [0, 100, 200, 300, 301].map(|seconds| at(seconds, &client, &peer, &server).0);
            assert_eq!(resumed, [false, true, true, true, false], "{version:?}, {sessions:?}");
            // That was a full handshake, from which the time counts anew.
            let resumed = [302, 601, 602].map(|seconds| at(seconds, &client, &peer, &server).0);
            assert_eq!(resumed, [true, true, false], "{version:?}, {sessions:?}");
        }
    }
}

#[test]
fn sessions_of_another_context_are_not_resumed() {
    for version in VERSIONS {
        for sessions in [kept(), tickets()] {
            let (client, peer) = (only(version), PeerSessions::new());
            let [one, two] = [b"one", b"two"].map(|context| config().with_sessions(&sessions, context));
            assert!(!at(0, &client, &peer, &one).0);
            assert!(!at(0, &client, &peer, &two).0);
            assert!(at(0, &client, &peer, &two).0);
            // A configuration that was made anew has the same sessions.
            assert!(at(0, &client, &peer, &config().with_sessions(&sessions, b"two")).0);
        }
    }
}

#[test]
fn a_session_is_only_resumed_with_the_name_that_it_began_with() {
    // rustls holds to RFC 6066 section 3 here, and a store that several servers share relies on it.
    let (client, peer, server) =
        (only(TlsVersion::Tls13), PeerSessions::new(), config().with_sessions(&kept(), b"context"));
    assert!(!at(0, &client, &peer, &server).0);
    let other = super::super::TlsSession::client(&client, NOW, Some("other.example.org"), Some(peer.clone()));
    let (mut client, mut server) = (End::of(other.expect("a session")), End::server(&server));
    pass(&mut client, &mut server);
    assert_eq!(server.session.agreed().map(|agreed| agreed.resumed), Some(false));
}

#[test]
fn clients_get_as_many_tickets_as_the_settings_say_and_one_after_a_resumed_session() {
    for count in [0, 1, 3] {
        let SessionCache::Kept(store) = kept().cache else { panic!("a store") };
        let sessions = SessionSettings { cache: SessionCache::Kept(store.clone()), ..kept() };
        let settings = ServerSettings { tickets: count, ..settings() };
        let server = settings.build().expect("settings").with_sessions(&sessions, b"context");
        let (client, peer) = (only(TlsVersion::Tls13), PeerSessions::new());
        assert!(!at(0, &client, &peer, &server).0);
        assert_eq!(store.counts().sessions, count);
        assert_eq!(at(0, &client, &peer, &server).0, count > 0);
        // The store also has the one that was used.
        assert_eq!(store.counts().sessions, count + count.min(1));
    }
}

#[test]
fn a_session_has_the_id_that_clients_know() {
    for version in VERSIONS {
        for sessions in [kept(), tickets(), SessionSettings { cache: SessionCache::Off, ..kept() }] {
            let server = config().with_sessions(&sessions, b"context");
            let (client, peer) = (only(version), PeerSessions::new());
            let (_, first) = at(0, &client, &peer, &server);
            let (resumed, second) = at(0, &client, &peer, &server);
            let [first, second] = [&first, &second].map(|end| end.session.agreed().expect("a session").session_id);
            assert_eq!(first.map(<[u8]>::len), (!matches!(sessions.cache, SessionCache::Off)).then_some(32));
            match (version, resumed, sessions.tickets.is_some()) {
                (_, false, _) => assert_eq!((first, second), (None, None)),
                // The id stays in TLS 1.2, unless the session was resumed by a ticket, for which clients choose an id.
                (TlsVersion::Tls12, _, false) => assert_eq!(first, second),
                (TlsVersion::Tls13, _, _) | (_, _, true) => assert_ne!(first, second),
            }
        }
    }
}

#[test]
fn a_store_is_bounded_in_bytes() {
    let store = SessionStore::new(20_000);
    let server =
        config().with_sessions(&SessionSettings { cache: SessionCache::Kept(store.clone()), ..kept() }, b"context");
    for _ in 0..100 {
        drop(established(&only(TlsVersion::Tls12), None, &server));
    }
    let StoreCounts { sessions, bytes, max_bytes, evicted } = store.counts();
    assert!((50..=80).contains(&sessions) && bytes <= 20_000, "{store:?}");
    assert_eq!((max_bytes, evicted), (20_000, 100 - sessions as u64));
    for none in [SessionStore::new(0), SessionStore::for_sessions(0)] {
        let sessions = SessionSettings { cache: SessionCache::Kept(none.clone()), ..kept() };
        let server = config().with_sessions(&sessions, b"context");
        drop(established(&only(TlsVersion::Tls12), None, &server));
        assert_eq!((none.counts().sessions, none.counts().bytes), (0, 0));
    }
}

#[test]
fn garbage_instead_of_a_ticket_is_no_harm() {
    // The keys are others, so the ticket is as good as garbage to the second server.
    for version in VERSIONS {
        let (client, peer) = (only(version), PeerSessions::new());
        let [one, two] = [tickets(), tickets()].map(|sessions| config().with_sessions(&sessions, b"context"));
        assert!(!at(0, &client, &peer, &one).0);
        assert!(!at(0, &client, &peer, &two).0);
        assert!(at(0, &client, &peer, &two).0);
    }
}
