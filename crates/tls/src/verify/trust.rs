//! Trust in certificates and their issuers.

use super::{TrustError, TrustSource, VerifyResult};
use crate::load::{MAX_PEER_CHAIN, Problem, peer_chain};
use freerun_sys::x509::{self, Certificate, CertificatePurpose, CertificateStore, VerifyError};
use std::sync::Arc;

/// The largest PEM text of certificates or revocation lists that is read. The lists of large authorities have some tens
/// of megabytes.
pub const MAX_TRUST: usize = 64 << 20;

/// The security level where no cipher string says another (`@SECLEVEL=`): OpenSSL's since 3.2, and Debian's.
pub const DEFAULT_LEVEL: u8 = 2;

/// Certificates that are trusted, revocation lists, and the names of authorities that clients are told. It is cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct TrustStore(Arc<TrustBuilder>);

/// A [`TrustStore`] to which texts are added.
#[derive(Debug)]
pub struct TrustBuilder {
    /// There is none if there was no memory for it; then nothing is trusted.
    store: Option<CertificateStore>,
    /// Whether there has to be a list for each certificate.
    lists: bool,
    names: Vec<Vec<u8>>,
}

/// Rules for verifying a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyRules {
    /// Whether the peer is a client or a server.
    pub purpose: CertificatePurpose,
    /// The most certificates between the peer's own and a trusted one (`ssl_verify_depth`).
    pub depth: u32,
    /// OpenSSL's security level: [`DEFAULT_LEVEL`], or what the cipher string says.
    pub level: u8,
    /// The present time, in seconds since 1970.
    pub now: i64,
}

impl Default for TrustBuilder {
    fn default() -> Self {
        Self { store: CertificateStore::new(), lists: false, names: Vec::new() }
    }
}

impl TrustBuilder {
    /// Adds the text of `ssl_client_certificate`: its certificates are trusted, and clients receive their names, as
    /// they do from nginx since 1.27 also for those in `TRUSTED CERTIFICATE` blocks.
    pub fn add_client_certificates(&mut self, pem: &[u8]) -> Result<(), TrustError> {
        self.add(pem, TrustSource::Certificates)?;
        let chain = Certificate::all_from_pem(pem)
            .map_err(|errors| TrustError::Unreadable(TrustSource::Names, Problem::of(&errors)))?;
        if chain.is_empty() {
            return Err(TrustError::Nothing(TrustSource::Names));
        }
        for name in chain.iter().map(Certificate::subject_der) {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        Ok(())
    }

    /// Adds the text of `ssl_trusted_certificate` or the like for upstreams: its certificates are trusted.
    pub fn add_trusted_certificates(&mut self, pem: &[u8]) -> Result<(), TrustError> {
        self.add(pem, TrustSource::Certificates)
    }

    /// Adds the text of `ssl_crl` or the like for upstreams. From now on there has to be a list for each certificate of
    /// a chain. As with nginx, a certificate in this text is trusted, and a list in a text of certificates is used.
    pub fn add_lists(&mut self, pem: &[u8]) -> Result<(), TrustError> {
        self.add(pem, TrustSource::Lists)?;
        self.lists = true;
        Ok(())
    }

    fn add(&mut self, pem: &[u8], source: TrustSource) -> Result<(), TrustError> {
        if pem.len() > MAX_TRUST {
            return Err(TrustError::Unreadable(source, Problem::TooLarge));
        }
        let Some(store) = &mut self.store else {
            return Err(TrustError::Unreadable(source, Problem::Malformed("malloc failure".to_owned())));
        };
        let added = store.add_pem(pem).map_err(|errors| TrustError::Unreadable(source, Problem::of(&errors)))?;
        if added.certificates + added.lists == 0 { Err(TrustError::Nothing(source)) } else { Ok(()) }
    }

    /// Makes it ready for use.
    pub fn build(self) -> TrustStore {
        TrustStore(Arc::new(self))
    }
}

impl TrustStore {
    /// Verifies what a peer has sent, in DER: its own certificate first, and then others in any order, up to
    /// [`MAX_PEER_CHAIN`] bytes.
    pub fn verify<'a>(
        &self,
        sent: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
        rules: &VerifyRules,
    ) -> VerifyResult {
        self.verify_and_build(sent, rules).0
    }

    /// Verifies as [`TrustStore::verify`] does, and gives the chain up to a trusted certificate as well, in DER; it is empty
    /// unless the peer is trusted. Certificates that the peer has not sent may be in it.
    pub fn verify_and_build<'a>(
        &self,
        sent: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
        rules: &VerifyRules,
    ) -> (VerifyResult, Vec<Vec<u8>>) {
        let failed = |code| (VerifyResult::Failed(VerifyError { code, depth: 0 }), Vec::new());
        let sent = sent.into_iter();
        if sent.clone().next().is_none() {
            return (VerifyResult::None, Vec::new());
        }
        if sent.clone().map(<[u8]>::len).try_fold(0, usize::checked_add).is_none_or(|length| length > MAX_PEER_CHAIN) {
            return failed(CHAIN_TOO_LONG);
        }
        let (Some(store), Some(chain)) = (&self.0.store, peer_chain(sent)) else { return failed(UNSPECIFIED) };
        let VerifyRules { purpose, depth, level, now } = *rules;
        match store.verify(&chain, &x509::ChainRules { purpose, depth, lists: self.0.lists, level, now }) {
            Ok(chain) => (VerifyResult::Success, chain.iter().map(Certificate::to_der).collect()),
            Err(error) => (VerifyResult::Failed(error), Vec::new()),
        }
    }

    /// The issuer of a certificate in DER: another of these, or a trusted certificate. `now` is in seconds since 1970.
    pub fn issuer<'a>(
        &self,
        certificate: &[u8],
        others: impl IntoIterator<Item = &'a [u8]>,
        now: i64,
    ) -> Option<Vec<u8>> {
        let certificate = Certificate::from_der(certificate)?;
        let others: Vec<_> = others.into_iter().filter_map(Certificate::from_der).collect();
        Some(self.0.store.as_ref()?.issuer(&certificate, &others, now)?.to_der())
    }

    /// The names of the authorities in `ssl_client_certificate` in DER, each once: what a server says in its
    /// `CertificateRequest` (RFC 8446 section 4.2.4).
    pub fn authority_names(&self) -> &[Vec<u8>] {
        &self.0.names
    }
}

/// OpenSSL's number for a chain that is too long.
const CHAIN_TOO_LONG: i32 = 22;

/// OpenSSL's number for what has no other.
const UNSPECIFIED: i32 = 1;
