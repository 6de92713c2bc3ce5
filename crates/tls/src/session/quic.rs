//! Sessions of QUIC (RFC 9001), in the form that the library `quinn-proto` asks for: it moves the bytes of handshakes, and
//! takes the keys of packets. Sessions over TCP have the same settings, callbacks and stores.

use super::failure::SessionFailure;
use super::server::ServerConfig;
use super::step::{self, CallbackData};
use super::{FailureKind, SessionOrigin, ShownCertificate, TlsVersion, names};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig as ServerCrypto, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, HandshakeKind};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The version of QUIC that is spoken (RFC 9000).
pub const QUIC_VERSION: u32 = 1;

/// The code of a connection error for a broken rule of the protocol (RFC 9000 section 20.1).
const PROTOCOL_VIOLATION: u8 = 0x0a;

/// Facts that a client and this server have agreed on in a handshake over QUIC.
#[derive(Debug, Clone)]
pub struct QuicParameters {
    /// The cipher suite's name in OpenSSL.
    pub cipher: &'static str,
    /// The group's name in OpenSSL; empty if there was no key exchange.
    pub group: &'static str,
    /// The protocol above QUIC (ALPN).
    pub alpn: Option<Box<[u8]>>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// The id of the session that the client got last, see [`SessionParameters::session_id`](super::SessionParameters).
    pub session_id: Option<Box<[u8]>>,
    /// Whether the handshake is not complete yet: streams bring early data (0-RTT).
    pub early_data: bool,
    /// The beginning of the session.
    pub origin: Option<SessionOrigin>,
    /// The certificate that the server has shown.
    pub shown: Option<ShownCertificate>,
    /// The certificates that the client has shown, in DER and its own first. Nothing is verified.
    pub certificates: Vec<Vec<u8>>,
}

impl QuicParameters {
    /// The version of TLS that QUIC has (RFC 9001 section 4.2).
    pub const VERSION: TlsVersion = TlsVersion::Tls13;
}

/// The data of a session that its owner reads while the library has the session.
#[derive(Default)]
struct SharedData {
    callbacks: CallbackData,
    agreed: Option<QuicParameters>,
    failure: Option<SessionFailure>,
}

/// The owner's view of a session that the library has.
#[derive(Clone, Default)]
pub struct QuicSession(Arc<Mutex<SharedData>>);

impl QuicSession {
    /// The data. Only one thread at a time has the connection, so nobody waits.
    fn data(&self) -> MutexGuard<'_, SharedData> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The facts that were agreed on, once the handshake is complete, or has brought early data.
    pub fn agreed(&self) -> Option<QuicParameters> {
        self.data().agreed.clone()
    }

    /// The reason why there is no session, once the handshake has failed.
    pub fn failure(&self) -> Option<SessionFailure> {
        self.data().failure.clone()
    }

    /// Sets the limits that the client remembers for early data, which are given now, before the handshake begins. An earlier
    /// session with a larger one is not resumed, so its early data is not taken.
    pub fn set_limits(&self, limits: &[u64]) {
        self.data().callbacks.limits = Some(limits.into());
    }

    /// Tells whether the certificate of the client was found good; see [`TlsSession::settle`](super::TlsSession::settle).
    pub fn settle(&self, is_good: bool) {
        self.data().callbacks.resumption.settle(is_good);
    }
}

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

/// The suite of the first packets of a connection (RFC 9001 section 5.2).
pub fn initial_suite() -> Option<Suite> {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()
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
        Box::new(ServerSession {
            connection,
            next_secrets: None,
            reported: false,
            session: self.session.clone(),
            clock: self.clock,
            settings: self,
        })
    }
}

/// A session, as the library has it.
struct ServerSession {
    /// `None` if the client is refused, or the settings do not fit QUIC: there is no session.
    connection: Option<ServerConnection>,
    next_secrets: Option<Secrets>,
    /// The library knows that the facts of the handshake are there.
    reported: bool,
    session: QuicSession,
    settings: Arc<QuicServer>,
    clock: fn() -> Duration,
}

