//! The side of an [`Upstream`](crate::TestUpstream) that speaks TLS.

use super::client::TlsVersion;
use super::verifier::TrustingVerifier;
use super::{chain_of, key_of, provider_with};
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use std::sync::Arc;

/// The TLS options of an upstream.
#[derive(Clone, Debug)]
pub struct TlsServer {
    pub(crate) config: Arc<ServerConfig>,
}

impl TlsServer {
    /// A server with the certificate of this name (see [`certificates`](crate::certificates())), which takes sessions up
    /// again.
    ///
    /// # Panics
    /// There is no such certificate.
    pub fn new(name: &str) -> TlsServer {
        TlsServer::with(name, &TlsVersion::ALL, false)
    }

    /// As [`new`](Self::new), with these versions alone, and asking for a certificate of the client if it `asks`; it takes any.
    ///
    /// # Panics
    /// There is no such certificate.
    pub fn with(name: &str, versions: &[TlsVersion], asks: bool) -> TlsServer {
        let versions: Vec<_> = versions
            .iter()
            .map(|version| match version {
                TlsVersion::V12 => &rustls::version::TLS12,
                TlsVersion::V13 => &rustls::version::TLS13,
            })
            .collect();
        let provider = provider_with(&[]);
        let config = ServerConfig::builder_with_provider(provider.clone());
        let config = config.with_protocol_versions(&versions).expect("versions that have suites");
        let config = if asks {
            config.with_client_cert_verifier(Arc::new(TrustingVerifier::new(provider)))
        } else {
            config.with_client_cert_verifier(WebPkiClientVerifier::no_client_auth())
        };
        let mut config = config.with_single_cert(chain_of(name), key_of(name)).expect("a usable certificate");
        config.session_storage = ServerSessionMemoryCache::new(64);
        TlsServer { config: Arc::new(config) }
    }

    /// A server that has these protocols (ALPN, RFC 7301).
    #[must_use]
    pub fn alpn(self, names: &[&str]) -> TlsServer {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsServer { config: Arc::new(config) }
    }

    /// A server that takes no session up again.
    #[must_use]
    pub fn forgetful(self) -> TlsServer {
        let mut config = ServerConfig::clone(&self.config);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        TlsServer { config: Arc::new(config) }
    }
}
