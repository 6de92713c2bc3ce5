//! The cryptography of TLS alone, with the library that freerun has: records with AES-256-GCM, key agreement, signatures.

use std::io;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, EphemeralPrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, RSA_PSS_SHA256};

/// The most bytes in a record (RFC 8446, section 5.1).
pub const RECORD: usize = 16 * 1024;

/// The bytes of an authentication tag (RFC 5116, section 5.1).
pub const TAG: usize = 16;

/// The bytes before the content of a record: its type, version and length (RFC 8446, section 5.1).
const HEADER: [u8; 5] = [23, 3, 3, 64, 17];

fn failed<E>(_: E) -> io::Error {
    io::Error::other("cryptography failed")
}

/// A key for records in one direction, with its sequence number.
pub struct Records {
    key: LessSafeKey,
    sequence: u64,
}

impl Records {
    /// A key that every start has: nobody decrypts these records.
    pub fn new() -> io::Result<Records> {
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32]).map_err(failed)?;
        Ok(Records { key: LessSafeKey::new(key), sequence: 0 })
    }

    /// Encrypts the content of a record in place; returns its tag.
    pub fn seal(&mut self, content: &mut [u8]) -> io::Result<[u8; TAG]> {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.sequence.to_be_bytes());
        self.sequence += 1;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(HEADER), content).map_err(failed)?;
        sealed.as_ref().try_into().map_err(failed)
    }
}

/// The key of a certificate.
pub enum Signer {
    /// RSA with 2048 bits, with PSS as in TLS 1.3 (RFC 8446, section 4.2.3).
    Rsa(Box<KeyPair>),
    /// ECDSA on the curve P-256.
    Ecdsa(EcdsaKeyPair),
}

impl Signer {
    /// A new key of RSA.
    pub fn rsa() -> io::Result<Signer> {
        let key = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
        Ok(Signer::Rsa(Box::new(key)))
    }

    /// A new key of ECDSA.
    pub fn ecdsa() -> io::Result<Signer> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
        Ok(Signer::Ecdsa(key))
    }

    /// Signs a transcript; returns the signature.
    pub fn sign(&self, transcript: &[u8]) -> io::Result<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Signer::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PSS_SHA256, &random, transcript, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Signer::Ecdsa(key) => Ok(key.sign(&random, transcript).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

/// Agrees on a secret with the peer's key of X25519, with a new key of our own; returns our public key.
pub fn agree(peer: &[u8]) -> io::Result<Vec<u8>> {
    let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
    let public = own.compute_public_key().map_err(failed)?;
    let peer = UnparsedPublicKey::new(&X25519, peer);
    agreement::agree_ephemeral(own, peer, io::Error::other("no key"), |_secret| Ok(()))?;
    Ok(public.as_ref().to_vec())
}

/// A public key of X25519, as a client's first message has one.
pub fn client_key() -> io::Result<Vec<u8>> {
    let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
    Ok(own.compute_public_key().map_err(failed)?.as_ref().to_vec())
}
