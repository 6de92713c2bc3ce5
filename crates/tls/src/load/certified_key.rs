//! A chain and its key, ready to serve clients.

use super::certificates::names;
use super::{CertificateKey, Chain, KeyKind, LoadError, SignatureAlgorithm, cost};
use arc_swap::ArcSwapOption;
use freerun_sys::x509::Certificate;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::sign::{any_ecdsa_type, any_eddsa_type, any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The fewest bits of an RSA key.
const MIN_RSA_BITS: u32 = 2048;

/// A chain with the key of its first certificate. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct CertifiedKey(Arc<CertificatePair>);

#[derive(Debug)]
struct CertificatePair {
    shared: Arc<rustls::sign::CertifiedKey>,
    /// The same with a stapled response of OCSP, if there is one.
    stapled: ArcSwapOption<rustls::sign::CertifiedKey>,
    kind: KeyKind,
    signature: Duration,
    own: Arc<CertificateFacts>,
    /// See [`CertifiedKey::client_resolver`].
    resolver: OnceLock<Arc<dyn ResolvesClientCert>>,
}

/// Facts from the first certificate. The certificate itself would be some kilobytes of memory.
#[derive(Debug)]
struct CertificateFacts {
    subject: String,
    names: Vec<String>,
    issuer: String,
    end: Option<i64>,
    end_text: String,
    algorithm: SignatureAlgorithm,
}

impl CertificateFacts {
    fn of(certificate: &Certificate) -> CertificateFacts {
        CertificateFacts {
            subject: certificate.subject(),
            names: names(certificate),
            issuer: certificate.issuer(),
            end: certificate.end(),
            end_text: certificate.end_text(),
            algorithm: certificate.signature_algorithm(),
        }
    }
}

impl CertifiedKey {
    /// Puts a chain and its key together, if they belong together and something here can sign with the key.
    ///
    /// rustls's own check of this cannot read certificates of version 1, so the library's own is used.
    pub fn new(chain: &Chain, key: &CertificateKey) -> Result<Self, LoadError> {
        let kind = chain.key_kind();
        match kind {
            KeyKind::Rsa(bits) if bits < MIN_RSA_BITS => return Err(LoadError::KeyTooSmall),
            KeyKind::Other => return Err(LoadError::UnsupportedKey),
            _ => {}
        }
        let own = chain.own().ok_or(LoadError::UnsupportedKey)?;
        own.check_key(key.inner()).map_err(LoadError::Mismatch)?;
        let pkcs8 = key.to_pkcs8().ok_or(LoadError::UnsupportedKey)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8.as_slice()));
        // `any_supported_type` would first parse every key as one of RSA.
        let signing = match (&der, kind) {
            (_, KeyKind::P256 | KeyKind::P384 | KeyKind::P521) => any_ecdsa_type(&der),
            (PrivateKeyDer::Pkcs8(pkcs8), KeyKind::Ed25519) => any_eddsa_type(pkcs8),
            _ => any_supported_type(&der),
        };
        let signing = signing.map_err(|_| LoadError::UnsupportedKey)?;
        let certificates = chain.to_der().into_iter().map(CertificateDer::from).collect();
        let signature = cost::of_signature(&*signing, kind);
        let shared = Arc::new(rustls::sign::CertifiedKey::new(certificates, signing));
        let own = Arc::new(CertificateFacts::of(own));
        Ok(Self::of(shared, kind, signature, own))
    }

    /// Whether both are one value, or clones of it. Others are not the same, even if their chains and keys are equal.
    pub fn is_same(&self, other: &CertifiedKey) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whose the first certificate is, in the form of RFC 2253.
    pub fn subject(&self) -> &str {
        &self.0.own.subject
    }

    /// The DNS names and IP addresses that the first certificate is for.
    pub fn names(&self) -> &[String] {
        &self.0.own.names
    }

    /// The issuer of the first certificate, in the form of RFC 2253.
    pub fn issuer(&self) -> &str {
        &self.0.own.issuer
    }

    /// The end of the first certificate's validity, in seconds since 1970. `None`: its time cannot be read.
    pub fn end(&self) -> Option<i64> {
        self.0.own.end
    }

    /// The end of the first certificate's validity, as OpenSSL prints it.
    pub fn end_text(&self) -> &str {
        &self.0.own.end_text
    }

    /// The kind of key.
    pub fn kind(&self) -> KeyKind {
        self.0.kind
    }

    /// The algorithm that the first certificate is signed with.
    pub fn signature_algorithm(&self) -> SignatureAlgorithm {
        self.0.own.algorithm
    }

    /// The duration of a signature on this machine with a key of this kind.
    pub fn signature_time(&self) -> Duration {
        self.0.signature
    }

    /// The certificates in DER, the server's own first.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.shared.cert.iter().map(AsRef::as_ref)
    }

    /// Whether the key can sign in this way.
    pub(crate) fn signs(&self, scheme: SignatureScheme) -> bool {
        self.0.shared.key.choose_scheme(&[scheme]).is_some()
    }

    /// The same chain and key, to which responses are stapled separately.
    #[must_use]
    pub fn with_own_staple(&self) -> Self {
        let CertificatePair { shared, kind, signature, own, .. } = &*self.0;
        let (shared, own) = (Arc::clone(shared), Arc::clone(own));
        Self::of(shared, *kind, *signature, own)
    }

    fn of(
        shared: Arc<rustls::sign::CertifiedKey>,
        kind: KeyKind,
        signature: Duration,
        own: Arc<CertificateFacts>,
    ) -> Self {
        let (stapled, resolver) = (ArcSwapOption::empty(), OnceLock::new());
        Self(Arc::new(CertificatePair { shared, stapled, kind, signature, own, resolver }))
    }

    /// Staples a response of OCSP (in DER) to the certificate, or removes it. Clients that ask for a response get this
    /// from now on, whichever settings have this value or a clone of it. Whether it is a good response is the caller's
    /// matter.
    pub fn staple(&self, response: Option<Vec<u8>>) {
        let stapled = response.map(|response| {
            let mut pair = rustls::sign::CertifiedKey::clone(&self.0.shared);
            pair.ocsp = Some(response);
            Arc::new(pair)
        });
        self.0.stapled.store(stapled);
    }

    /// The certificate, key and stapled response that are shown at this moment.
    pub(crate) fn shared(&self) -> Arc<rustls::sign::CertifiedKey> {
        self.0.stapled.load_full().unwrap_or_else(|| Arc::clone(&self.0.shared))
    }

    /// The resolver that shows this certificate to servers that ask for one. It is always the same object, because
    /// sessions are distinguished by it. The first call makes it.
    pub(crate) fn client_resolver(
        &self,
        make: impl FnOnce(Arc<rustls::sign::CertifiedKey>) -> Arc<dyn ResolvesClientCert>,
    ) -> Arc<dyn ResolvesClientCert> {
        self.0.resolver.get_or_init(|| make(self.0.shared.clone())).clone()
    }
}
