//! Signatures under the handshake: schemes for peers, and schemes for keys.
//!
//! rustls leaves nothing else to this folder: whether a chain is trusted is decided outside, after the handshake, so
//! any chain is accepted here. webpki, which rustls would use, refuses to read certificates of version 1. AWS-LC reads
//! them, and webpki gets the key alone.

use super::concealment::as_sent;
use freerun_sys::x509::Certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{Signer, SigningKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureAlgorithm,
    SignatureScheme,
};
use std::sync::{Arc, LazyLock};

/// The schemes that can be verified, with the algorithms for them.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> =
    LazyLock::new(|| default_provider().signature_verification_algorithms);

/// The one verifier of all clients that leave the schemes to the library. rustls resumes a session only with the verifier that
/// it began with.
static ANY_SERVER: LazyLock<Arc<AnyPeer>> = LazyLock::new(|| Arc::new(AnyPeer::new(&Schemes::default(), Vec::new())));

/// The schemes of signatures that are allowed, the most preferred first. By default all that there are. It is cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Schemes(Option<Arc<[SignatureScheme]>>);

impl Schemes {
    /// Schemes with these IANA numbers alone; numbers that do not exist here are left out.
    pub fn only(numbers: impl IntoIterator<Item = u16>) -> Schemes {
        let known = ALGORITHMS.supported_schemes();
        let schemes = numbers.into_iter().map(SignatureScheme::from).filter(|scheme| known.contains(scheme));
        Schemes(Some(schemes.collect()))
    }

    /// Whether some are not allowed.
    pub(super) fn are_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this one is allowed.
    pub(super) fn allow(&self, scheme: SignatureScheme) -> bool {
        self.0.as_ref().is_none_or(|schemes| schemes.contains(&scheme))
    }

    /// The pair, whose key signs by these alone.
    pub(super) fn restrict(&self, pair: Arc<rustls::sign::CertifiedKey>) -> Arc<rustls::sign::CertifiedKey> {
        if self.0.is_none() {
            return pair;
        }
        let mut restricted = rustls::sign::CertifiedKey::clone(&pair);
        restricted.key = Arc::new(RestrictedKey { key: restricted.key, schemes: self.clone() });
        Arc::new(restricted)
    }

    fn list(&self) -> Vec<SignatureScheme> {
        self.0.as_ref().map_or_else(|| ALGORITHMS.supported_schemes(), |schemes| schemes.to_vec())
    }
}

/// A key that signs by some schemes alone.
#[derive(Debug)]
struct RestrictedKey {
    key: Arc<dyn SigningKey>,
    schemes: Schemes,
}

impl SigningKey for RestrictedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let allowed: Vec<_> = offered.iter().copied().filter(|scheme| self.schemes.allow(*scheme)).collect();
        self.key.choose_scheme(&allowed)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

/// Result of checking a signature.
type SignatureCheck = Result<HandshakeSignatureValid, Error>;

/// Accepts each peer that has the key of the certificate that it shows, and each client that shows none.
#[derive(Debug)]
struct AnyPeer {
    /// The schemes that peers may sign by.
    schemes: Vec<SignatureScheme>,
    /// The names of the authorities whose certificates clients are asked for.
    authorities: Vec<DistinguishedName>,
}

/// The verifier for servers, which may sign by these schemes.
pub(super) fn any_server(schemes: &Schemes) -> Arc<dyn ServerCertVerifier> {
    match schemes.0 {
        None => ANY_SERVER.clone(),
        Some(_) => Arc::new(AnyPeer::new(schemes, Vec::new())),
    }
}

/// The verifier of a server that asks its clients for certificates of these authorities, whose names are in DER. The
/// clients may sign by these schemes.
pub(super) fn any_client(schemes: &Schemes, authorities: Vec<Vec<u8>>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(AnyPeer::new(schemes, authorities.into_iter().map(DistinguishedName::from).collect()))
}

impl AnyPeer {
    fn new(schemes: &Schemes, authorities: Vec<DistinguishedName>) -> AnyPeer {
        AnyPeer { schemes: schemes.list(), authorities }
    }

    /// Checks that a scheme is among those that the peer was told of.
    fn check(&self, signed: &DigitallySignedStruct) -> Result<(), Error> {
        if self.schemes.contains(&signed.scheme) {
            Ok(())
        } else {
            Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
        }
    }

    /// In TLS 1.3 a scheme says which curve it is for.
    fn tls13(&self, text: &[u8], own: &CertificateDer<'_>, signed: &DigitallySignedStruct) -> SignatureCheck {
        self.check(signed)?;
        verify_tls13_signature_with_raw_key(text, &public_key(own)?, signed, &ALGORITHMS)
    }

    /// In TLS 1.2 a scheme for ECDSA may be used with any curve, so there are several algorithms for it.
    fn tls12(&self, text: &[u8], own: &CertificateDer<'_>, signed: &DigitallySignedStruct) -> SignatureCheck {
        self.check(signed)?;
        let (_, algorithms) = ALGORITHMS
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == signed.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let info = public_key(own)?;
        let key = webpki::RawPublicKeyEntity::try_from(&info).map_err(|_| CertificateError::BadEncoding)?;
        let text = as_sent(text);
        let valid = |algorithm: &&dyn rustls::pki_types::SignatureVerificationAlgorithm| {
            key.verify_signature(*algorithm, &text, signed.signature()).is_ok()
        };
        if algorithms.iter().any(valid) {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }
}

/// The key that a certificate is for, as its SubjectPublicKeyInfo.
fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    let certificate = Certificate::from_der(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(certificate.public_key_der().into())
}

/// Methods that the traits for both sides have in common: the signature of a peer is the same thing on either.
macro_rules! verify_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            text: &[u8],
            own: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> SignatureCheck {
            self.tls12(text, own, signed)
        }

        fn verify_tls13_signature(
            &self,
            text: &[u8],
            own: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> SignatureCheck {
            self.tls13(text, own, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.schemes.clone()
        }
    };
}

impl ServerCertVerifier for AnyPeer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    verify_signatures!();
}

impl ClientCertVerifier for AnyPeer {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    verify_signatures!();
}
