//! Private keys and the certificates that they belong to.

use freerun_sys::x509::{Certificate, KeyKind, Mismatch, PrivateKey};

const EC: [&str; 2] =
    [include_str!("../../tls/tests/fixtures/ec.crt"), include_str!("../../tls/tests/fixtures/ec.key")];
const RSA: [&str; 2] =
    [include_str!("../../tls/tests/fixtures/rsa.crt"), include_str!("../../tls/tests/fixtures/rsa.key")];
const OTHER_RSA_KEY: &str = include_str!("../../tls/tests/fixtures/other-rsa.key");
const ED25519: [&str; 2] =
    [include_str!("../../tls/tests/fixtures/ed25519.crt"), include_str!("../../tls/tests/fixtures/ed25519.key")];
const DEK_INFO: &str = include_str!("../../tls/tests/fixtures/rsa-dek-info.key");
const PBES2: &str = include_str!("../../tls/tests/fixtures/rsa-pbes2.key");

fn key(pem: &str) -> PrivateKey {
    PrivateKey::from_pem(pem.as_bytes(), None).expect("a key")
}

fn certificate(pem: &str) -> Certificate {
    Certificate::chain_from_pem(pem.as_bytes()).expect("a certificate").remove(0)
}

#[test]
fn kinds_are_told_apart() {
    for ([crt, private], kind) in [(EC, KeyKind::P256), (RSA, KeyKind::Rsa(2048)), (ED25519, KeyKind::Ed25519)] {
        assert_eq!((key(private).kind(), certificate(crt).key_kind()), (kind, kind));
        let shown = format!("{:?} {:?}", key(private), certificate(crt));
        assert!(shown.contains(&format!("{kind:?}")) && shown.len() < 120, "nothing secret: {shown}");
    }
}

#[test]
fn signatures_have_openssl_s_names() {
    for (crt, name) in [(EC[0], "ecdsa-with-SHA256"), (RSA[0], "RSA-SHA256"), (ED25519[0], "ED25519")] {
        assert_eq!(certificate(crt).signature_algorithm().name(), Some(name));
    }
}

#[test]
fn keys_fit_their_certificates_and_no_others() {
    for [crt, private] in [EC, RSA, ED25519] {
        assert_eq!(certificate(crt).check_key(&key(private)), Ok(()));
    }
    assert_eq!(certificate(RSA[0]).check_key(&key(OTHER_RSA_KEY)), Err(Mismatch::Values));
    assert_eq!(certificate(RSA[0]).check_key(&key(EC[1])), Err(Mismatch::Type));
}

#[test]
fn passwords_are_asked_for_where_they_are_needed() {
    for pem in [DEK_INFO, PBES2] {
        let read = |password: Option<&[u8]>| PrivateKey::from_pem(pem.as_bytes(), password);
        assert!(read(Some(b"secret")).is_ok_and(|key| certificate(RSA[0]).check_key(&key) == Ok(())));
        assert!(read(None).is_err_and(|error| error.asked));
        assert!(read(Some(b"")).is_err_and(|error| error.asked));
        // The library's buffer is shorter than this.
        assert!(read(Some(&[b'x'; 5000])).is_err_and(|error| error.asked && !error.errors.to_string().is_empty()));
    }
    assert!(PrivateKey::from_pem(b"", Some(b"x")).is_err_and(|error| !error.asked && error.errors.no_start_line()));
}

/// RFC 8018 and RFC 7914, as OpenSSL has written them.
const PBES2_OTHERS: [&str; 4] = [
    include_str!("../../tls/tests/fixtures/ec-scrypt.key"),
    include_str!("../../tls/tests/fixtures/ec-sha224.key"),
    include_str!("../../tls/tests/fixtures/ec-sha384.key"),
    include_str!("../../tls/tests/fixtures/ec-sha512.key"),
];

#[test]
fn keys_are_decrypted_with_scrypt_and_with_other_functions_for_passwords() {
    for pem in PBES2_OTHERS {
        let read = |password: Option<&[u8]>| PrivateKey::from_pem(pem.as_bytes(), password);
        assert!(read(Some(b"secret")).is_ok_and(|key| certificate(EC[0]).check_key(&key) == Ok(())), "{pem}");
        assert!(read(None).is_err_and(|error| error.asked));
        assert!(
            read(Some(b"other")).is_err_and(|error| error.asked && !error.errors.unsupported_encryption()),
            "{pem}"
        );
        let cut: Vec<_> = pem.lines().enumerate().filter(|(number, _)| *number != 2).map(|(_, line)| line).collect();
        assert!(PrivateKey::from_pem(cut.join("\n").as_bytes(), Some(b"secret")).is_err());
    }
}

#[test]
fn encryption_that_is_not_supported_is_no_wrong_password() {
    for pem in [
        include_str!("../../tls/tests/fixtures/ec-camellia.key"),
        include_str!("../../tls/tests/fixtures/ec-ofb.key"),
        include_str!("../../tls/tests/fixtures/ec-2des.key"),
    ] {
        let read = PrivateKey::from_pem(pem.as_bytes(), Some(b"secret"));
        assert!(read.is_err_and(|error| error.asked && error.errors.unsupported_encryption()), "{pem}");
    }
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let marked = |pem: &str| format!("\u{feff}{pem}");
    let crt = certificate(&marked(EC[0]));
    assert_eq!(crt.check_key(&key(&marked(EC[1]))), Ok(()));
    assert!(PrivateKey::from_pem(marked(PBES2).as_bytes(), Some(b"secret")).is_ok());
    assert!(PrivateKey::from_pem(marked(PBES2_OTHERS[0]).as_bytes(), Some(b"secret")).is_ok());
}

#[test]
fn pkcs8_is_the_same_key() {
    for [crt, private] in [EC, RSA, ED25519] {
        let der = key(private).to_pkcs8().expect("memory for it");
        // A sequence with the version 0 or 1.
        assert_eq!(der.first(), Some(&0x30));
        let again = PrivateKey::from_pem(pem("PRIVATE KEY", &der).as_bytes(), None).expect("a key");
        assert_eq!(certificate(crt).check_key(&again), Ok(()));
    }
}

/// A block of PEM.
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let mut bits = 0;
            for at in 0..3 {
                bits = bits << 8 | u32::from(group.get(at).copied().unwrap_or(0));
            }
            for at in 0..4 {
                let digit = char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]);
                text.push(if at > group.len() { '=' } else { digit });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}
