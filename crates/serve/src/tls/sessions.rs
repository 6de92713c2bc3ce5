//! The settings of TLS sessions at a listening address: which of its virtual servers shows its certificate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use freerun_tls::session::ServerConfig;

use super::handshake::Refusal;
use super::server::{AtAddress, ServerTls};
use crate::configuration::parts::Parts;

/// A virtual server, as far as TLS is concerned.
pub trait TlsServer {
    /// TLS of the server, if it has a certificate, refuses handshakes or asks clients for certificates.
    fn tls(&self) -> Option<&Arc<ServerTls>>;
}

/// The settings of TLS sessions at an address, by server. They depend on the address too: its default server says how
/// sessions are resumed.
#[derive(Debug, Default)]
pub struct SessionSettings(HashMap<usize, AtAddress>);

/// Result of the choice of settings for a session.
pub enum SessionChoice<'s, S> {
    /// The settings are known.
    Ready(ServerConfig),
    /// The settings, except for the protocols above TLS, come from this server, whose certificate has a name with
    /// variables.
    Computed(&'s Arc<S>),
}

impl SessionSettings {
    /// The settings for these servers at an address with this default server. A server without a certificate of its own
    /// has the default server's, but the protocols above TLS are its own. `alpn` gives them, the most preferred first.
    pub fn new<S: TlsServer>(
        servers: &[Arc<S>],
        default: &S,
        alpn: impl for<'s> Fn(&'s S) -> Vec<&'s [u8]>,
    ) -> SessionSettings {
        let own = |server: &Arc<S>| {
            let default = default.tls()?;
            let shown = server.tls().filter(|tls| tls.has_certificate()).unwrap_or(default);
            let config = shown.config_at(default, &alpn(server))?;
            Some((Arc::as_ptr(server).addr(), config))
        };
        SessionSettings(servers.iter().filter_map(own).collect())
    }

    /// The settings for a server, if it or the default server has a certificate, as they are at this moment. A server
    /// whose certificate has a name with variables has none here.
    fn of<S>(&self, server: &Arc<S>) -> Option<ServerConfig> {
        self.0.get(&Arc::as_ptr(server).addr()).map(AtAddress::now)
    }

    /// The settings of the session with a client that asks for this server, at an address with this default server.
    ///
    /// # Errors
    /// The handshake is refused.
    pub(crate) fn choose<'s, S: TlsServer>(
        &self,
        asked_for: &'s Arc<S>,
        default: &'s Arc<S>,
    ) -> Result<SessionChoice<'s, S>, Refusal> {
        if asked_for.tls().is_some_and(|tls| tls.rejects) {
            return Err(Refusal::Rejected);
        }
        if let Some(config) = self.of(asked_for) {
            return Ok(SessionChoice::Ready(config));
        }
        // A server without a certificate of its own has the certificate of the address's default server.
        let is_computed = |server: &&Arc<S>| server.tls().is_some_and(|tls| tls.computed().is_some());
        let server = [asked_for, default].into_iter().find(is_computed);
        server.map(SessionChoice::Computed).ok_or(Refusal::NoCertificate)
    }
}

/// TLS of the server whose certificate a client sees that asks for `asked_for`.
pub(crate) fn presenting<'s, S: TlsServer>(asked_for: &'s S, default: &'s S) -> Option<&'s ServerTls> {
    let own = asked_for.tls().filter(|tls| tls.has_certificate());
    own.or(default.tls()).map(|tls| &**tls)
}

/// TLS of the virtual servers of all services, each once: one of the [`Parts`] of a generation, for its figures.
#[derive(Debug, Clone, Default)]
pub struct ServedTls(pub Vec<Arc<ServerTls>>);

impl ServedTls {
    /// Adds the servers of a service.
    pub fn add<'s, S: TlsServer + 's>(parts: &mut Parts, servers: impl Iterator<Item = &'s Arc<S>>) {
        let mut all = parts.get::<ServedTls>().map(|served| (*served).clone()).unwrap_or_default();
        let mut known: HashSet<*const ServerTls> = all.0.iter().map(Arc::as_ptr).collect();
        all.0.extend(servers.filter_map(|server| server.tls()).filter(|tls| known.insert(Arc::as_ptr(tls))).cloned());
        parts.insert(Arc::new(all));
    }
}
