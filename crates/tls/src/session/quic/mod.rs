//! Sessions of QUIC (RFC 9001), in the form that the library `quinn-proto` asks for: it moves the bytes of handshakes, and
//! takes the keys of packets. Sessions over TCP have the same settings, callbacks and stores.
//!
//! `server.rs` and `client.rs` begin sessions; what follows is the same on both sides, and is here.

mod client;
mod server;

use super::failure::SessionFailure;
use super::step::{self, CallbackData};
use super::{FailureKind, SessionOrigin, ShownCertificate, TlsVersion, names};
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig as ServerCrypto, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{Connection, KeyChange, Secrets, Suite, Version};
use rustls::{AlertDescription, HandshakeKind};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use client::QuicClient;
pub use server::{QuicServer, quic_without_session};

/// The version of QUIC that is spoken (RFC 9000).
pub const QUIC_VERSION: u32 = 1;

/// The code of a connection error for a broken rule of the protocol (RFC 9000 section 20.1).
const PROTOCOL_VIOLATION: u8 = 0x0a;

/// The length of the tag of a Retry packet (RFC 9001 section 5.8).
const RETRY_TAG: usize = 16;

/// Facts that both sides have agreed on in a handshake over QUIC.
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
    /// The certificate that this server has shown; a client does not know it.
    pub shown: Option<ShownCertificate>,
    /// The certificates that the peer has shown, in DER and its own first. Nothing is verified.
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

/// The suite of the first packets of a connection (RFC 9001 section 5.2).
pub fn initial_suite() -> Option<Suite> {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()
}

/// The keys in the form that the library for QUIC has.
fn keys_of(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}

/// A session, as the library has it.
struct LibrarySession {
    /// `None` if a client is refused, or the settings do not fit QUIC: there is no session.
    connection: Option<Connection>,
    /// The alert for a client that is refused.
    refusal: Option<u8>,
    side: Side,
    next_secrets: Option<Secrets>,
    /// The library knows that the facts of the handshake are there.
    reported: bool,
    session: QuicSession,
    clock: fn() -> Duration,
}

impl LibrarySession {
    /// The session of this side with this state of the library's, if there is one.
    fn new(
        connection: Option<Connection>,
        side: Side,
        session: QuicSession,
        clock: fn() -> Duration,
    ) -> LibrarySession {
        LibrarySession { connection, refusal: None, side, next_secrets: None, reported: false, session, clock }
    }

    /// Runs a step of the session with the data for callbacks at their place.
    fn step<T>(&mut self, work: impl FnOnce(&mut Connection) -> T) -> Option<T> {
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

impl Session for LibrarySession {
    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        debug_assert!(side == self.side, "a side asks for its own keys");
        match initial_suite() {
            Some(suite) => keys_of(suite.keys(id, side.into(), Version::V1)),
            // Nothing of this side begins without it.
            None => unreachable!("the suite of the first packets is there"),
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
                if let Some(alert) = self.refusal {
                    return Err(TransportErrorCode::crypto(alert).into());
                }
                let text = "the settings have no TLS for QUIC";
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
        TransportParameters::read(self.side, &mut &*bytes).map(Some).map_err(TransportError::from)
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
        Some(keys_of(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        // Only clients get Retry packets.
        if self.side.is_server() {
            return false;
        }
        let Some((rest, tag)) = payload.split_last_chunk::<RETRY_TAG>() else { return false };
        quic_without_session()
            .is_some_and(|settings| settings.retry_tag(QUIC_VERSION, id, &[header, rest].concat()) == *tag)
    }

    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        // Nothing here uses exported keys (RFC 8446 section 7.5).
        Err(ExportKeyingMaterialError)
    }
}
