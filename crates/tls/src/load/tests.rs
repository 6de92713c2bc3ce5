//! Tests of chains, keys and what fits together.

use super::{CertificateKey, CertifiedKey, Chain, KeyKind, LoadError, MAX_PEER_CHAIN, MAX_PEM, Mismatch, Problem};
use super::{inline, passwords, peer_chain};
use crate::fixtures::{
    EC_CRT, EC_KEY, ED25519_CRT, ED25519_KEY, OTHER_RSA_KEY, RSA_CRT, RSA_DEK_INFO_KEY, RSA_KEY, RSA_PBES2_KEY,
    RSA_PKCS1_KEY, RSA_TRUSTED_CRT, RSA1024_CRT, RSA1024_KEY, SECP256K1_CRT, SECP256K1_KEY,
};

const NO_PASSWORDS: &[&[u8]] = &[];

fn key(pem: &str) -> Result<CertificateKey, LoadError> {
    CertificateKey::from_pem(pem.as_bytes(), NO_PASSWORDS)
}

fn chain(pem: &str) -> Result<Chain, LoadError> {
    Chain::from_pem(pem.as_bytes())
}

fn certified(certificates: &str, private: &str) -> Result<CertifiedKey, LoadError> {
    CertifiedKey::new(&chain(certificates)?, &key(private)?)
}

