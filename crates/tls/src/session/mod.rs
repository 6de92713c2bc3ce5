//! A TLS session: bytes of the peer go in, bytes for the peer and plaintext come out.
//!
//! All buffers are the caller's. Each step is given what has been received and not yet consumed, and goes on until something
//! has to happen outside. rustls does the work (its interface without buffers), and nothing outside this folder sees it.
//!
//! | file | has |
//! |---|---|
//! | `server.rs`, `client.rs` | settings of both sides |
//! | `certificates.rs` | which of its certificates a server shows |
//! | `algorithms.rs`, `p521.rs` | the suites and groups that settings name |
//! | `offer.rs` | what a server refuses of a ClientHello at once |
//! | `concealment.rs` | names of servers that rustls does not take for names |
//! | `machine.rs` | the steps of a session, the same on both sides |
//! | `quic/` | sessions of QUIC, whose bytes and keys the library for QUIC asks for |
//! | `step.rs` | what rustls's callbacks know of the session whose step runs |
//! | `signatures.rs` | signatures under the handshake: the peer's, and how keys sign |
//! | `resume/` | what is kept of sessions for later ones; `resumption.rs` has how rustls asks for it on the server's side |

mod algorithms;
mod certificates;
mod client;
mod compression;
mod concealment;
mod connection;
mod early_limits;
mod event;
mod failure;
mod key_log;
mod machine;
mod names;
mod offer;
mod p521;
mod quic;
mod records;
mod resume;
mod resumption;
mod server;
mod signatures;
mod step;

pub use algorithms::SettingsError;
pub use client::{ClientConfig, ClientSettings};
pub use event::{EncryptedCounts, Event, SessionOrigin, SessionParameters, ShownCertificate, StepProgress};
pub use failure::{FailureKind, SessionFailure};
pub use key_log::KeyLog;
pub use names::TlsVersion;
pub use quic::{
    QUIC_VERSION, QuicClient, QuicParameters, QuicServer, QuicSession, initial_suite, quic_without_session,
};
pub use records::{asks_again, has_whole_record};
pub use resume::{
    ClientSessions, OwnKeyBytes, PeerSessions, SessionCache, SessionSettings, SessionStore, StoreCounts, TicketCounts,
    TicketFigures, TicketKeyError, TicketKeys, new_key,
};
pub use server::{ClientCertificates, ServerConfig, ServerSettings};
pub use signatures::Schemes;

use bytes::BufMut;
use concealment::ConcealedName;
use freerun_proto::tls::ClientHello;
use machine::{Machine, Sink};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{IpAddr, Ipv4Addr, ServerName};
use rustls::server::UnbufferedServerConnection;
use std::sync::Arc;
use std::time::Duration;
use step::CallbackData;

/// The most received bytes that may wait for a handshake message to become complete. A caller with room for this number
/// never has to refuse more.
pub const MAX_INPUT: usize = 80 << 10;

/// The least size of a buffer for encrypted bytes.
pub const MIN_OUTPUT: usize = 256;

/// A session with one peer.
///
/// A session that waits holds no buffers. The caller keeps what was received of an incomplete record, and plaintext
/// that had no room is kept only until it is asked for. Only the pieces of a message that has begun behind the
/// handshake (a long ticket) are kept until it is complete. rustls keeps the certificates of the peer as long as there
/// is the session.
pub struct TlsSession(SessionSide);

enum SessionSide {
    Server(Machine<UnbufferedServerConnection>),
    Client(Machine<UnbufferedClientConnection>),
}

impl TlsSession {
    /// A session with a client that has connected. What it sends goes to the library as it is, which refuses clients for the
    /// names that they ask for if these could be none of DNS.
    pub fn new(config: &ServerConfig) -> Result<Self, SessionFailure> {
        Self::server(config, CallbackData::default())
    }

    /// A session with a client whose whole ClientHello was received: it is at the front of the bytes that the first step gets.
    /// The client may ask for any name.
    ///
    /// # Errors
    /// The client is to be refused, by the alert of the failure.
    pub fn answer(config: &ServerConfig, hello: &ClientHello, message: &[u8]) -> Result<Self, SessionFailure> {
        offer::check(config, hello, message)?;
        let concealed = hello.server_name.and_then(|_| ConcealedName::of_client(message));
        let (at, concealed) = concealed.map_or((None, None), |(at, name)| (Some(at), Some(Arc::new(name))));
        let mut session = Self::server(config, CallbackData { concealed, ..CallbackData::default() })?;
        if let (SessionSide::Server(machine), Some(at)) = (&mut session.0, at) {
            machine.conceal_first(at);
        }
        Ok(session)
    }

    fn server(config: &ServerConfig, kept: CallbackData) -> Result<Self, SessionFailure> {
        let connection =
            UnbufferedServerConnection::new(config.shared.clone()).map_err(|error| SessionFailure::of(&error))?;
        Ok(Self(SessionSide::Server(Machine::new(connection, config.fragment, kept))))
    }

