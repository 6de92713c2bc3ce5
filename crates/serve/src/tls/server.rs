//! What a virtual server has of TLS.

use freerun_tls::session::ServerConfig;

/// What a virtual server has of TLS.
#[derive(Debug)]
pub struct ServerTls {
    /// Whether every handshake is refused (`ssl_reject_handshake`).
    pub rejects: bool,
    config: Option<ServerConfig>,
}

impl ServerTls {
    /// The settings of its sessions, if it has a certificate.
    pub fn config(&self) -> Option<&ServerConfig> {
        self.config.as_ref()
    }
}