/// The text without its fifth line, so that the DER in it is too short.
fn damaged(pem: &str) -> String {
    pem.lines().enumerate().filter(|(at, _)| *at != 4).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn keys_of_all_forms_fit_their_certificate() {
    for private in [RSA_KEY, RSA_PKCS1_KEY] {
        assert_eq!(certified(RSA_CRT, private).map(|key| key.kind()), Ok(KeyKind::Rsa(2048)));
    }
    assert_eq!(certified(EC_CRT, EC_KEY).map(|key| key.kind()), Ok(KeyKind::P256));
    assert_eq!(certified(ED25519_CRT, ED25519_KEY).map(|key| key.kind()), Ok(KeyKind::Ed25519));
}

#[test]
fn what_the_first_certificate_says_is_known_without_it() {
    let pair = certified(EC_CRT, EC_KEY).expect("a pair");
    let own =
        crate::verify::PeerCertificate::from_der(pair.chain().next().expect("a certificate")).expect("it is read");
    assert_eq!((pair.subject(), pair.issuer(), pair.end()), (&*own.subject(), &*own.issuer(), own.end()));
    assert!(!pair.subject().is_empty() && pair.end().is_some());
    assert_eq!(pair.with_own_staple().subject(), pair.subject());
}

#[test]
fn encrypted_keys_are_read_with_the_first_password_that_fits() {
    let chain = chain(RSA_CRT).expect("a chain");
    for pem in [RSA_DEK_INFO_KEY, RSA_PBES2_KEY] {
        let read = |passwords: &[&str]| CertificateKey::from_pem(pem.as_bytes(), passwords);
        let key = read(&["wrong", "", "secret", "late"]).expect("a key");
        assert!(CertifiedKey::new(&chain, &key).is_ok());
        assert_eq!(read(&["wrong", "other"]).map(|_| ()), Err(LoadError::Key(Problem::BadDecrypt)));
        assert_eq!(read(&[]).map(|_| ()), Err(LoadError::Key(Problem::NoPassword)));
    }
}

#[test]
fn passwords_that_are_not_needed_do_no_harm() {
    assert!(CertificateKey::from_pem(RSA_KEY.as_bytes(), &["wrong", "other"]).is_ok());
}

#[test]
fn chains_may_begin_with_a_trusted_certificate_and_have_other_text_between() {
    let plain = chain(RSA_CRT).expect("a chain").to_der();
    assert_eq!(plain.len(), 1);
    assert_eq!(chain(RSA_TRUSTED_CRT).expect("a chain").to_der(), plain);
    let mixed = format!("words\n{RSA_CRT}more words\n{RSA_KEY}\n{EC_CRT}\nthe end\n").replace('\n', "\r\n");
    let mixed = chain(&mixed).expect("a chain");
    assert_eq!(mixed.to_der().len(), 2);
    assert_eq!(mixed.to_der()[0], plain[0]);
    assert_eq!(mixed.key_kind(), KeyKind::Rsa(2048));
    // The key before its certificate, in one file.
    let both = format!("{RSA_KEY}{RSA_CRT}");
    assert!(certified(&both, &both).is_ok());
}

#[test]
fn what_is_no_chain_is_named_in_nginx_words() {
    let words = |pem: &str| chain(pem).expect_err("no chain").words("/c.pem", "/k.pem");
    let nothing = "cannot load certificate \"/c.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:0480006C:PEM \
                   routines::no start line:Expecting: TRUSTED CERTIFICATE)";
    for pem in ["", "garbage", RSA_KEY] {
        assert_eq!(words(pem), nothing);
    }
    let (whole, _) = RSA_CRT.split_at(RSA_CRT.find("-----END").expect("an end"));
    let bad_end = "cannot load certificate \"/c.pem\": PEM_read_bio_X509_AUX() failed (SSL: error:04800066:PEM \
                   routines::bad end line)";
    assert_eq!(words(whole), bad_end);
    let second = format!("{RSA_CRT}-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    let bad_base64 = "cannot load certificate \"/c.pem\": PEM_read_bio_X509() failed (SSL: error:04800064:PEM \
                      routines::bad base64 decode)";
    assert_eq!(words(&second), bad_base64);
    assert!(matches!(chain(&damaged(RSA_CRT)), Err(LoadError::Certificate(Problem::Malformed(_)))));
    let second = format!("{RSA_CRT}{}", damaged(EC_CRT));
    assert!(matches!(chain(&second), Err(LoadError::FurtherCertificate(Problem::Malformed(_)))));
}

#[test]
fn what_is_no_key_is_named_in_nginx_words() {
    let words = |pem: &str| key(pem).expect_err("no key").words("/c.pem", "/k.pem");
    let nothing = "cannot load certificate key \"/k.pem\": PEM_read_bio_PrivateKey() failed (SSL: error:1E08010C:DECODER \
                   routines::unsupported:No supported data to decode. Input type: PEM)";
    for pem in ["", "garbage", RSA_CRT] {
        assert_eq!(words(pem), nothing);
    }
    assert!(matches!(key(&damaged(RSA_KEY)), Err(LoadError::Key(Problem::Malformed(_)))));
}

#[test]
fn a_key_that_does_not_belong_to_the_certificate_is_refused() {
    let values = certified(RSA_CRT, OTHER_RSA_KEY).expect_err("another key");
    assert_eq!(values, LoadError::Mismatch(Mismatch::Values));
    let line = "SSL_CTX_use_PrivateKey(\"/k.pem\") failed (SSL: error:05800074:x509 certificate routines::key values \
                mismatch)";
    assert_eq!(values.words("/c.pem", "/k.pem"), line);
    assert_eq!(certified(RSA_CRT, EC_KEY).map(|_| ()), Err(LoadError::Mismatch(Mismatch::Type)));
}

#[test]
fn keys_that_nobody_can_use_are_refused() {
    let small = certified(RSA1024_CRT, RSA1024_KEY).expect_err("a small key");
    let line = "SSL_CTX_use_certificate(\"/c.pem\") failed (SSL: error:0A00018F:SSL routines::ee key too small)";
    assert_eq!(small.words("/c.pem", "/k.pem"), line);
    // The library may refuse the curve or read it; either way there is no key to serve with.
    assert!(certified(SECP256K1_CRT, SECP256K1_KEY).is_err());
}

#[test]
fn a_key_in_the_configuration_is_not_shown() {
    let value = format!("data:{RSA_CRT}");
    let pem = inline(value.as_bytes()).expect("a text");
    assert_eq!(pem, RSA_CRT.as_bytes());
    assert_eq!(inline(b"/etc/data:"), None);
    let line = key(RSA_CRT).expect_err("no key").words(&value, &format!("data:{RSA_KEY}"));
    assert!(line.starts_with("cannot load certificate key \"data:\": "), "{line}");
}

#[test]
fn a_password_file_has_one_for_each_line() {
    let read: Vec<_> = passwords(b"one\r\n\ntwo \nthree").iter().map(|password| password.to_vec()).collect();
    assert_eq!(read, [&b"one"[..], b"two ", b"three"]);
    assert!(passwords(b"").is_empty());
}

#[test]
fn sizes_are_limited() {
    let large = " ".repeat(MAX_PEM) + RSA_CRT;
    assert_eq!(chain(&large).map(|_| ()), Err(LoadError::Certificate(Problem::TooLarge)));
    assert_eq!(key(&large).map(|_| ()), Err(LoadError::Key(Problem::TooLarge)));
    let der = chain(RSA_CRT).expect("a chain").to_der().remove(0);
    let fit = MAX_PEER_CHAIN / der.len();
    assert_eq!(peer_chain(std::iter::repeat_n(&der[..], fit)).map(|chain| chain.len()), Some(fit));
    assert!(peer_chain(std::iter::repeat_n(&der[..], fit + 1)).is_none());
}

#[test]
fn peers_send_certificates_and_nothing_behind_them() {
    let mut der = chain(RSA_CRT).expect("a chain").to_der().remove(0);
    der.push(0);
    assert!(peer_chain([&der[..]]).is_none());
    assert!(peer_chain([&der[..der.len() - 2]]).is_none());
    assert!(peer_chain([&b""[..]]).is_none());
}

#[test]
fn any_damage_to_a_text_is_an_error_or_harmless() {
    for pem in [RSA_CRT, RSA_TRUSTED_CRT, RSA_PBES2_KEY, RSA_DEK_INFO_KEY, EC_KEY] {
        for at in (0..pem.len()).step_by(7) {
            let mut bytes = pem.as_bytes().to_vec();
            bytes[at] ^= 1;
            drop(Chain::from_pem(&bytes));
            // Without a password, so that no time goes into deriving keys.
            drop(CertificateKey::from_pem(&bytes, NO_PASSWORDS));
            drop(CertificateKey::from_pem(&bytes[..at], NO_PASSWORDS));
        }
    }
}
