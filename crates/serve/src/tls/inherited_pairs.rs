//! Certificates with their keys that a configuration takes over from the one before it.
//!
//! To parse a pair takes a tenth of a millisecond, which is a second for ten thousand servers, in the master and again in the
//! worker. Most pairs are the same after a reload, so a pair is made anew only if the contents of its files have changed.

use std::collections::HashMap;
use std::sync::Arc;

use freerun_tls::digest::sha256;
use freerun_tls::load::CertifiedKey;

use super::files::Secret;

/// Digest of the contents that a pair is made of.
type Digest = [u8; 32];

/// The pairs of a configuration, to read the next one with. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct InheritedPairs(Arc<HashMap<Digest, CertifiedKey>>);

/// The pairs while a configuration is read; lives in its context.
#[derive(Debug, Default)]
pub struct Inheritance {
    earlier: InheritedPairs,
    now: HashMap<Digest, CertifiedKey>,
}

impl Inheritance {
    /// Begins with the pairs of the configuration before.
    pub fn after(earlier: InheritedPairs) -> Inheritance {
        Inheritance { earlier, now: HashMap::new() }
    }

    /// The pairs that this configuration uses, without the pairs that only the configuration before it uses.
    pub fn finish(self) -> InheritedPairs {
        InheritedPairs(Arc::new(self.now))
    }

    /// The pair that was made of the same contents and passwords, in this configuration or the one before.
    pub(super) fn get(&mut self, contents: &Contents) -> Option<CertifiedKey> {
        if let Some(pair) = self.now.get(&contents.0) {
            return Some(pair.clone());
        }
        let pair = self.earlier.0.get(&contents.0)?.clone();
        self.now.insert(contents.0, pair.clone());
        Some(pair)
    }

    /// Keeps a pair that was made of these contents.
    pub(super) fn put(&mut self, contents: &Contents, pair: &CertifiedKey) {
        self.now.insert(contents.0, pair.clone());
    }
}

/// All that a pair depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Contents(Digest);

impl Contents {
    /// The contents of a certificate's file, of its key's file, and the passwords that the key may be encrypted with.
    pub(super) fn of<P: AsRef<[u8]>>(certificate: &Secret, key: &Secret, passwords: &[P]) -> Contents {
        let passwords = passwords.iter().map(|password| sha256(password.as_ref()));
        let parts = [sha256(certificate.bytes()), sha256(key.bytes())].into_iter().chain(passwords);
        Contents(sha256(&parts.flatten().collect::<Vec<u8>>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(certificate: &str, key: &str, passwords: &[&str]) -> Contents {
        Contents::of(&Secret::new(certificate.as_bytes().to_vec()), &Secret::new(key.as_bytes().to_vec()), passwords)
    }

    #[test]
    fn contents_are_the_same_if_all_their_parts_are() {
        let some = contents("certificate", "key", &["one", "two"]);
        assert_eq!(some, contents("certificate", "key", &["one", "two"]));
        for other in [
            contents("certificat", "ekey", &["one", "two"]),
            contents("certificate", "key2", &["one", "two"]),
            contents("certificate", "key", &["one"]),
            contents("certificate", "key", &["onetwo"]),
            contents("certificate", "key", &[]),
        ] {
            assert_ne!(some, other);
        }
    }
}
