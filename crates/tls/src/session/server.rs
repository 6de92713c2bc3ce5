//! The settings of a server's sessions.

use super::algorithms::{Algorithms, MAX_FRAGMENT, fragment, max_fragment_size, suites_or_all, usual_versions};
use super::certificates::{Certificates, last_of_each_type};
use super::compression::{self, COMPRESSORS};
use super::resume::{SessionCache, SessionContext, SessionSettings};
use super::resumption::ResumptionStore;
use super::step::StepTime;
use super::{KeyLog, Schemes, SettingsError, TlsVersion, signatures};
use crate::load::CertifiedKey;
use crate::random;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CipherSuite, SupportedCipherSuite};
use std::sync::Arc;
use std::time::Duration;

/// The most tickets: more than anybody has use for.
const MAX_TICKETS: usize = 64;

/// The most bytes in the names of authorities, with two for each name's length: more have no room in the message.
const MAX_AUTHORITIES: usize = 60 << 10;

/// The most early data that a client may send, as nginx has it.
const MAX_EARLY_DATA: u32 = 16 << 10;

/// Settings of a server for its sessions. Suites and groups are named by their IANA numbers.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The certificates with their keys. The client decides by its suites and by what it can verify which one it gets.
    ///
    /// Of those with keys of one type (RSA, ECDSA whatever the curve, Ed25519) the last one is used.
    pub keys: Vec<CertifiedKey>,
    /// The versions of the protocol.
    pub versions: Vec<TlsVersion>,
    /// The cipher suites of both versions in the order of preference, or none for all; those that do not exist here are
    /// left out.
    pub suites: Vec<u16>,
    /// The groups of the key exchange, or none for the usual ones; those that do not exist here are left out.
    pub groups: Vec<u16>,
    /// Whether the server's order of suites counts, not the client's.
    pub prefer_server_order: bool,
    /// The protocols above TLS in the order of preference. A client that names protocols, but none of these, is refused.
    pub alpn: Vec<Vec<u8>>,
    /// The largest plaintext of a record.
    pub fragment: usize,
    /// The number of tickets that a client of TLS 1.3 gets after a full handshake, if it gets any.
    pub tickets: usize,
    /// Whether clients that resume a session of TLS 1.3 may send early data, of 16 KiB at most. This needs a store of sessions,
    /// and where there is one, there are no tickets.
    pub early_data: bool,
    /// Whether the certificates are sent compressed to clients of TLS 1.3 that know how to read that.
    pub compress_certificates: bool,
    /// The schemes that the server may sign by.
    pub schemes: Schemes,
    /// The schemes for clients that are asked for a certificate.
    pub client_schemes: Schemes,
    /// Whether suites with ChaCha20 come first for clients that prefer one of those, where the server's order counts.
    pub prioritize_chacha: bool,
    /// Gets the secrets of all sessions.
    pub key_log: Option<KeyLog>,
    /// Whether clients are asked for a certificate, and for which. Whatever they show is accepted, and so are those that show
    /// nothing; only that a client has the key of its certificate is checked.
    pub client_certificates: Option<ClientCertificates>,
}

/// Request for the certificates of clients.
#[derive(Debug, Clone, Default)]
pub struct ClientCertificates {
    /// The names of the authorities that may have issued a certificate, in DER, or none for any.
    pub authorities: Vec<Vec<u8>>,
}

impl ClientCertificates {
    /// Whether the message has room for all names.
    fn fit(&self) -> bool {
        self.authorities.iter().map(|name| name.len() + 2).sum::<usize>() <= MAX_AUTHORITIES
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            versions: usual_versions(),
            suites: Vec::new(),
            groups: Vec::new(),
            prefer_server_order: false,
            alpn: Vec::new(),
            fragment: MAX_FRAGMENT,
            tickets: ServerSettings::TICKETS,
            early_data: false,
            compress_certificates: false,
            schemes: Schemes::default(),
            client_schemes: Schemes::default(),
            prioritize_chacha: false,
            key_log: None,
            client_certificates: None,
        }
    }
}

/// The settings of a server's sessions, ready for use. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub(super) shared: Arc<rustls::ServerConfig>,
    /// The same with ChaCha20 first, if clients that prefer it get it.
    with_chacha: Option<Arc<rustls::ServerConfig>>,
    pub(super) fragment: usize,
    signature: Duration,
    early_data: bool,
    asks: bool,
}

impl ServerConfig {
    /// The longest duration of the signature in a handshake, whichever of the certificates is used.
    pub fn signature_time(&self) -> Duration {
        self.signature
    }

    /// Whether there may be sessions of this version.
    pub(super) fn speaks(&self, version: TlsVersion) -> bool {
        self.provider_suites().any(|suite| suite.version().version == version.protocol())
    }

    /// Whether sessions of this version may have the suite with this number.
    pub(super) fn has_suite(&self, version: TlsVersion, number: u16) -> bool {
        let is_it = |suite: &SupportedCipherSuite| {
            suite.version().version == version.protocol() && u16::from(suite.suite()) == number
        };
        self.provider_suites().any(is_it)
    }

    /// The suites of the versions that are enabled.
    fn provider_suites(&self) -> impl Iterator<Item = &SupportedCipherSuite> {
        self.shared.crypto_provider().cipher_suites.iter()
    }

