//! Peers that break the rules, on purpose or not.

use super::super::{Event, FailureKind, TlsSession, TlsVersion};
use super::client::Ability;
use super::{End, NOW, config, exchange, handshake};
use freerun_proto::tls::{HelloProgress, HelloReader};
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::version::{TLS12, TLS13};

#[test]
fn other_protocols_are_recognised() {
    for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"\x80\x2e\x01\x03\x01", &[0xff; 100]] {
        let mut server = End::server(&config());
        server.receive(bytes);
        assert_eq!(server.failure().kind, FailureKind::NotTls, "{bytes:?}");
        assert!(server.received.is_empty());
    }
    let mut server = End::server(&config());
    server.receive(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(server.failure().openssl(), "SSL: error:0A00010B:SSL routines::wrong version number");
}

#[test]
fn a_failed_session_stays_failed() {
    let mut server = End::server(&config());
    server.receive(b"garbage");
    let (failure, output) = (server.failure().clone(), server.output.clone());
    server.receive(&Ability::default().client().take_output());
    assert_eq!(server.failure(), &failure);
    assert_eq!(server.output, output, "one alert only");
    assert!(server.session.encrypt(b"words", &mut [0; 500]).is_err());
    server.session.close(&mut server.output);
    assert_eq!(server.output, output);
    assert_eq!(server.session.agreed(), None);
}

#[test]
fn a_version_that_is_not_served_is_refused_by_its_alert() {
    let only13 = super::ServerSettings { versions: vec![super::super::TlsVersion::Tls13], ..super::settings() };
    let mut server = End::server(&only13.build().expect("settings"));
    let mut client = Ability { versions: vec![&TLS12], ..Ability::default() }.client();
    exchange(&mut client, &mut server, usize::MAX);
    assert_eq!((server.failure().kind, server.failure().alert), (FailureKind::NoSharedVersion, Some(70)));
    assert_eq!(server.failure().openssl(), "SSL: error:0A000102:SSL routines::unsupported protocol");
}

/// What a server says to a client with this ability and these settings for its ClientHello, before the library sees it.
fn judged(ability: &Ability, mark: bool, server: &super::ServerSettings) -> Result<(), (FailureKind, Option<u8>)> {
    let mut hello = ability.client().take_output();
    if mark {
        // The mark of a client that has fallen back takes the place of that for renegotiation, or of the last suite.
        let at = hello.windows(2).position(|suite| suite == [0x00, 0xff]).expect("the mark for renegotiation");
        hello[at..at + 2].copy_from_slice(&[0x56, 0x00]);
    }
    let Ok(HelloProgress::Hello(read)) = HelloReader::new().advance(&hello) else { panic!("no ClientHello") };
    let config = server.clone().build().expect("settings");
    let session = TlsSession::answer(&config, &read.hello, read.message(&hello));
    session.map(|_| ()).map_err(|failure| (failure.kind, failure.alert))
}

#[test]
fn clients_that_have_fallen_back_are_refused_where_the_server_speaks_more() {
    let old = Ability { versions: vec![&TLS12], ..Ability::default() };
    let only = |version| super::ServerSettings { versions: vec![version], ..super::settings() };
    let refused = Err((FailureKind::InappropriateFallback, Some(86)));
    assert_eq!(judged(&old, true, &super::settings()), refused);
    assert_eq!(judged(&old, false, &super::settings()), Ok(()));
    assert_eq!(judged(&old, true, &only(TlsVersion::Tls12)), Ok(()));
    assert_eq!(judged(&old, true, &only(TlsVersion::Tls13)), Err((FailureKind::NoSharedVersion, Some(70))));
    assert_eq!(judged(&Ability::default(), true, &super::settings()), Ok(()));
}

