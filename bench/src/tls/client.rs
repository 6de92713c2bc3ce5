//! The TLS of the clients: cheap, because it is the servers that are measured, and without any verification.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, NamedGroup, SignatureScheme, SupportedProtocolVersion};

use crate::error::{Error, Result};

/// Most sessions of a version that a store keeps.
const MOST_SESSIONS: usize = 4_096;

/// The version that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::Tls12 => "TLS 1.2",
            TlsVersion::Tls13 => "TLS 1.3",
        })
    }
}

/// The use of sessions that servers give a client.
#[derive(Debug, Clone, Copy)]
pub enum SessionUse<'a> {
    /// Forgets them: each handshake is a full one.
    Never,
    /// Keeps them there, but each handshake is a full one.
    Later(&'a Arc<Sessions>),
    /// Keeps them there, and resumes one with each handshake as long as there is one.
    Now(&'a Arc<Sessions>),
}

/// Settings of a client that speaks `version`. It prefers X25519 and offers AES-128-GCM alone, so that all servers do the same
/// work.
pub fn settings(version: TlsVersion, resuming: SessionUse<'_>) -> Result<Arc<ClientConfig>> {
    // A session is resumed only with the verifier with which it was made, so all settings are copies.
    static BASES: OnceLock<std::result::Result<[ClientConfig; 2], rustls::Error>> = OnceLock::new();
    let make = || Ok([base(&rustls::version::TLS12)?, base(&rustls::version::TLS13)?]);
    let bases = BASES.get_or_init(make).as_ref().map_err(|error| Error::Setup(error.to_string()))?;
    let mut settings = match version {
        TlsVersion::Tls12 => bases[0].clone(),
        TlsVersion::Tls13 => bases[1].clone(),
    };
    settings.resumption = match resuming {
        SessionUse::Never => Resumption::disabled(),
        SessionUse::Later(sessions) => {
            Resumption::store(Arc::new(Store { sessions: Arc::clone(sessions), gives: false }))
        }
        SessionUse::Now(sessions) => Resumption::store(Arc::new(Store { sessions: Arc::clone(sessions), gives: true })),
    };
    Ok(Arc::new(settings))
}

fn base(version: &'static SupportedProtocolVersion) -> std::result::Result<ClientConfig, rustls::Error> {
    let provider = CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ],
        // With TLS 1.2 this is also the list of curves that the key of a certificate may be on (RFC 8422, section 5.1.1).
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1],
        ..aws_lc_rs::default_provider()
    };
    Ok(ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[version])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth())
}

/// The name that clients ask for.
pub fn name() -> ServerName<'static> {
    // The name is a constant and valid: an address would do, too.
    ServerName::try_from("bench").unwrap_or(ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()))
}

/// Believes every server, without looking at what it signed: a client that computes less is less often the limit.
#[derive(Debug)]
struct Anyone;

/// The result of a look at a signature.
type SignatureResult = std::result::Result<HandshakeSignatureValid, rustls::Error>;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct) -> SignatureResult {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct) -> SignatureResult {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::RSA_PSS_SHA256, SignatureScheme::RSA_PKCS1_SHA256]
    }
}

/// Sessions that servers have given. Each is resumed once, the oldest first.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<SessionQueues>);

#[derive(Debug, Default)]
struct SessionQueues {
    tls12: VecDeque<Tls12ClientSessionValue>,
    tls13: VecDeque<Tls13ClientSessionValue>,
}

/// Adds one and lets the oldest go where there are too many.
fn add<T>(list: &mut VecDeque<T>, value: T) {
    if list.len() >= MOST_SESSIONS {
        list.pop_front();
    }
    list.push_back(value);
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, SessionQueues> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        let held = self.held();
        held.tls12.len() + held.tls13.len()
    }
}

/// The way in which a client gets sessions.
#[derive(Debug)]
struct Store {
    sessions: Arc<Sessions>,
    gives: bool,
}

impl ClientSessionStore for Store {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        add(&mut self.sessions.held().tls12, value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.gives.then(|| self.sessions.held().tls12.pop_front())?
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        add(&mut self.sessions.held().tls13, value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.gives.then(|| self.sessions.held().tls13.pop_front())?
    }
}
