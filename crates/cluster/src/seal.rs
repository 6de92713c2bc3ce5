//! Encryption of what is in the engine (`zone_sync_secret`): whoever reads the engine, or a dump of it, learns neither keys nor
//! values.
//!
//! Two keys are derived from the secret (HKDF-SHA-256): one for AES-256-GCM, one for keyed hashes (HMAC-SHA-256) that stand for
//! texts that have to be found again.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::{hmac, rand};

/// The length of a derived key in bytes.
const KEY: usize = 32;

/// The length of a hash that stands for a text, in bytes: half of HMAC-SHA-256, so that two texts never have the same.
const HASH: usize = 16;

/// The shortest secret in bytes.
pub(crate) const MIN_SECRET: usize = 16;

/// The length of a derived key, for HKDF.
struct DerivedLength;

impl KeyType for DerivedLength {
    fn len(&self) -> usize {
        KEY
    }
}

/// The keys that are made of a secret.
pub(crate) struct Sealer {
    cipher: LessSafeKey,
    hash: hmac::Key,
}

/// The reason why a secret cannot be used: the library refuses it.
#[derive(Debug, thiserror::Error)]
#[error("the secret cannot be used")]
pub(crate) struct SecretRefused;

impl Sealer {
    /// The keys of a secret.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn new(secret: &[u8]) -> Result<Sealer, SecretRefused> {
        let derive = |purpose: &[u8]| {
            let purposes = [purpose];
            let prk = Salt::new(HKDF_SHA256, b"freerun cluster").extract(secret);
            let mut key = [0; KEY];
            let made = prk.expand(&purposes, DerivedLength).and_then(|okm| okm.fill(&mut key));
            made.map(|()| key).map_err(|_| SecretRefused)
        };
        let cipher = UnboundKey::new(&AES_256_GCM, &derive(b"seal")?).map_err(|_| SecretRefused)?;
        Ok(Sealer { cipher: LessSafeKey::new(cipher), hash: hmac::Key::new(hmac::HMAC_SHA256, &derive(b"hash")?) })
    }

    /// The hash that stands for a text in this place.
    pub(crate) fn hash(&self, place: &str, text: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.hash);
        context.update(place.as_bytes());
        context.update(&[0]);
        context.update(text);
        context.sign().as_ref()[..HASH].to_vec()
    }

    /// The bytes encrypted, for this place alone. `None`: there are no random numbers.
    pub(crate) fn seal(&self, place: &str, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let aad = Aad::from(place.as_bytes());
        self.cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// The bytes that were encrypted for this place. `None`: they were not, or with another secret.
    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut bytes = sealed.to_vec();
        let aad = Aad::from(place.as_bytes());
        let plain = self.cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut bytes).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_are_opened_with_the_same_secret_in_the_same_place() {
        let (a, b) = (Sealer::new(&[1; 32]).unwrap(), Sealer::new(&[2; 32]).unwrap());
        let sealed = a.seal("pairs", b"10.1.2.3").unwrap();
        assert!(!sealed.windows(8).any(|part| part == b"10.1.2.3"));
        assert_eq!(a.open("pairs", &sealed).as_deref(), Some(&b"10.1.2.3"[..]));
        assert_eq!((b.open("pairs", &sealed), a.open("purges", &sealed)), (None, None));
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(a.open("pairs", &damaged), None, "{bit}");
        }
        for len in 0..sealed.len() {
            assert_eq!(a.open("pairs", &sealed[..len]), None, "{len}");
        }
        assert_ne!(sealed, a.seal("pairs", b"10.1.2.3").unwrap(), "a nonce is used once");
    }

    #[test]
    fn a_hash_stands_for_a_text_in_a_place() {
        let (a, b) = (Sealer::new(&[1; 32]).unwrap(), Sealer::new(&[2; 32]).unwrap());
        assert_eq!(a.hash("pairs", b"x"), a.hash("pairs", b"x"));
        assert_ne!(a.hash("pairs", b"x"), a.hash("pairs", b"y"));
        assert_ne!(a.hash("pairs", b"x"), a.hash("other", b"x"));
        assert_ne!(a.hash("pairs", b"x"), b.hash("pairs", b"x"));
    }
}
