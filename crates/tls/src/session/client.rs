//! The settings of a client's sessions.

use super::algorithms::{Algorithms, MAX_FRAGMENT, fragment, max_fragment_size, usual_versions};
use super::concealment::signing_as_sent;
use super::step::{self, StepTime};
use super::{KeyLog, Schemes, SettingsError, TlsVersion, signatures};
use crate::load::CertifiedKey;
use crate::random;
use rustls::client::{
    ClientSessionStore, ResolvesClientCert, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey as SigningPair;
use rustls::{NamedGroup, SignatureScheme};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The one resolver of all clients without a certificate. rustls resumes a session only with the resolver that it began with.
static NO_CERTIFICATE: LazyLock<Arc<NoCertificate>> = LazyLock::new(|| Arc::new(NoCertificate));

/// Settings of a client for its sessions. Suites and groups are named by their IANA numbers.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// The versions of the protocol.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites of both versions in the order of preference, or none for all; those that do not exist here are
    /// left out.
    pub suites: Vec<u16>,
    /// The groups of the key exchange in the order of preference, or none for the usual ones; those that do not exist here
    /// are left out.
    pub groups: Vec<u16>,
    /// The protocols above TLS in the order of preference.
    pub alpn: Vec<Vec<u8>>,
    /// The largest plaintext of a record.
    pub fragment: usize,
    /// The certificate for servers that ask for one.
    pub certificate: Option<CertifiedKey>,
    /// The schemes that servers may sign by.
    pub schemes: Schemes,
    /// The schemes that the client itself may sign by.
    pub own_schemes: Schemes,
    /// Gets the secrets of all sessions.
    pub key_log: Option<KeyLog>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            versions: usual_versions(),
            suites: Vec::new(),
            groups: Vec::new(),
            alpn: Vec::new(),
            fragment: MAX_FRAGMENT,
            certificate: None,
            schemes: Schemes::default(),
            own_schemes: Schemes::default(),
            key_log: None,
        }
    }
}

/// The settings of a client's sessions, ready for use. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    pub(super) shared: Arc<rustls::ClientConfig>,
    pub(super) fragment: usize,
    own_schemes: Schemes,
    /// See [`ClientConfig::signature_time`].
    signature: Duration,
}

impl ClientSettings {
    /// Makes them ready for use.
    pub fn build(self) -> Result<ClientConfig, SettingsError> {
        random::prepare();
        let algorithms = Algorithms::new(&self.versions, &self.suites, &self.groups)?;
        let mut config = rustls::ClientConfig::builder_with_details(algorithms.provider, Arc::new(StepTime))
            .with_protocol_versions(&algorithms.versions)
            .map_err(|_| SettingsError::NoVersion)?
            .dangerous()
            .with_custom_certificate_verifier(signatures::any_server(&self.schemes))
            .with_client_cert_resolver(resolver(self.certificate.as_ref(), &self.own_schemes));
        if let Some(log) = self.key_log {
            config.key_log = log.shared();
        }
        let signature = signature_time(self.certificate.as_ref());
        let fragment = fragment(self.fragment);
        config.max_fragment_size = max_fragment_size(fragment);
        config.alpn_protocols = self.alpn;
        config.resumption = Resumption::store(Arc::new(StepPeer));
        Ok(ClientConfig { shared: Arc::new(config), fragment, own_schemes: self.own_schemes, signature })
    }
}

impl ClientConfig {
    /// The same settings with another certificate, or none. Sessions that began with one certificate are not resumed with
    /// another.
    pub fn with_certificate(&self, certificate: Option<&CertifiedKey>) -> Self {
        let mut shared = rustls::ClientConfig::clone(&self.shared);
        shared.client_auth_cert_resolver = resolver(certificate, &self.own_schemes);
        let (own_schemes, signature) = (self.own_schemes.clone(), signature_time(certificate));
        Self { shared: Arc::new(shared), fragment: self.fragment, own_schemes, signature }
    }

    /// The same settings with these protocols above TLS in place of [`ClientSettings::alpn`], the most preferred first. This
    /// copies some lists if the settings are shared.
    #[must_use]
    pub fn with_alpn(mut self, protocols: Vec<Vec<u8>>) -> Self {
        Arc::make_mut(&mut self.shared).alpn_protocols = protocols;
        self
    }

    /// The duration of the signature in a handshake with a server that asks for a certificate; zero without one.
    pub fn signature_time(&self) -> Duration {
        self.signature
    }
}

fn signature_time(certificate: Option<&CertifiedKey>) -> Duration {
    certificate.map(CertifiedKey::signature_time).unwrap_or_default()
}

fn resolver(certificate: Option<&CertifiedKey>, schemes: &Schemes) -> Arc<dyn ResolvesClientCert> {
    match certificate {
        Some(certificate) if schemes.are_limited() => Arc::new(ShownPair(schemes.restrict(certificate.shared()))),
        Some(certificate) => certificate.client_resolver(|pair| Arc::new(ShownPair(pair))),
        None => NO_CERTIFICATE.clone(),
    }
}

/// A certificate, with its key.
#[derive(Debug)]
struct ShownPair(Arc<SigningPair>);

impl ResolvesClientCert for ShownPair {
    /// The certificate is shown whomever the server would trust, as OpenSSL does.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<SigningPair>> {
        Some(signing_as_sent(self.0.clone()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<SigningPair>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// The sessions of the peer whose step runs. rustls names them by the server, which is not enough, so its names are ignored.
#[derive(Debug)]
struct StepPeer;

impl ClientSessionStore for StepPeer {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        step::with_peer(|peer| peer.set_group(group));
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        step::with_peer(|peer| peer.group()).flatten()
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        step::with_peer(|peer| peer.set_tls12(Some(session)));
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        step::with_peer(|peer| peer.tls12()).flatten()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        step::with_peer(|peer| peer.set_tls12(None));
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, session: Tls13ClientSessionValue) {
        step::with_peer(|peer| peer.add_tls13(session));
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        step::with_peer(|peer| peer.take_tls13()).flatten()
    }
}
