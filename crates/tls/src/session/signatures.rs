//! The peer's signature under the handshake. rustls leaves nothing else to this folder: whether a chain is trusted is decided
//! outside, after the handshake, so any chain is accepted here.
//!
//! webpki, which rustls would use, refuses to read certificates of version 1. AWS-LC reads them, and webpki gets the key alone.

use freerun_sys::x509::Certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, SignatureScheme};
use std::sync::{Arc, LazyLock};

/// The schemes that can be verified, with the algorithms for them.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> =
    LazyLock::new(|| default_provider().signature_verification_algorithms);

/// The one verifier of all clients. rustls resumes a session only with the verifier that it began with.
static ANY_SERVER: LazyLock<Arc<AnyServer>> = LazyLock::new(|| Arc::new(AnyServer));

/// Accepts each server that has the key of the certificate that it shows.
#[derive(Debug)]
struct AnyServer;

/// Accepts each client that has the key of the certificate that it shows, and each that shows none.
#[derive(Debug)]
struct AnyClient {
    /// The names of the authorities whose certificates clients are asked for.
    authorities: Vec<DistinguishedName>,
}

/// What clients verify servers with.
pub(super) fn any_server() -> Arc<dyn ServerCertVerifier> {
    ANY_SERVER.clone()
}

/// What a server verifies clients with that it asks for certificates of these authorities, whose names are in DER.
pub(super) fn any_client(authorities: Vec<Vec<u8>>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(AnyClient { authorities: authorities.into_iter().map(DistinguishedName::from).collect() })
}

impl ServerCertVerifier for AnyServer {
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

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

impl ClientCertVerifier for AnyClient {
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

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

fn schemes() -> Vec<SignatureScheme> {
    ALGORITHMS.supported_schemes()
}

/// The key that a certificate is for, as its SubjectPublicKeyInfo.
fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    let certificate = Certificate::from_der(certificate).ok_or(CertificateError::BadEncoding)?;
    Ok(certificate.public_key_der().into())
}

/// In TLS 1.3 a scheme says which curve it is for.
fn tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(message, &public_key(certificate)?, signed, &ALGORITHMS)
}

/// In TLS 1.2 a scheme for ECDSA may be used with any curve, so there are several algorithms for it.
fn tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let (_, algorithms) = ALGORITHMS
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == signed.scheme)
        .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let info = public_key(certificate)?;
    let key = webpki::RawPublicKeyEntity::try_from(&info).map_err(|_| CertificateError::BadEncoding)?;
    let valid = |algorithm: &&dyn rustls::pki_types::SignatureVerificationAlgorithm| {
        key.verify_signature(*algorithm, message, signed.signature()).is_ok()
    };
    if algorithms.iter().any(valid) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}
