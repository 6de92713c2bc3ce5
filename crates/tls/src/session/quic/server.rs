//! Sessions of servers over QUIC.

use super::{LibrarySession, QuicParameters, QuicSession, initial_suite};
use crate::session::failure::SessionFailure;
use crate::session::server::ServerConfig;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{Keys, ServerConfig as ServerCrypto, Session, UnsupportedVersion};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side};
use rustls::quic::{Connection, ServerConnection, Version};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A server without certificates: sessions begin with the settings that are chosen for them.
#[derive(Debug)]
struct NoCertificates;

impl ResolvesServerCert for NoCertificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// The part of the library's settings that depends on no session: the keys of the first packets, and of Retry packets.
/// `None` if the library lacks what version 1 needs.
pub fn quic_without_session() -> Option<Arc<QuicServerConfig>> {
    static MADE: OnceLock<Option<Arc<QuicServerConfig>>> = OnceLock::new();
    let make = || {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .ok()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificates));
        QuicServerConfig::with_initial(Arc::new(config), initial_suite()?).ok().map(Arc::new)
    };
    MADE.get_or_init(make).clone()
}

/// The settings of one session of a server, as the library takes them.
pub struct QuicServer {
    start: SessionStart,
    /// The library's own settings, for keys that depend on no session.
    initial: Arc<QuicServerConfig>,
    session: QuicSession,
    /// The time since 1970.
    clock: fn() -> Duration,
}

/// The way in which a session begins.
enum SessionStart {
    /// With these settings.
    Settings(Arc<rustls::ServerConfig>),
    /// Not at all: the client gets this alert.
    Refusal(u8),
}

impl QuicServer {
    /// The settings for one session of a client. `config` has the protocols above TLS. `clock` tells the time since 1970. `None` if the settings have no version that QUIC has.
    pub fn new(config: &ServerConfig, clock: fn() -> Duration) -> Option<(Arc<QuicServer>, QuicSession)> {
        if !config.speaks(QuicParameters::VERSION) {
            return None;
        }
        let mut shared = config.shared.clone();
        if shared.max_early_data_size != 0 {
            // The limit of early data is QUIC's own (RFC 9001 section 4.6.1).
            let mut early = rustls::ServerConfig::clone(&shared);
            early.max_early_data_size = u32::MAX;
            shared = Arc::new(early);
        }
        let initial = quic_without_session()?;
        let session = QuicSession::default();
        let start = SessionStart::Settings(shared);
        Some((Arc::new(QuicServer { start, initial, session: session.clone(), clock }), session))
    }

    /// The settings for a client that gets no session, but this alert (RFC 9001 section 4.8).
    pub fn refusing(alert: u8) -> Option<Arc<QuicServer>> {
        let initial = quic_without_session()?;
        let (start, clock) = (SessionStart::Refusal(alert), || Duration::ZERO);
        Some(Arc::new(QuicServer { start, initial, session: QuicSession::default(), clock }))
    }
}

impl ServerCrypto for QuicServer {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        let connection = match &self.start {
            SessionStart::Settings(config) => ServerConnection::new(config.clone(), Version::V1, bytes)
                .inspect_err(|error| self.session.data().failure = Some(SessionFailure::of(error)))
                .ok(),
            SessionStart::Refusal(_) => None,
        };
        let connection = connection.map(Connection::Server);
        let mut session = LibrarySession::new(connection, Side::Server, self.session.clone(), self.clock);
        if let SessionStart::Refusal(alert) = self.start {
            session.refusal = Some(alert);
        }
        Box::new(session)
    }
}
