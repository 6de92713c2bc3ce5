//! Key exchange with the curve P-521, which rustls lacks and configurations name.

use aws_lc_rs::agreement::{self, ECDH_P521, EphemeralPrivateKey, PublicKey, UnparsedPublicKey};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved};

/// The first byte of a point whose two coordinates follow; TLS allows no other form.
const UNCOMPRESSED: u8 = 4;

/// The group.
#[derive(Debug)]
pub(super) struct P521;

/// A key exchange that has begun.
struct EphemeralKey {
    private: EphemeralPrivateKey,
    public: PublicKey,
}

impl SupportedKxGroup for P521 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let private = EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new());
        let private = private.map_err(|_| Error::FailedToGetRandomBytes)?;
        let public = private.compute_public_key().map_err(|_| Error::FailedToGetRandomBytes)?;
        Ok(Box::new(EphemeralKey { private, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

impl ActiveKeyExchange for EphemeralKey {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let wrong = Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);
        if peer.first() != Some(&UNCOMPRESSED) {
            return Err(wrong);
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        agreement::agree_ephemeral(self.private, peer, wrong, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}
