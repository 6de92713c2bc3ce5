//! Verifiers that trust everybody, but check that the other side has the key of its certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) struct TrustingVerifier(Arc<CryptoProvider>, Mutex<Vec<u8>>);

impl TrustingVerifier {
    pub(super) fn new(provider: Arc<CryptoProvider>) -> TrustingVerifier {
        TrustingVerifier(provider, Mutex::default())
    }

    /// The response of OCSP that the last server has stapled to its certificate; empty if it has stapled none.
    pub(super) fn stapled(&self) -> Vec<u8> {
        self.1.lock().map(|stapled| stapled.clone()).unwrap_or_default()
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

type SignatureResult = Result<HandshakeSignatureValid, Error>;

impl ServerCertVerifier for TrustingVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Ok(mut kept) = self.1.lock() {
            *kept = stapled.to_vec();
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        text: &[u8],
        own: &CertificateDer<'_>,
        sign: &DigitallySignedStruct,
    ) -> SignatureResult {
        verify_tls12_signature(text, own, sign, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        text: &[u8],
        own: &CertificateDer<'_>,
        sign: &DigitallySignedStruct,
    ) -> SignatureResult {
        verify_tls13_signature(text, own, sign, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for TrustingVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
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
        text: &[u8],
        own: &CertificateDer<'_>,
        sign: &DigitallySignedStruct,
    ) -> SignatureResult {
        verify_tls12_signature(text, own, sign, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        text: &[u8],
        own: &CertificateDer<'_>,
        sign: &DigitallySignedStruct,
    ) -> SignatureResult {
        verify_tls13_signature(text, own, sign, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}
