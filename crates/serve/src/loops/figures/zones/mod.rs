//! Zones in which requests and sessions are counted (`status_zone`).

mod exemplars;
mod figures;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use exemplars::Exemplar;
pub use figures::{CLASSES, SubjectEnd, ZoneFigures, ZoneSnapshot};
pub use settings::{StatusZone, StatusZoneSettings};

/// Zones by their names.
pub type ZonesByName = BTreeMap<Arc<str>, Arc<ZoneFigures>>;

/// The zones of a configuration. It lives in its context, and is a part of its generation then.
#[derive(Debug, Clone, Default)]
pub struct StatusZones {
    /// Zones of virtual servers of http.
    pub servers: ZonesByName,
    /// Zones of locations.
    pub locations: ZonesByName,
    /// Zones of servers of stream.
    pub stream_servers: ZonesByName,
    /// Virtual servers of http without `status_zone`.
    pub own_servers: ZonesByName,
    /// Servers of stream without `status_zone`.
    pub own_stream_servers: ZonesByName,
}

/// The protocol of a server that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A virtual server of http.
    Http,
    /// A server of stream.
    Stream,
}

impl ServerKind {
    /// The block of the main level that has such servers.
    fn service(self) -> &'static str {
        match self {
            ServerKind::Http => "http",
            ServerKind::Stream => "stream",
        }
    }

    /// The beginning of the key of a server's figures.
    fn key(self) -> &'static str {
        match self {
            ServerKind::Http => "server",
            ServerKind::Stream => "stream server",
        }
    }
}

impl StatusZones {
    /// The servers of this kind that have no `status_zone`.
    fn own_zones(&mut self, kind: ServerKind) -> &mut ZonesByName {
        match kind {
            ServerKind::Http => &mut self.own_servers,
            ServerKind::Stream => &mut self.own_stream_servers,
        }
    }
}
