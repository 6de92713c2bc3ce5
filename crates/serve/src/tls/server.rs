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
    pub fn hack() -> Option<std::sync::Arc<ServerTls>> {
        use freerun_tls::load::*;
        let file = std::env::var("HACK_PEM").ok()?;
        let pem = std::fs::read(file).ok()?;
        let chain = Chain::from_pem(&pem).unwrap();
        let key = Key::from_pem::<&[u8]>(&pem, &[]).unwrap();
        let keys = vec![CertifiedKey::new(&chain, &key).unwrap()];
        let config = freerun_tls::session::ServerSettings { keys, ..Default::default() }.build().unwrap();
        Some(std::sync::Arc::new(ServerTls { rejects: false, config: Some(config) }))
    }

    /// The settings of its sessions, if it has a certificate.
    pub fn config(&self) -> Option<&ServerConfig> {
        self.config.as_ref()
    }
}
