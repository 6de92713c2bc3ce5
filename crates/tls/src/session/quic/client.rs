//! Sessions of clients over QUIC.

use super::{LibrarySession, QuicSession, initial_suite};
use crate::session::client::ClientConfig;
use crate::session::failure::SessionFailure;
use crate::session::resume::PeerSessions;
use crate::session::step::{self, CallbackData};
use crate::session::{FailureKind, no_name};
use quinn_proto::crypto::{ClientConfig as ClientCrypto, Session};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, Side};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, Version};
use std::sync::Arc;
use std::time::Duration;

/// The settings of one session of a client, as the library takes them.
pub struct QuicClient {
    settings: Arc<rustls::ClientConfig>,
    name: ServerName<'static>,
    session: QuicSession,
    /// The time since 1970.
    clock: fn() -> Duration,
}

impl QuicClient {
    /// The settings for one session with a server, see [`TlsSession::client`](crate::session::TlsSession::client). A name that
    /// is none of DNS cannot be sent over QUIC.
    ///
    /// # Errors
    /// The name cannot be sent.
    pub fn new(
        config: &ClientConfig,
        name: Option<&str>,
        peer: Option<PeerSessions>,
        clock: fn() -> Duration,
    ) -> Result<(Arc<QuicClient>, QuicSession), SessionFailure> {
        if initial_suite().is_none() {
            return Err(SessionFailure::new(FailureKind::Internal, "there is no suite for the first packets"));
        }
        let name = match name.map(|name| ServerName::try_from(name.to_owned())) {
            None => no_name(),
            Some(Ok(name)) => name,
            Some(Err(_)) => {
                return Err(SessionFailure::new(FailureKind::ServerName, "the server's name cannot be sent"));
            }
        };
        let session = QuicSession::default();
        session.data().callbacks = CallbackData { peer, ..CallbackData::default() };
        let (settings, own) = (config.shared.clone(), session.clone());
        Ok((Arc::new(QuicClient { settings, name, session: own, clock }), session))
    }
}

impl ClientCrypto for QuicClient {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        let mut data = self.session.data();
        let callbacks = std::mem::take(&mut data.callbacks);
        let connect = || ClientConnection::new(self.settings.clone(), Version::V1, self.name.clone(), bytes);
        let (connection, callbacks) = step::run((self.clock)(), callbacks, connect);
        data.callbacks = callbacks;
        let connection = connection.map_err(|error| {
            data.failure = Some(SessionFailure::of(&error));
            ConnectError::InvalidServerName(error.to_string())
        })?;
        drop(data);
        let connection = Some(Connection::Client(connection));
        Ok(Box::new(LibrarySession::new(connection, Side::Client, self.session.clone(), self.clock)))
    }
}
