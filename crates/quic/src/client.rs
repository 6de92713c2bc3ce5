//! Connections of this side to a server.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use quinn_proto::crypto::ClientConfig as ClientCrypto;
use quinn_proto::{ClientConfig, ConnectError, Endpoint, EndpointConfig, NoneTokenStore, TransportConfig};

use crate::connection::QuicConnection;

/// The settings that all endpoints share. Their key for stateless resets is of this process alone.
static ENDPOINT: LazyLock<Arc<EndpointConfig>> = LazyLock::new(|| {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![freerun_tls::session::QUIC_VERSION]);
    Arc::new(config)
});

/// Begins a connection to a server, by a socket that this connection has for itself. The first datagrams are ready to be sent.
///
/// # Errors
/// There is nothing to connect to at the address, or the session cannot begin.
pub fn connect(
    crypto: Arc<dyn ClientCrypto>,
    transport: Arc<TransportConfig>,
    now: Instant,
    server: SocketAddr,
) -> Result<Box<QuicConnection>, ConnectError> {
    let mut endpoint = Endpoint::new(ENDPOINT.clone(), None, false, None);
    let mut config = ClientConfig::new(crypto);
    // Tokens are for a server's name in the library; here, the session has the name.
    config.transport_config(transport).token_store(Arc::new(NoneTokenStore));
    let (handle, connection) = endpoint.connect(now, config, server, "")?;
    Ok(Box::new(QuicConnection::new(endpoint, handle, connection)))
}
