//! A virtual server.

use std::sync::Arc;

use freerun_conf::SettingsSet;
use freerun_runtime::log::ErrorLog;
use freerun_serve::configuration::services::Services;
use freerun_serve::logs::LevelErrorLog;
use freerun_serve::loops::figures::zones::ZoneFigures;
use freerun_serve::tls::server::ServerTls;
use freerun_serve::tls::sessions::TlsServer;

use super::handler::{ContentHandler, Handler, HandlerRun, PHASES, Phase};

/// A virtual server.
pub struct SessionServer {
    /// The server's first name: `$server_name`.
    pub name: Arc<str>,
    /// Its settings.
    pub settings: SettingsSet,
    /// The TLS of the server, if it has a certificate or refuses handshakes.
    pub tls: Option<Arc<ServerTls>>,
    /// The directive that chooses its content handler. A session of a server without one ends with status 500. A server
    /// that refuses all handshakes needs none.
    pub content: Option<ContentHandler>,
    /// The position of its block in the configuration ([`Node::order`](freerun_conf::Node::order)).
    pub order: u32,
    /// The zone that its sessions and handshakes are counted in (`status_zone`).
    pub zone: Option<Arc<ZoneFigures>>,
    /// The handlers that it needs, by phase.
    handlers: [Box<[HandlerRun]>; PHASES],
    /// The error log of this server.
    error_log: LevelErrorLog,
}

impl SessionServer {
    /// A server with this name, whose block is at this position in the configuration. It has these settings, the handlers
    /// that it needs, and the zone that counts its sessions.
    pub fn new(
        (name, order): (Arc<str>, u32),
        settings: SettingsSet,
        tls: Option<Arc<ServerTls>>,
        content: Option<ContentHandler>,
        handlers: impl Iterator<Item = Handler>,
        zone: Option<Arc<ZoneFigures>>,
    ) -> SessionServer {
        let mut by_phase: [Vec<HandlerRun>; PHASES] = Default::default();
        for handler in handlers.filter(|handler| (handler.wanted)(&settings)) {
            by_phase[handler.phase as usize].push(handler.run);
        }
        let handlers = by_phase.map(Vec::into_boxed_slice);
        SessionServer { name, settings, tls, content, order, zone, handlers, error_log: LevelErrorLog::default() }
    }

    /// The handlers of a phase, in the order in which they run.
    pub fn handlers(&self, phase: Phase) -> &[HandlerRun] {
        &self.handlers[phase as usize]
    }

    /// The log for errors of its sessions.
    pub fn error_log<'l>(&'l self, services: &'l Services) -> &'l ErrorLog {
        self.error_log.of(&self.settings, &services.logs, &services.error_log)
    }
}

impl TlsServer for SessionServer {
    fn tls(&self) -> Option<&Arc<ServerTls>> {
        self.tls.as_ref()
    }
}

impl std::fmt::Debug for SessionServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let content = self.content.map_or("no handler", |content| content.directive);
        write!(formatter, "server {} with {content}", self.name)
    }
}
