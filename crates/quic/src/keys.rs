//! The keys of a server: for its connection IDs, for tokens that show that a client has the address that it names, and for
//! stateless resets. All are made of one secret. A server with the same secret knows the tokens, and may reset the
//! connections of the server before it at the same address.

use std::sync::Arc;

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::hmac;
use quinn_proto::crypto::{HandshakeTokenKey, HmacKey};

/// The keys that are made of a secret.
#[derive(Clone)]
pub struct QuicKeys {
    /// Signs the tokens of stateless resets (RFC 9000 section 10.3).
    pub(crate) reset: Arc<dyn HmacKey>,
    /// Seals address tokens (RFC 9000 section 8.1).
    pub(crate) token: Arc<dyn HandshakeTokenKey>,
    /// Hides the places of connections in their connection IDs.
    pub(crate) ids: Arc<HeaderProtectionKey>,
}

/// The length of a derived key, for the library.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// A key of `N` bytes for this purpose, which may be a text with a name behind it.
fn derived<const N: usize>(secret: &Prk, purpose: &[&[u8]]) -> Option<[u8; N]> {
    let mut key = [0; N];
    secret.expand(purpose, Length(N)).and_then(|made| made.fill(&mut key)).ok()?;
    Some(key)
}

impl QuicKeys {
    /// The keys of a secret, which nobody else may know, for the connections at this address. `None` if the library fails.
    ///
    /// Each address resets its own connections alone. Another one does not know them, and would tell anybody who asks there
    /// how to reset them (RFC 9000 section 21.11).
    pub fn of(secret: &[u8], address: &str) -> Option<QuicKeys> {
        let secret = Salt::new(HKDF_SHA256, b"freerun quic").extract(secret);
        let reset =
            hmac::Key::new(hmac::HMAC_SHA256, &derived::<32>(&secret, &[b"stateless reset", address.as_bytes()])?);
        let token = Salt::new(HKDF_SHA256, &[]).extract(&derived::<32>(&secret, &[b"address token"])?);
        let ids = HeaderProtectionKey::new(&AES_128, &derived::<16>(&secret, &[b"connection id", address.as_bytes()])?)
            .ok()?;
        Some(QuicKeys { reset: Arc::new(reset), token: Arc::new(token), ids: Arc::new(ids) })
    }
}