impl ServerSession {
    /// Runs a step of the session with the data for callbacks at their place.
    fn step<T>(&mut self, work: impl FnOnce(&mut ServerConnection) -> T) -> Option<T> {
        let connection = self.connection.as_mut()?;
        let mut data = self.session.data();
        let mut callbacks = std::mem::take(&mut data.callbacks);
        callbacks.resumption.is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let (done, callbacks) = step::run((self.clock)(), callbacks, || work(connection));
        data.callbacks = callbacks;
        Some(done)
    }

    /// Notes the facts that were agreed on, if they are known by now.
    fn note_agreed(&mut self) {
        let Some(connection) = &self.connection else { return };
        let mut data = self.session.data();
        let Some(suite) = connection.negotiated_cipher_suite() else { return };
        let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        let early_data = connection.is_handshaking();
        let shown = data.callbacks.shown;
        let origin = match resumed {
            _ if early_data && !resumed => None,
            false => shown.map(|shown| SessionOrigin::Signed(shown.key)),
            true => data.callbacks.resumption.place().map(|place| match place {
                step::SessionPlace::Ticket => SessionOrigin::Ticket,
                step::SessionPlace::Store => SessionOrigin::Store,
            }),
        };
        data.agreed = Some(QuicParameters {
            cipher: names::suite(suite.suite()),
            group: connection.negotiated_key_exchange_group().map_or("", |group| names::group(group.name())),
            alpn: connection.alpn_protocol().map(Box::from),
            resumed,
            session_id: data.callbacks.resumption.id().map(Box::from),
            early_data,
            origin,
            shown: shown.filter(|_| !resumed),
            certificates: connection.peer_certificates().unwrap_or_default().iter().map(|one| one.to_vec()).collect(),
        });
    }

    /// The error that ends the connection, for a failure of the library.
    fn fail(&self, error: &rustls::Error, alert: Option<AlertDescription>) -> TransportError {
        let alert = alert.map(u8::from);
        self.session.data().failure = Some(SessionFailure { alert, ..SessionFailure::of(error) });
        TransportError {
            code: TransportErrorCode::crypto(alert.unwrap_or(PROTOCOL_VIOLATION)),
            frame: None,
            reason: error.to_string(),
        }
    }
}

impl Session for ServerSession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        debug_assert!(side.is_server(), "a server asks for its own keys");
        // The version was looked at before there was a session.
        match self.settings.initial_keys(QUIC_VERSION, id) {
            Ok(keys) => keys,
            Err(_) => unreachable!("version 1 is known"),
        }
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.reported.then(|| Box::new(self.session.clone()) as Box<dyn Any>)
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.as_ref()?.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let read = self.step(|connection| connection.read_hs(bytes).map_err(|error| (error, connection.alert())));
        match read {
            None => {
                if let SessionStart::Refusal(alert) = self.settings.start {
                    return Err(TransportErrorCode::crypto(alert).into());
                }
                let text = "the server's settings have no TLS for QUIC";
                self.session.data().failure.get_or_insert_with(|| SessionFailure::new(FailureKind::Internal, text));
                let alert = u8::from(AlertDescription::InternalError);
                return Err(TransportErrorCode::crypto(alert).into());
            }
            Some(Err((error, alert))) => return Err(self.fail(&error, alert)),
            Some(Ok(())) => {}
        }
        self.note_agreed();
        let is_known =
            self.connection.as_ref().is_some_and(|connection| connection.negotiated_cipher_suite().is_some());
        Ok(is_known && !std::mem::replace(&mut self.reported, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.connection.as_ref().and_then(|connection| connection.quic_transport_parameters()) else {
            return Ok(None);
        };
        TransportParameters::read(Side::Server, &mut &*bytes).map(Some).map_err(TransportError::from)
    }

    fn write_handshake(&mut self, output: &mut Vec<u8>) -> Option<Keys> {
        let was_handshaking = self.is_handshaking();
        let change = self.step(|connection| connection.write_hs(output))?;
        let keys = match change {
            None => {
                if was_handshaking && !self.is_handshaking() {
                    self.note_agreed();
                }
                return None;
            }
            Some(KeyChange::Handshake { keys }) => keys,
            Some(KeyChange::OneRtt { keys, next }) => {
                self.next_secrets = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
            packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        // Only clients get Retry packets.
        false
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        // Nothing here uses exported keys (RFC 8446 section 7.5).
        Err(ExportKeyingMaterialError)
    }
}
