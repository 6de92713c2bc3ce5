//! The private key of an account, where the administrator has one.

use freerun_sys::x509::PrivateKey;
use rustls::pki_types::PrivatePkcs8KeyDer;
use zeroize::Zeroizing;

/// The key of an account from PEM: PKCS #8 in DER; `None` if the library does not sign with it.
pub(crate) fn account_key(pem: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let der = Zeroizing::new(PrivateKey::from_pem(pem, None).ok()?.to_pkcs8()?);
    instant_acme::Key::from_pkcs8_der(PrivatePkcs8KeyDer::from(der.as_slice())).ok()?;
    Some(der)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};

    #[test]
    fn account_keys_are_of_one_kind() {
        let pem = |key: KeyPair| key.serialize_pem().into_bytes();
        assert!(account_key(&pem(KeyPair::generate().expect("a key"))).is_some());
        assert!(account_key(&pem(KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key"))).is_none());
        assert!(account_key(b"no key").is_none());
    }
}
