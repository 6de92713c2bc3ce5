//! The digest that names things of TLS: fingerprints, contexts of sessions.

use aws_lc_rs::digest;

/// The SHA-256 of these bytes (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    out
}
