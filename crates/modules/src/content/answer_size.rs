//! How long answers are that show the state of the worker, and which of them a loop may make.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::limits::LimitZones;
use freerun_serve::loops::figures::zones::StatusZones;
use freerun_serve::upstream::GroupsByProtocol;

/// How many zones, servers and so on an answer may have that is made on the loop. Each is about a kilobyte of text, and takes
/// some microseconds: so many take no longer than an ordinary request, while thousands would hold up all the others. A longer
/// answer is made by the pool for such work.
pub const FEW: usize = 64;

/// The number of zones, limits, groups and their servers, of which a configuration may have thousands.
pub fn zones_and_servers(generation: &Generation) -> usize {
    let zones = generation.parts.get::<StatusZones>().unwrap_or_default();
    let limits = generation.parts.get::<LimitZones>().unwrap_or_default();
    zones.servers.len()
        + zones.locations.len()
        + zones.stream_servers.len()
        + limits.requests.len()
        + limits.connections.len()
        + limits.sessions.len()
        + generation.parts.get::<GroupsByProtocol>().map_or(0, |groups| groups.count())
}
