//! Private keys of certificates, requests for certificates, and the certificates that answer challenges.

use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, Error, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_RSA_SHA256, RsaKeySize,
};
use zeroize::Zeroizing;

use crate::host::Challenge;
use crate::identifier::Identifier;
use crate::settings::{CertificateSettings, KeyKind};

/// A new private key.
pub(super) fn generate(kind: KeyKind) -> Result<KeyPair, Error> {
    match kind {
        KeyKind::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        KeyKind::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        KeyKind::EcdsaP521 => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyKind::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
        KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
    }
}

/// The private key in PEM.
pub(super) fn pem(key: &KeyPair) -> Zeroizing<String> {
    Zeroizing::new(key.serialize_pem())
}

/// A request for a certificate (RFC 2986), in DER.
pub(super) fn request(certificate: &CertificateSettings, common_name: bool, key: &KeyPair) -> Result<Vec<u8>, Error> {
    let names: Vec<_> = certificate.identifiers.iter().map(ToString::to_string).collect();
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = DistinguishedName::new();
    // A common name has 64 characters at most (RFC 5280, appendix A.1).
    let first = certificate.identifiers.first().map(ToString::to_string).filter(|name| name.len() <= 64);
    if let (true, Some(name)) = (common_name, first) {
        parameters.distinguished_name.push(DnType::CommonName, name);
    }
    Ok(parameters.serialize_request(key)?.der().to_vec())
}

/// The certificate that answers a challenge of tls-alpn-01 (RFC 8737, section 3). `digest` is of the key authorization.
pub(super) fn tls_alpn(identifier: &Identifier, digest: &[u8; 32]) -> Result<Challenge, Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new([identifier.to_string()])?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = parameters.self_signed(&key)?.der().to_vec();
    Ok(Challenge::TlsAlpn01 { identifier: identifier.clone(), certificate, key: key.serialize_der().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_key_requests_a_certificate() {
        let identifiers = ["a.example", "192.0.2.1"].map(|text| Identifier::parse(text).expect("an identifier"));
        for kind in [KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::EcdsaP521, KeyKind::Rsa2048] {
            let settings =
                CertificateSettings { issuer: "any".to_owned(), identifiers: identifiers.to_vec(), key: kind };
            let key = generate(kind).expect("a key");
            let find = |der: &[u8], text: &str| der.windows(text.len()).filter(|at| *at == text.as_bytes()).count();
            assert_eq!(find(&request(&settings, false, &key).expect("a request"), "a.example"), 1);
            assert_eq!(find(&request(&settings, true, &key).expect("a request"), "a.example"), 2);
        }
    }

    #[test]
    fn a_challenge_is_answered_with_the_digest_in_a_critical_extension() {
        let identifier = Identifier::parse("a.example").expect("an identifier");
        let Ok(Challenge::TlsAlpn01 { certificate, .. }) = tls_alpn(&identifier, &[7; 32]) else {
            panic!("another challenge")
        };
        let (_, certificate) = x509_parser::parse_x509_certificate(&certificate).expect("a certificate");
        let extension = certificate.extensions().iter().find(|ext| ext.oid.to_id_string() == "1.3.6.1.5.5.7.1.31");
        let extension = extension.expect("the extension");
        assert!(extension.critical);
        // An OCTET STRING of 32 bytes.
        assert_eq!(extension.value, [[4, 32].as_slice(), &[7; 32]].concat());
    }
}
