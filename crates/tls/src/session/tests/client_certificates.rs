//! Certificates of clients.

use super::super::{
    ClientCertificates, ClientConfig, ClientSettings, Event, FailureKind, PeerSessions, ServerConfig, SessionCache,
    SessionSettings, SettingsError, TicketKeys, TlsVersion,
};
use super::client::Ability;
use super::library_server::pair;
use super::{End, NOW, ServerSettings, certified, ec, established, exchange, kept, rsa, settings};
use crate::fixtures::{ED25519_CRT, ED25519_KEY, OTHER_RSA_KEY, RSA_CRT};
use crate::load::CertifiedKey;
use rustls::client::ResolvesClientCert;
use rustls::sign::{CertifiedKey as Pair, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureScheme, SupportedProtocolVersion};
use std::sync::{Arc, Mutex};

const VERSIONS: [(TlsVersion, &SupportedProtocolVersion); 2] =
    [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];

/// A name of an authority in DER: `CN=a`.
const AUTHORITY: &[u8] = b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x0c\x01a";

fn asking() -> ServerConfig {
    let certificates = ClientCertificates { authorities: vec![AUTHORITY.to_vec()] };
    ServerSettings { client_certificates: Some(certificates), ..settings() }.build().expect("settings")
}

fn client(version: TlsVersion, certificate: Option<CertifiedKey>) -> ClientConfig {
    ClientSettings { versions: vec![version], certificate, ..ClientSettings::default() }.build().expect("settings")
}

#[test]
fn a_client_may_show_a_certificate_or_none() {
    for (version, _) in VERSIONS {
        // That of RSA is of version 1.
        for key in [rsa(), ec(), certified(ED25519_CRT, ED25519_KEY)] {
            let (_, server) = established(&client(version, Some(key.clone())), None, &asking());
            assert!(server.session.peer_certificates().eq(key.chain()), "{version:?}, {:?}", key.kind());
        }
        let (_, server) = established(&client(version, None), None, &asking());
        assert_eq!(server.session.peer_certificates().count(), 0);
    }
}

#[test]
fn a_certificate_is_not_shown_to_those_who_do_not_ask() {
    for (version, _) in VERSIONS {
        let (_, server) = established(&client(version, Some(ec())), None, &super::config());
        assert_eq!(server.session.peer_certificates().count(), 0);
    }
}

#[test]
fn the_session_of_a_client_whose_certificate_is_bad_is_forgotten() {
    let sessions = kept();
    let SessionCache::Kept(store) = &sessions.cache else { panic!("a store") };
    for (version, _) in VERSIONS {
        let (server, peer) = (asking().with_sessions(&sessions, b"context"), PeerSessions::new());
        let client = client(version, Some(rsa()));
        // The third one resumes the session of the second one, and is bad all the same.
        for (is_good, resumed, left) in [(false, false, false), (true, false, true), (false, true, false)] {
            let before = store.counts().sessions;
            let (_, mut one) = established(&client, Some(&peer), &server);
            assert_eq!(one.session.agreed().map(|agreed| agreed.resumed), Some(resumed), "{version:?}");
            one.session.settle(is_good);
            assert_eq!(store.counts().sessions > before, left, "{version:?}, {is_good}");
        }
        let (_, last) = established(&client, Some(&peer), &server);
        assert_eq!(last.session.agreed().map(|agreed| agreed.resumed), Some(false), "{version:?}");
    }
}

#[test]
fn a_resumed_session_still_has_the_certificate() {
    let tickets = TicketKeys::random(kept().timeout, NOW).expect("keys");
    for sessions in [kept(), SessionSettings { cache: SessionCache::Off, tickets: Some(tickets), ..kept() }] {
        for (version, _) in VERSIONS {
            let (server, peer) = (asking().with_sessions(&sessions, b"context"), PeerSessions::new());
            let client = client(version, Some(rsa()));
            for resumed in [false, true, true] {
                let (_, server) = established(&client, Some(&peer), &server);
                assert_eq!(server.session.agreed().map(|agreed| agreed.resumed), Some(resumed));
                assert!(server.session.peer_certificates().eq(rsa().chain()));
            }
        }
    }
}

#[test]
fn a_client_without_the_key_of_its_certificate_is_noticed() {
    for (version, library) in VERSIONS {
        let forged = Arc::new(SingleCertAndKey::from(pair(RSA_CRT, OTHER_RSA_KEY)));
        let ability = Ability { versions: vec![library], certificate: Some(forged), ..Ability::default() };
        let mut server = End::server(&asking());
        exchange(&mut ability.client(), &mut server, usize::MAX);
        assert_eq!(server.failure().kind, FailureKind::Certificate, "{version:?}");
        assert_eq!(server.session.peer_certificates().count(), 0);
    }
}

/// Shows nothing, and remembers which authorities were asked for.
#[derive(Debug, Default)]
struct Listener(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Listener {
    fn resolve(&self, authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<Pair>> {
        assert!(schemes.contains(&SignatureScheme::ECDSA_NISTP256_SHA256), "{schemes:?}");
        self.0.lock().expect("a lock").extend(authorities.iter().map(|name| name.to_vec()));
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn clients_are_told_which_authorities_are_wanted() {
    for (_, library) in VERSIONS {
        let listener = Arc::new(Listener::default());
        let ability = Ability { versions: vec![library], certificate: Some(listener.clone()), ..Ability::default() };
        let mut server = End::server(&asking());
        exchange(&mut ability.client(), &mut server, usize::MAX);
        assert_eq!(server.events, [Event::Established]);
        assert_eq!(*listener.0.lock().expect("a lock"), [AUTHORITY]);
    }
}

#[test]
fn as_many_authorities_as_have_room_can_be_named() {
    let of = |count: usize| {
        let certificates = ClientCertificates { authorities: vec![AUTHORITY.to_vec(); count] };
        ServerSettings { client_certificates: Some(certificates), ..settings() }.build()
    };
    let most = (60 << 10) / (AUTHORITY.len() + 2);
    for (version, _) in VERSIONS {
        drop(established(&client(version, None), None, &of(most).expect("settings")));
    }
    assert_eq!(of(most + 1).map(|_| ()), Err(SettingsError::TooManyAuthorities));
}
