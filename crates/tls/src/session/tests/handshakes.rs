//! What peers agree on.

use super::super::algorithms::GROUPS;
use super::super::certificates::last_of_each_type;
use super::super::names;
use super::super::{FailureKind, MAX_INPUT, SessionParameters, SettingsError, TlsVersion};
use super::client::Ability;
use super::{End, ServerSettings, config, ec, exchange, handshake, rsa, settings};
use crate::load::CertifiedKey;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{SignatureScheme, SupportedProtocolVersion};

fn only(version: &'static SupportedProtocolVersion) -> Ability {
    Ability { versions: vec![version], ..Ability::default() }
}

#[test]
fn both_sides_know_what_was_agreed_on() {
    let server = handshake(&mut only(&TLS13).client(), &config());
    let mut agreed = SessionParameters {
        version: TlsVersion::Tls13,
        cipher: "TLS_AES_256_GCM_SHA384",
        group: "X25519",
        server_name: Some("www.example.org"),
        alpn: None,
        resumed: false,
        session_id: None,
        early_data: false,
    };
    assert_eq!(server.session.agreed(), Some(agreed));
    let server = handshake(&mut only(&TLS12).client(), &config());
    (agreed.version, agreed.cipher) = (TlsVersion::Tls12, "ECDHE-ECDSA-AES256-GCM-SHA384");
    assert_eq!(server.session.agreed(), Some(agreed));
}

#[test]
fn a_handshake_may_come_in_pieces_of_any_size() {
    for version in [&TLS12, &TLS13] {
        for piece in [1, 2, 3, 5, 7, 64, 255] {
            let (mut client, mut server) = (only(version).client(), End::server(&config()));
            exchange(&mut client, &mut server, piece);
            assert!(server.established(), "{version:?} in pieces of {piece}");
            assert!(server.received.is_empty());
        }
    }
}

#[test]
fn every_split_of_the_first_message_is_the_same() {
    for version in [&TLS12, &TLS13] {
        let length = only(version).client().take_output().len();
        for split in 0..=length {
            let (mut client, mut server) = (only(version).client(), End::server(&config()));
            let hello = client.take_output();
            let split = split.min(hello.len());
            server.receive(&hello[..split]);
            assert_eq!(server.output.is_empty(), split < hello.len());
            server.receive(&hello[split..]);
            exchange(&mut client, &mut server, usize::MAX);
            assert!(server.established());
        }
    }
}

#[test]
fn a_handshake_may_come_in_many_records() {
    for version in [&TLS12, &TLS13] {
        let ability = Ability { fragment: Some(32), ..only(version) };
        let (mut client, mut server) = (ability.client(), End::server(&config()));
        exchange(&mut client, &mut server, 11);
        assert!(server.established());
    }
}

#[test]
fn of_two_certificates_with_keys_of_one_type_the_last_one_is_used() {
    let (first, second) = (rsa(), rsa());
    let kept = last_of_each_type(vec![first, ec(), second.clone()]);
    assert_eq!(kept.len(), 2);
    assert!(std::sync::Arc::ptr_eq(&kept[1].shared(), &second.shared()));
}

#[test]
fn the_client_decides_by_what_it_can_verify_which_certificate_it_gets() {
    let both = ServerSettings { keys: vec![rsa(), ec()], ..settings() }.build().expect("settings");
    let der = |key: &CertifiedKey| key.chain().next().expect("a certificate").to_vec();
    let rsa_schemes = vec![SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256];
    for version in [&TLS12, &TLS13] {
        let groups = vec![kx_group::X25519, kx_group::SECP256R1];
        let mut modern = Ability { groups, ..only(version) }.client();
        drop(handshake(&mut modern, &both));
        assert_eq!(modern.shown(), der(&ec()));
        let mut old = Ability { schemes: rsa_schemes.clone(), ..only(version) }.client();
        drop(handshake(&mut old, &both));
        assert_eq!(old.shown(), der(&rsa()));
    }
    // In TLS 1.2 a client also says by its groups which curves it knows.
    let suites = Some(vec![0xc02b, 0xc02f]);
    let mut client = Ability { groups: vec![kx_group::X25519], suites, ..only(&TLS12) }.client();
    drop(handshake(&mut client, &both));
    assert_eq!(client.shown(), der(&rsa()));
    let alone = ServerSettings { keys: vec![ec()], ..settings() }.build().expect("settings");
    for version in [&TLS12, &TLS13] {
        let mut client = Ability { schemes: rsa_schemes.clone(), ..only(version) }.client();
        let mut server = End::server(&alone);
        exchange(&mut client, &mut server, usize::MAX);
        assert_eq!(server.failure().alert, Some(40));
    }
}

