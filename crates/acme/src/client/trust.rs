//! Whether the CA's own server is trusted.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use freerun_tls::verify::{CertificatePurpose, DEFAULT_LEVEL, TrustBuilder, TrustStore, VerifyResult, VerifyRules};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::settings::IssuerSettings;

/// Files in which systems keep the certificates that they trust: Debian, Fedora, openSUSE, Alpine.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The most certificates between the CA's server and a trusted certificate.
const DEPTH: u32 = 10;

/// The configuration for TLS connections to a CA. The system's certificates are read anew for each of them, because
/// orders are rare and the certificates change.
pub(super) fn client_config(settings: &IssuerSettings) -> Result<ClientConfig, String> {
    let trust = match (&settings.trusted, settings.verify) {
        (_, false) => None,
        (Some(pem), true) => Some(trust(pem, "ssl_trusted_certificate")?),
        (None, true) => Some(system(&BUNDLES)?),
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(Verifier { trust, provider: provider.clone() });
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn trust(pem: &[u8], from: &str) -> Result<TrustStore, String> {
    let mut builder = TrustBuilder::default();
    builder.add_trusted_certificates(pem).map_err(|error| error.words(from))?;
    Ok(builder.build())
}

fn system(bundles: &[&str]) -> Result<TrustStore, String> {
    let found = bundles.iter().find_map(|path| Some((path, std::fs::read(Path::new(path)).ok()?)));
    let (path, pem) =
        found.ok_or("the system has no certificates of CAs; ssl_trusted_certificate says where they are")?;
    trust(&pem, path)
}

/// Verifies as the server does elsewhere (`proxy_ssl_verify`), and the name or address by the rules of the Web.
struct Verifier {
    /// `None` where `ssl_verify` is off.
    trust: Option<TrustStore>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("trust", &self.trust.is_some()).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let rules = VerifyRules { purpose: CertificatePurpose::Server, depth: DEPTH, level: DEFAULT_LEVEL, now };
        match trust.verify(std::iter::once(own).chain(others).map(AsRef::as_ref), &rules) {
            VerifyResult::Success => {}
            VerifyResult::Failed(why) => {
                return Err(Error::General(format!("the server's certificate is not trusted: {}", why.text())));
            }
            _ => return Err(CertificateError::UnknownIssuer.into()),
        }
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bundle_that_there_is_counts() {
        let folder = freerun_testkit::TempDir::new("bundles");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let pem = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("a certificate").cert.pem();
        std::fs::write(path("good"), pem).expect("written");
        std::fs::write(path("bad"), "no certificates").expect("written");
        let tried = |names: [&str; 2]| system(&names.map(path).iter().map(String::as_str).collect::<Vec<_>>());
        assert!(tried(["missing", "good"]).is_ok());
        assert!(tried(["bad", "good"]).err().is_some_and(|why| why.contains("bad")));
        assert!(tried(["missing", "missing too"]).err().is_some_and(|why| why.contains("ssl_trusted_certificate")));
    }
}
