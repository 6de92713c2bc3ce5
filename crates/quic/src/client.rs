//! Connections of this side to a server.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use bytes::Bytes;
use freerun_tls::session::PeerSessions;
use quinn_proto::crypto::ClientConfig as ClientCrypto;
use quinn_proto::{ClientConfig, ConnectError, Endpoint, EndpointConfig, TokenStore, TransportConfig};

use crate::connection::QuicConnection;

/// The settings that all endpoints share. Their key for stateless resets is of this process alone.
static ENDPOINT: LazyLock<Arc<EndpointConfig>> = LazyLock::new(|| {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![freerun_tls::session::QUIC_VERSION]);
    Arc::new(config)
});

/// The address tokens of one server, whatever its name is: they are kept with its sessions, if these are kept.
struct ServerTokens(Option<PeerSessions>);

impl TokenStore for ServerTokens {
    fn insert(&self, _: &str, token: Bytes) {
        if let Some(sessions) = &self.0 {
            sessions.add_address_token(&token);
        }
    }

    fn take(&self, _: &str) -> Option<Bytes> {
        Some(self.0.as_ref()?.take_address_token()?.into())
    }
}

/// Begins a connection to a server, by a socket that this connection has for itself. The first datagrams are ready to be sent.
/// `sessions` are those with this server, which may have a token from an earlier connection.
///
/// # Errors
/// There is nothing to connect to at the address, or the session cannot begin.
pub fn connect(
    crypto: Arc<dyn ClientCrypto>,
    transport: Arc<TransportConfig>,
    sessions: Option<PeerSessions>,
    now: Instant,
    server: SocketAddr,
) -> Result<Box<QuicConnection>, ConnectError> {
    let mut endpoint = Endpoint::new(ENDPOINT.clone(), None, false, None);
    let mut config = ClientConfig::new(crypto);
    config.transport_config(transport).token_store(Arc::new(ServerTokens(sessions)));
    let (handle, connection) = endpoint.connect(now, config, server, "")?;
    Ok(Box::new(QuicConnection::new(endpoint, handle, connection)))
}
