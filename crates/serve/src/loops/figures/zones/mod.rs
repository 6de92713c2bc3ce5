//! Zones in which requests and sessions are counted (`status_zone`).

mod figures;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

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
}