#[test]
fn what_is_missing_is_named_in_the_order_of_openssl() {
    let groups: [&[&dyn rustls::crypto::SupportedKxGroup]; 2] = [&[kx_group::X25519], &[kx_group::SECP384R1]];
    let server = super::ServerSettings { groups: vec![29], ..super::settings() };
    for (version, suite, groups, schemes, wanted) in [
        // A suite for a certificate that the server has not, no group, no signature: before TLS 1.3 all of that is the suite.
        (&TLS12, 0xc02f, groups[0], vec![SignatureScheme::RSA_PSS_SHA256], FailureKind::NoSharedCipher),
        (&TLS12, 0xc02b, groups[1], vec![SignatureScheme::ECDSA_NISTP256_SHA256], FailureKind::NoSharedCipher),
        (&TLS12, 0xc02b, groups[0], vec![SignatureScheme::ED25519], FailureKind::NoSharedCipher),
        (&TLS13, 0x1301, groups[1], vec![SignatureScheme::ECDSA_NISTP256_SHA256], FailureKind::NoSharedGroup),
        (&TLS13, 0x1301, groups[0], vec![SignatureScheme::ED25519], FailureKind::NoSharedSignature),
    ] {
        let (versions, suites, groups) = (vec![version], Some(vec![suite]), groups.to_vec());
        let ability = Ability { versions, suites, groups, schemes, ..Ability::default() };
        let server = End::answering(&server.clone().build().expect("settings"), &ability.client().take_output());
        assert_eq!((server.failure().kind, server.failure().alert), (wanted, Some(40)), "{version:?}, {suite:x}");
    }
    let ability = Ability {
        versions: vec![&TLS13],
        suites: Some(vec![0x1301]),
        groups: groups[1].to_vec(),
        ..Ability::default()
    };
    let other = super::ServerSettings { suites: vec![0x1302], ..server };
    assert_eq!(judged(&ability, false, &other), Err((FailureKind::NoSharedCipher, Some(40))));
}

#[test]
fn no_suite_in_common_is_a_handshake_failure() {
    for (version, suite) in [(&TLS12, 0xc02f), (&TLS12, 0xc030)] {
        // Suites for RSA certificates, of which the server has none.
        let ability = Ability { versions: vec![version], suites: Some(vec![suite]), ..Ability::default() };
        let mut server = End::server(&config());
        exchange(&mut ability.client(), &mut server, usize::MAX);
        assert_eq!(server.failure().alert, Some(40));
    }
}

#[test]
fn a_changed_record_is_noticed() {
    for version in [&TLS12, &TLS13] {
        let mut client = Ability { versions: vec![version], ..Ability::default() }.client();
        let mut server = handshake(&mut client, &config());
        let mut bytes = client.send(b"first");
        bytes.extend(client.send(b"second"));
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        server.receive(&bytes);
        assert_eq!(server.plaintext, b"first");
        assert_eq!(server.failure().kind, FailureKind::BadRecord);
        // The alert is encrypted, and the client understands it.
        client.receive(&server.output);
        assert_eq!(client.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
    }
}

#[test]
fn an_alert_of_the_peer_has_openssls_words() {
    let mut server = End::server(&config());
    server.receive(&Ability::default().client().take_output());
    server.receive(&[21, 3, 3, 0, 2, 2, 46]);
    assert_eq!(server.failure().kind, FailureKind::PeerAlert(46));
    let words = "SSL: error:0A000416:SSL routines::sslv3 alert certificate unknown:SSL alert number 46";
    assert_eq!(server.failure().to_string(), words);
}

#[test]
fn a_close_in_the_middle_of_the_handshake_ends_it() {
    let mut server = End::server(&config());
    server.receive(&Ability::default().client().take_output());
    server.receive(&[21, 3, 3, 0, 2, 1, 0]);
    assert_eq!(server.events, [Event::PeerClosed]);
    assert_eq!(server.session.agreed(), None);
}

#[test]
fn any_single_changed_byte_of_a_handshake_is_an_error_or_harmless() {
    for version in [&TLS12, &TLS13] {
        let ability = Ability { versions: vec![version], ..Ability::default() };
        let length = ability.client().take_output().len();
        for at in 0..length {
            let (mut client, mut server) = (ability.client(), End::server(&config()));
            let mut hello = client.take_output();
            let Some(byte) = hello.get_mut(at) else { continue };
            *byte ^= 0x41;
            server.receive(&hello);
            client.receive(&std::mem::take(&mut server.output));
            for bytes in client.take_output().chunks(100) {
                server.receive(bytes);
            }
            // Only the version in the record's header has no meaning.
            assert!(!server.established() || (1..3).contains(&at), "byte {at} may change");
        }
    }
}

#[test]
fn bytes_that_are_lost_end_the_session_without_a_panic() {
    let mut server = End::server(&config());
    let hello = Ability::default().client().take_output();
    server.receive(&hello[..100]);
    let progress = server.session.step(NOW, &mut [], &mut Vec::new(), &mut Vec::new(), 100);
    assert!(matches!(progress.event, Event::Failed(failure) if failure.kind == FailureKind::Internal));
}