    /// A session with a server, whose first step has something to send. The session sends `name` to the server unless
    /// it is an IP address; a name that is empty or too long is a failure. `now` is the time since 1970. Sessions with
    /// the same `peer` are resumed if they can be. No chain of certificates is verified, only that the server has the
    /// key of the certificate that it shows.
    pub fn client(
        config: &ClientConfig,
        now: Duration,
        name: Option<&str>,
        peer: Option<PeerSessions>,
    ) -> Result<Self, SessionFailure> {
        let (name, concealed) = match name.map(|name| (name, ServerName::try_from(name.to_owned()))) {
            None => (no_name(), None),
            Some((_, Ok(name))) => (name, None),
            Some((name, Err(_))) => ConcealedName::of_server(name)
                .map(|(placeholder, name)| (placeholder, Some(Arc::new(name))))
                .ok_or_else(|| SessionFailure::new(FailureKind::ServerName, "the server's name cannot be sent"))?,
        };
        let kept = CallbackData { peer, concealed, ..CallbackData::default() };
        let connect = || UnbufferedClientConnection::new(config.shared.clone(), name);
        let (connection, kept) = step::run(now, kept, connect);
        let connection = connection.map_err(|error| SessionFailure::of(&error))?;
        Ok(Self(SessionSide::Client(Machine::new(connection, config.fragment, kept))))
    }

    /// Goes on until something has to happen outside. `received` are the bytes of the peer that are not consumed yet;
    /// the step changes them. The bytes to be sent are appended to `output`. Plaintext of one record is appended to
    /// `plaintext`: at most `most` bytes, and no more than it has room for. `now` is the time since 1970, for judging
    /// earlier sessions.
    pub fn step<P: BufMut>(
        &mut self,
        now: Duration,
        received: &mut [u8],
        output: &mut Vec<u8>,
        plaintext: &mut P,
        most: usize,
    ) -> StepProgress {
        let mut plaintext = Sink { buffer: plaintext, most };
        match &mut self.0 {
            SessionSide::Server(machine) => machine.step(now, received, output, &mut plaintext),
            SessionSide::Client(machine) => machine.step(now, received, output, &mut plaintext),
        }
    }

    /// The parameters that were agreed on, once the handshake is complete.
    pub fn agreed(&self) -> Option<SessionParameters<'_>> {
        match &self.0 {
            SessionSide::Server(machine) => machine.agreed(),
            SessionSide::Client(machine) => machine.agreed(),
        }
    }

    /// The beginning of the session, once the handshake is complete. A client does not know it.
    pub fn origin(&self) -> Option<SessionOrigin> {
        match &self.0 {
            SessionSide::Server(machine) => machine.origin(),
            SessionSide::Client(_) => None,
        }
    }

    /// The certificate that a server has shown, once the handshake is complete. In a session that is resumed it shows none.
    pub fn shown(&self) -> Option<ShownCertificate> {
        match &self.0 {
            SessionSide::Server(machine) => machine.shown(),
            SessionSide::Client(_) => None,
        }
    }

    /// The certificates that the peer has shown, in DER and its own first, once the handshake is complete. A resumed
    /// session has the certificates of the session that it goes on with. Only the own one is known to belong to the
    /// peer; nothing is verified.
    pub fn peer_certificates(&self) -> impl Iterator<Item = &[u8]> {
        let (server, client) = match &self.0 {
            SessionSide::Server(machine) => (Some(machine.peer_certificates()), None),
            SessionSide::Client(machine) => (None, Some(machine.peer_certificates())),
        };
        server.into_iter().flatten().chain(client.into_iter().flatten())
    }

    /// Encrypts as much of the plaintext as has room in `output`, which has [`MIN_OUTPUT`] bytes or more.
    pub fn encrypt(&mut self, plaintext: &[u8], output: &mut [u8]) -> Result<EncryptedCounts, SessionFailure> {
        match &mut self.0 {
            SessionSide::Server(machine) => machine.encrypt(plaintext, output),
            SessionSide::Client(machine) => machine.encrypt(plaintext, output),
        }
    }

    /// Appends `close_notify` to the output, once. Nothing can be encrypted after that, and steps put nothing into their output;
    /// what the peer still sends is read as before (RFC 8446 section 6.1). Before the handshake is complete there is nothing to
    /// close in this way.
    pub fn close(&mut self, output: &mut Vec<u8>) {
        match &mut self.0 {
            SessionSide::Server(machine) => machine.close(output),
            SessionSide::Client(machine) => machine.close(output),
        }
    }

    /// Tells whether the certificate of the client was found good, if it was asked for one. If it was not, the store of sessions
    /// forgets this one, so that it is not resumed; tickets cannot be taken back.
    pub fn settle(&mut self, is_good: bool) {
        match &mut self.0 {
            SessionSide::Server(machine) => machine.settle(is_good),
            SessionSide::Client(machine) => machine.settle(is_good),
        }
    }

    /// Whether a step may come to something without further bytes of the peer: the session itself keeps plaintext, or the
    /// peer's end has come and was not told yet.
    pub fn has_more(&self) -> bool {
        match &self.0 {
            SessionSide::Server(machine) => machine.has_more(),
            SessionSide::Client(machine) => machine.has_more(),
        }
    }

    #[cfg(test)]
    fn kept_bytes(&self) -> usize {
        match &self.0 {
            SessionSide::Server(machine) => machine.kept_bytes(),
            SessionSide::Client(machine) => machine.kept_bytes(),
        }
    }
}

/// The name of a server that gets none. It never receives an address, so any will do.
fn no_name() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0; 4])))
}

impl std::fmt::Debug for TlsSession {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (side, stage) = match &self.0 {
            SessionSide::Server(machine) => ("Server", machine.stage()),
            SessionSide::Client(machine) => ("Client", machine.stage()),
        };
        to.debug_struct(side).field("stage", &stage).field("agreed", &self.agreed()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
