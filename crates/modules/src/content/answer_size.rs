//! Sizes of answers about the state of the worker, and the limit for answers that a loop makes itself.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::limits::LimitZones;
use freerun_serve::loops::figures::zones::StatusZones;
use freerun_serve::upstream::GroupsByProtocol;

/// The most objects (zones, servers and so on) in an answer that is made on the loop. Each is about a kilobyte of text,
/// and takes some microseconds. Up to this limit an answer takes no longer than an ordinary request, while thousands of
/// objects would hold up all other requests. A pool makes longer answers.
pub const FEW: usize = 64;

/// The number of zones, limits, groups and their servers. A configuration may have thousands of them.
pub fn zones_and_servers(generation: &Generation) -> usize {
    let zones = generation.parts.get::<StatusZones>().unwrap_or_default();
    let limits = generation.parts.get::<LimitZones>().unwrap_or_default();
    zones.servers.len()
        + zones.locations.len()
        + zones.stream_servers.len()
        + zones.own_servers.len()
        + zones.own_stream_servers.len()
        + limits.requests.len()
        + limits.connections.len()
        + limits.sessions.len()
        + generation.parts.get::<GroupsByProtocol>().map_or(0, |groups| groups.count())
}