#[test]
fn suites_decide_which_certificate_a_client_of_tls_1_2_gets() {
    let der = |key: &CertifiedKey| key.chain().next().expect("a certificate").to_vec();
    let server = |versions: &[TlsVersion], prefer_server_order| {
        let suites = vec![0x1301, 0xc02b, 0xc02f];
        let settings = ServerSettings { keys: vec![ec(), rsa()], suites, ..settings() };
        ServerSettings { versions: versions.to_vec(), prefer_server_order, ..settings }.build().expect("settings")
    };
    let client = |suites: &[u16], groups| Ability { suites: Some(suites.to_vec()), groups, ..Ability::default() };
    let curves = || vec![kx_group::X25519, kx_group::SECP256R1];
    let only12 = [TlsVersion::Tls12];
    for (versions, insists, ability, expected) in [
        // Suites of TLS 1.3 fit any certificate, but do not count where that version is not served.
        (&only12[..], false, client(&[0x1301, 0xc02f], curves()), rsa()),
        (&only12, false, client(&[0x1301, 0xc02b, 0xc02f], vec![kx_group::X25519]), rsa()),
        (&only12, false, client(&[0x1301, 0xc02b, 0xc02f], curves()), ec()),
        // The first common suite decides, in the order of whoever chooses.
        (&only12, false, client(&[0xc02f, 0xc02b], curves()), rsa()),
        (&only12, true, client(&[0xc02f, 0xc02b], curves()), ec()),
        (
            &[TlsVersion::Tls12, TlsVersion::Tls13],
            false,
            Ability { versions: vec![&TLS12], ..client(&[0xc02f], curves()) },
            rsa(),
        ),
        (&[TlsVersion::Tls13], false, client(&[0x1301, 0xc02f], vec![kx_group::X25519]), ec()),
    ] {
        let mut client = ability.client();
        let server = handshake(&mut client, &server(versions, insists));
        let cipher = server.session.agreed().map(|agreed| agreed.cipher);
        assert_eq!(client.shown(), der(&expected), "{versions:?}, {insists}, {:?}: {cipher:?}", ability.suites);
    }
}

#[test]
fn suites_groups_and_versions_are_those_of_the_settings() {
    // P-521 alone, which is not in the client's library, is tried against another implementation.
    let settings = |suites: &[u16], groups: &[u16]| ServerSettings {
        suites: suites.to_vec(),
        groups: groups.to_vec(),
        ..settings()
    };
    let config = settings(&[0x1301, 0xc02b], &[23]).build().expect("settings");
    let ability = Ability { groups: vec![kx_group::X25519, kx_group::SECP256R1], ..Ability::default() };
    let server = handshake(&mut ability.client(), &config);
    let agreed = server.session.agreed().expect("a session");
    assert_eq!((agreed.cipher, agreed.group), ("TLS_AES_128_GCM_SHA256", "prime256v1"));
    // Without suites of TLS 1.3 there is no TLS 1.3.
    let config = settings(&[0xc02b], &[29]).build().expect("settings");
    let agreed = handshake(&mut ability.client(), &config);
    assert_eq!(agreed.session.agreed().map(|agreed| agreed.cipher), Some("ECDHE-ECDSA-AES128-GCM-SHA256"));
    assert_eq!(settings(&[0x0005], &[]).build().map(|_| ()), Err(SettingsError::NoSuite));
    assert_eq!(settings(&[], &[0x0100]).build().map(|_| ()), Err(SettingsError::NoGroup));
    let none = ServerSettings { versions: vec![TlsVersion::Tls13], suites: vec![0xc02b], ..self::settings() };
    assert_eq!(none.build().map(|_| ()), Err(SettingsError::NoVersion));
    assert_eq!(ServerSettings::default().build().map(|_| ()), Err(SettingsError::NoCertificate));
}

