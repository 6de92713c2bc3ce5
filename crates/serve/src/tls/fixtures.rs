//! Certificates and keys for tests.

use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};

/// The contents of a file of the fixtures of the crate `freerun-tls`.
pub(super) fn contents(name: &str) -> Vec<u8> {
    let path = format!("{}/../tls/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a fixture")
}

/// The certificate of this name with its key, which is not encrypted.
pub(super) fn certified(name: &str) -> CertifiedKey {
    let none: &[&[u8]] = &[];
    let chain = Chain::from_pem(&contents(&format!("{name}.crt"))).expect("a chain");
    let key = CertificateKey::from_pem(&contents(&format!("{name}.key")), none).expect("a key");
    CertifiedKey::new(&chain, &key).expect("a pair")
}
