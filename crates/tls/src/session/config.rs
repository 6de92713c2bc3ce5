//! The settings of a server's sessions.

use super::p521::P521;
use super::step::{self, StepTime};
use super::{Version, names};
use crate::load::{CertifiedKey, KeyKind};
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};
use std::sync::Arc;
use thiserror::Error;

/// All groups that there are, in the order in which a server prefers them unless it is told otherwise. The first
/// [`DEFAULT_GROUPS`] are used unless others are named.
static GROUPS: &[&dyn SupportedKxGroup] = &[
    kx_group::X25519MLKEM768,
    kx_group::X25519,
    kx_group::SECP256R1,
    kx_group::SECP384R1,
    &P521,
    kx_group::SECP256R1MLKEM768,
    kx_group::MLKEM768,
    kx_group::MLKEM1024,
];

/// How many of the groups are used unless some are named (`ssl_ecdh_curve auto`).
const DEFAULT_GROUPS: usize = 4;

/// The largest plaintext of a record.
pub(super) const MAX_FRAGMENT: usize = 16 << 10;

/// The smallest plaintext of a record that can be asked for.
const MIN_FRAGMENT: usize = 32;

/// How many bytes a record has before its plaintext, as rustls counts them in its limit.
const RECORD_HEADER: usize = 5;

/// What a server's configuration says of its sessions. Suites and groups are named by their IANA numbers.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The certificates with their keys. The client decides by what it can verify which one it gets.
    pub keys: Vec<CertifiedKey>,
    /// The versions of the protocol.
    pub versions: Vec<Version>,
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
    /// How many sessions are kept for resumption.
    pub sessions: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            versions: vec![Version::Tls12, Version::Tls13],
            suites: Vec::new(),
            groups: Vec::new(),
            prefer_server_order: false,
            alpn: Vec::new(),
            fragment: MAX_FRAGMENT,
            sessions: 0,
        }
    }
}

/// Why there can be no sessions with some settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// There is no certificate.
    #[error("no certificate")]
    NoCertificate,
    /// No version is enabled for which there are suites and groups.
    #[error("no usable protocol version")]
    NoVersion,
    /// None of the suites exists here.
    #[error("no cipher match")]
    NoSuite,
    /// None of the groups exists here.
    #[error("no usable group")]
    NoGroup,
}

/// The settings of a server's sessions, ready for use. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub(super) shared: Arc<rustls::ServerConfig>,
    pub(super) fragment: usize,
}

impl ServerSettings {
    /// Makes them ready for use.
    pub fn build(self) -> Result<ServerConfig, SettingsError> {
        if self.keys.is_empty() {
            return Err(SettingsError::NoCertificate);
        }
        let provider = CryptoProvider {
            cipher_suites: suites(&self.suites),
            kx_groups: groups(&self.groups),
            ..default_provider()
        };
        if provider.cipher_suites.is_empty() {
            return Err(SettingsError::NoSuite);
        }
        if provider.kx_groups.is_empty() {
            return Err(SettingsError::NoGroup);
        }
        let has_suites =
            |version: &SupportedProtocolVersion| provider.cipher_suites.iter().any(|suite| suite.version() == version);
        let versions: Vec<&'static SupportedProtocolVersion> = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)]
            .into_iter()
            .filter(|(version, known)| self.versions.contains(version) && has_suites(known))
            .map(|(_, known)| known)
            .collect();
        let mut config = rustls::ServerConfig::builder_with_details(Arc::new(provider), Arc::new(StepTime))
            .with_protocol_versions(&versions)
            .map_err(|_| SettingsError::NoVersion)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Keys(self.keys)));
        let fragment = self.fragment.clamp(MIN_FRAGMENT, MAX_FRAGMENT);
        config.ignore_client_order = self.prefer_server_order;
        config.max_fragment_size = (fragment < MAX_FRAGMENT).then_some(fragment + RECORD_HEADER);
        config.alpn_protocols = self.alpn;
        config.session_storage = match self.sessions {
            0 => Arc::new(NoServerSessionStorage {}),
            sessions => ServerSessionMemoryCache::new(sessions),
        };
        Ok(ServerConfig { shared: Arc::new(config), fragment })
    }
}

fn suites(named: &[u16]) -> Vec<SupportedCipherSuite> {
    if named.is_empty() {
        return ALL_CIPHER_SUITES.to_vec();
    }
    let known = |number: &u16| ALL_CIPHER_SUITES.iter().find(|suite| u16::from(suite.suite()) == *number);
    named.iter().filter_map(known).copied().collect()
}

fn groups(named: &[u16]) -> Vec<&'static dyn SupportedKxGroup> {
    if named.is_empty() {
        return GROUPS[..DEFAULT_GROUPS].to_vec();
    }
    named.iter().filter_map(|number| GROUPS.iter().find(|group| u16::from(group.name()) == *number)).copied().collect()
}

/// Whether there is a suite with this IANA number.
pub fn has_suite(number: u16) -> bool {
    ALL_CIPHER_SUITES.iter().any(|suite| u16::from(suite.suite()) == number)
}

/// Whether there is a group with this IANA number, and its name in OpenSSL.
pub fn group_name(number: u16) -> Option<&'static str> {
    GROUPS.iter().any(|group| u16::from(group.name()) == number).then(|| names::group(NamedGroup::from(number)))
}

/// The certificates of a server.
#[derive(Debug)]
struct Keys(Vec<CertifiedKey>);

impl ResolvesServerCert for Keys {
    /// Chooses by the client's order of signature schemes, as OpenSSL does. A client that can verify none of them gets the
    /// first one, with which the handshake fails by the alert that belongs there.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        step::asked_for(hello.server_name());
        let usable = |key: &&CertifiedKey| knows_curve(&hello, key.kind());
        let fits = hello
            .signature_schemes()
            .iter()
            .find_map(|scheme| self.0.iter().filter(usable).find(|key| key.signs(*scheme)));
        fits.or(self.0.first()).map(CertifiedKey::shared)
    }
}

/// Whether the client can use a certificate's curve. In TLS 1.2 its groups are also the curves of certificates that it takes;
/// in TLS 1.3 the signature schemes say that alone.
fn knows_curve(hello: &ClientHello<'_>, kind: KeyKind) -> bool {
    let curve = match kind {
        KeyKind::P256 => NamedGroup::secp256r1,
        KeyKind::P384 => NamedGroup::secp384r1,
        KeyKind::P521 => NamedGroup::secp521r1,
        KeyKind::Rsa(_) | KeyKind::Ed25519 | KeyKind::Other => return true,
    };
    let speaks_tls13 = || hello.cipher_suites().contains(&CipherSuite::TLS13_AES_128_GCM_SHA256);
    hello.named_groups().is_none_or(|groups| groups.contains(&curve)) || speaks_tls13()
}