#[test]
fn a_server_may_insist_on_its_order_of_suites() {
    let mut settings = ServerSettings { suites: vec![0x1303, 0x1302], ..settings() };
    let cipher = |settings: &ServerSettings| {
        let server = handshake(&mut only(&TLS13).client(), &settings.clone().build().expect("settings"));
        server.session.agreed().expect("a session").cipher
    };
    assert_eq!(cipher(&settings), "TLS_AES_256_GCM_SHA384");
    settings.prefer_server_order = true;
    assert_eq!(cipher(&settings), "TLS_CHACHA20_POLY1305_SHA256");
}

#[test]
fn a_group_that_the_client_has_not_prepared_takes_another_round() {
    let config = ServerSettings { groups: vec![24], ..settings() }.build().expect("settings");
    let ability = Ability { groups: vec![kx_group::X25519, kx_group::SECP384R1], ..only(&TLS13) };
    let server = handshake(&mut ability.client(), &config);
    assert_eq!(server.session.agreed().map(|agreed| agreed.group), Some("secp384r1"));
}

#[test]
fn protocols_above_tls_are_agreed_on_or_the_client_is_refused() {
    let alpn = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    let config = ServerSettings { alpn, ..settings() }.build().expect("settings");
    let client = |names: &[&str]| {
        Ability { alpn: names.iter().map(|name| name.as_bytes().to_vec()).collect(), ..Ability::default() }.client()
    };
    let server = handshake(&mut client(&["h2", "http/1.0", "http/1.1"]), &config);
    assert_eq!(server.session.agreed().and_then(|agreed| agreed.alpn), Some(&b"http/1.1"[..]));
    let server = handshake(&mut client(&[]), &config);
    assert_eq!(server.session.agreed().and_then(|agreed| agreed.alpn), None);
    let mut server = End::server(&config);
    exchange(&mut client(&["h2"]), &mut server, usize::MAX);
    assert_eq!((server.failure().kind, server.failure().alert), (FailureKind::NoApplicationProtocol, Some(120)));
}

#[test]
fn a_message_that_never_ends_is_not_collected_for_ever() {
    // A ClientHello of almost 64 KiB in records of one byte each.
    let mut server = End::server(&config());
    let mut record = |byte: u8| server.receive(&[22, 3, 1, 0, 1, byte]);
    for byte in [1, 0, 0xff, 0] {
        record(byte);
    }
    let mut sent = 4;
    while server.events.is_empty() && sent < MAX_INPUT {
        server.receive(&[22, 3, 1, 0, 1, 0].repeat(100));
        sent += 100;
        assert!(server.received.len() <= MAX_INPUT + 600);
    }
    assert_eq!(server.failure().kind, FailureKind::TooLarge);
}

#[test]
fn what_configurations_may_name_is_there() {
    let has_suite = |number| ALL_CIPHER_SUITES.iter().any(|suite| u16::from(suite.suite()) == number);
    for group in crate::openssl::groups::GROUPS {
        let known = GROUPS.iter().find(|known| u16::from(known.name()) == group.id);
        assert_eq!(known.is_some(), group.usable, "{}", group.name());
        assert!(known.is_none_or(|known| names::group(known.name()) == group.name()), "{}", group.name());
    }
    for suite in crate::openssl::ciphers::evaluate("ALL:COMPLEMENTOFALL").expect("suites").suites {
        assert_eq!(has_suite(suite.id), suite.usable(), "{}", suite.name);
    }
    let usable = crate::openssl::ciphersuites::Ciphersuite::DEFAULT;
    assert!(usable.iter().all(|suite| has_suite(suite.id())));
}