    /// The settings for a client that offers these suites, by number and the most preferred first.
    #[must_use]
    pub fn for_client(self, mut offered: impl Iterator<Item = u16>) -> Self {
        // Reserved numbers (RFC 8701) mean nothing.
        let mut preferred = || offered.find(|suite| suite & 0x0f0f != 0x0a0a);
        match self.with_chacha {
            Some(shared) if preferred().is_some_and(is_chacha) => Self { shared, with_chacha: None, ..self },
            _ => self,
        }
    }
}

/// Whether the suite with this number has ChaCha20.
fn is_chacha(suite: u16) -> bool {
    [
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
    .contains(&CipherSuite::from(suite))
}

impl ServerSettings {
    /// The number of tickets that OpenSSL gives after a full handshake without a setting.
    pub const TICKETS: usize = 2;

    /// Makes them ready for use.
    pub fn build(self) -> Result<ServerConfig, SettingsError> {
        if self.keys.is_empty() {
            return Err(SettingsError::NoCertificate);
        }
        random::prepare();
        let with_chacha = self.with_chacha_first().map(Self::build).transpose()?;
        let with_chacha = with_chacha.map(|config| config.shared);
        let keys = last_of_each_type(self.keys);
        let certificates = keys.len();
        let signature = keys.iter().map(CertifiedKey::signature_time).max().unwrap_or_default();
        let asks = self.client_certificates.is_some();
        let verifier = match self.client_certificates {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(certificates) if certificates.fit() => {
                signatures::any_client(&self.client_schemes, certificates.authorities)
            }
            Some(_) => return Err(SettingsError::TooManyAuthorities),
        };
        let algorithms = Algorithms::new(&self.versions, &self.suites, &self.groups)?;
        let resolver = Certificates::new(keys, self.schemes, algorithms.provider.clone(), self.prefer_server_order);
        let mut config = rustls::ServerConfig::builder_with_details(algorithms.provider, Arc::new(StepTime))
            .with_protocol_versions(&algorithms.versions)
            .map_err(|_| SettingsError::NoVersion)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(resolver));
        config.cert_compressors = Vec::new();
        config.cert_decompressors = Vec::new();
        if self.compress_certificates {
            config.cert_compressors = COMPRESSORS.to_vec();
            config.cert_compression_cache = compression::cache(certificates);
        }
        if let Some(log) = self.key_log {
            config.key_log = log.shared();
        }
        let fragment = fragment(self.fragment);
        config.ignore_client_order = self.prefer_server_order;
        config.max_fragment_size = max_fragment_size(fragment);
        config.alpn_protocols = self.alpn;
        config.send_tls13_tickets = self.tickets.min(MAX_TICKETS);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(ServerConfig {
            shared: Arc::new(config),
            with_chacha,
            fragment,
            signature,
            early_data: self.early_data,
            asks,
        })
    }

    /// The same settings with ChaCha20 first, if they are needed.
    fn with_chacha_first(&self) -> Option<ServerSettings> {
        if !(self.prioritize_chacha && self.prefer_server_order) {
            return None;
        }
        let mut suites = suites_or_all(&self.suites);
        suites.sort_by_key(|suite| !is_chacha(*suite));
        Some(ServerSettings { suites, prioritize_chacha: false, ..self.clone() })
    }
}

impl ServerConfig {
    /// The same settings with sessions that are resumed. Sessions with different contexts are not resumed with each
    /// other. So the context says everything of a server that must not change between a session and its resumption: its
    /// certificates, and the authorities that it accepts for its clients. This copies some lists, so it is not for each
    /// session.
    pub fn with_sessions(&self, sessions: &SessionSettings, context: &[u8]) -> Self {
        let early_data = self.early_data && matches!(sessions.cache, SessionCache::Kept(_));
        let mut sessions = sessions.clone();
        if early_data {
            sessions.tickets = None;
        }
        let resumption = Arc::new(ResumptionStore {
            sessions,
            context: SessionContext::of(context),
            early_data,
            may_forget: self.asks,
        });
        let with = |before: &Arc<rustls::ServerConfig>| {
            let mut shared = rustls::ServerConfig::clone(before);
            if early_data {
                shared.max_early_data_size = MAX_EARLY_DATA;
                // Early data is answered before the client's last message, or it would have been no use to send it early.
                shared.send_half_rtt_data = true;
            }
            shared.session_storage = resumption.clone();
            shared.ticketer = resumption.clone();
            Arc::new(shared)
        };
        Self { shared: with(&self.shared), with_chacha: self.with_chacha.as_ref().map(with), ..*self }
    }

    /// The same settings with these protocols above TLS in place of [`ServerSettings::alpn`], the most preferred first. This
    /// copies some lists if the settings are shared, so it is not for each session.
    #[must_use]
    pub fn with_alpn(mut self, protocols: &[impl AsRef<[u8]>]) -> Self {
        for shared in [Some(&mut self.shared), self.with_chacha.as_mut()].into_iter().flatten() {
            Arc::make_mut(shared).alpn_protocols = protocols.iter().map(|name| name.as_ref().to_vec()).collect();
        }
        self
    }
}
