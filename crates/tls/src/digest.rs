//! The digest that names things of TLS: fingerprints, contexts of sessions, settings.

use std::hash::{Hash, Hasher};

use aws_lc_rs::digest;

/// The SHA-256 of these bytes (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(&digest::digest(&digest::SHA256, bytes))
}

/// The SHA-256 of everything that a value gives to a hasher. Values are compared by it even if somebody wants two of
/// them to be alike. It means something within one build of the program only.
pub fn sha256_of(value: impl Hash) -> [u8; 32] {
    let mut hasher = Sha256(digest::Context::new(&digest::SHA256));
    value.hash(&mut hasher);
    array(&hasher.0.finish())
}

fn array(digest: &digest::Digest) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest.as_ref());
    out
}

struct Sha256(digest::Context);

impl Hasher for Sha256 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0.clone().finish().as_ref()[..8]);
        u64::from_le_bytes(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart_by_where_their_parts_end() {
        let digests = [("ab", "c"), ("a", "bc"), ("abc", "")].map(sha256_of);
        assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
        assert_eq!(sha256_of(("ab", "c")), sha256_of(("ab".to_owned(), "c")));
        let mut hasher = Sha256(digest::Context::new(&digest::SHA256));
        hasher.write(b"abc");
        assert_eq!(hasher.finish().to_le_bytes(), sha256(b"abc")[..8]);
    }
}
