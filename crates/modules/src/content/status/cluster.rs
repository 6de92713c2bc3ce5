//! The cluster of `zone_sync_engine`, as this machine sees it, in both forms.

use freerun_cluster::{CacheReport, Cluster, ClusterReport, EngineState, LimitReport, NodeReport, ZoneReport};
use freerun_serve::configuration::generation::Generation;

use super::samples::{MetricRow, Text};
use crate::content::described::described;

/// The states of the connection to the engine.
const STATES: [&str; 4] = [
    EngineState::Connecting.name(),
    EngineState::Connected.name(),
    EngineState::ReadOnly.name(),
    EngineState::Away.name(),
];

described! {
    /// The state that `zone_sync_engine` shares with other machines.
    #[schema = "Cluster"]
    pub struct ClusterFigures {
        /// The engine, as the configuration names it.
        pub engine: String,
        /// The server that is the engine at present.
        pub peer: String,
        /// `connecting`, `connected`, `read_only` (the engine refuses to store anything) or `away`.
        #[metric(gauge "freerun_cluster_engine_state" state of STATES, "1 for the state of the connection to the engine.")]
        pub state: &'static str,
        /// The time since which the state is so, in milliseconds since 1970.
        pub since_ms: u64,
        /// The reason why the engine is away.
        pub error: String,
        /// The identifier of this machine's process.
        pub node: String,
        /// The number of machines that live, this one among them; 0 while the engine is away.
        #[metric(gauge "freerun_cluster_nodes")]
        pub nodes: usize,
        /// The time of the last exchange with the engine, in microseconds.
        #[metric(gauge "freerun_cluster_round_trip_seconds" in seconds, "Time of the last exchange with the engine.")]
        pub round_trip_us: u64,
        /// The engine's clock less this machine's, in milliseconds.
        pub clock_offset_ms: i64,
        /// Entries that were written to the engine.
        #[metric(counter "freerun_cluster_messages_total" by "direction" is "out", "Entries exchanged with the engine.")]
        pub messages_out: u64,
        /// Entries that were read from the engine.
        #[metric(counter "freerun_cluster_messages_total" by "direction" is "in")]
        pub messages_in: u64,
        /// Bytes of the entries that were written.
        #[metric(counter "freerun_cluster_bytes_total" by "direction" is "out", "Bytes of entries exchanged with the engine.")]
        pub bytes_out: u64,
        /// Bytes of the entries that were read.
        #[metric(counter "freerun_cluster_bytes_total" by "direction" is "in")]
        pub bytes_in: u64,
        /// The zones of pairs.
        pub zones: Vec<SharedZone>,
        /// The zones of `limit_req`.
        pub limits: Vec<SharedLimitZone>,
        /// The caches whose purges are shared.
        pub caches: Vec<SharedCache>,
    }

    /// A zone of pairs that is shared.
    pub struct SharedZone {
        pub name: String,
        /// The number of pairs.
        #[metric(gauge "freerun_cluster_zone_pairs")]
        pub pairs: usize,
        /// Changes that the engine does not have yet.
        #[metric(gauge "freerun_cluster_zone_pending")]
        pub pending: usize,
        /// The last entry of the zone's log that was applied; null while there is none.
        pub applied: Option<String>,
        /// Pairs of the engine that were left out: for want of room, or because they cannot be read.
        #[metric(gauge "freerun_cluster_zone_left_out")]
        pub left_out: u64,
    }

    /// A zone of `limit_req` that is shared.
    pub struct SharedLimitZone {
        pub name: String,
        /// Keys that wait for the engine.
        #[metric(gauge "freerun_cluster_limit_pending")]
        pub pending: usize,
        /// Whether this machine judges without the engine, as `alone` says.
        #[metric(gauge "freerun_cluster_limit_alone")]
        pub alone: bool,
        /// Times that a key found no place among those that wait.
        #[metric(counter "freerun_cluster_limit_left_out_total")]
        pub left_out: u64,
    }

    /// A cache whose purges are shared.
    pub struct SharedCache {
        pub name: String,
        /// Purges that other machines have not been told yet.
        #[metric(gauge "freerun_cluster_cache_pending")]
        pub pending: usize,
        /// The last entry of the cache's log that was applied; null while there is none.
        pub applied: Option<String>,
        /// Purges of other machines that were applied.
        #[metric(counter "freerun_cluster_cache_purges_total")]
        pub purges: u64,
        /// The number of purges of everything, because purges of other machines were missed.
        #[metric(counter "freerun_cluster_cache_full_purges_total")]
        pub full_purges: u64,
    }

    /// A machine of the cluster.
    #[schema = "ClusterNode"]
    pub struct ClusterNode {
        /// The identifier of its process.
        pub node: String,
        /// The name of its host.
        pub host: String,
        /// The number of its process.
        pub pid: String,
        /// Its version.
        pub version: String,
        /// The number of its configuration.
        pub generation: String,
        /// The time since it was heard of, in milliseconds.
        pub silent_ms: u64,
        /// Whether it is this one.
        pub is_self: bool,
    }
}

impl From<&ClusterReport> for ClusterFigures {
    fn from(report: &ClusterReport) -> ClusterFigures {
        ClusterFigures {
            engine: report.engine.clone(),
            peer: report.peer.clone(),
            state: report.state.name(),
            since_ms: report.since,
            error: report.error.clone(),
            node: report.node.clone(),
            nodes: report.nodes,
            round_trip_us: report.round_trip,
            clock_offset_ms: report.clock_offset,
            messages_out: report.messages_out,
            messages_in: report.messages_in,
            bytes_out: report.bytes_out,
            bytes_in: report.bytes_in,
            zones: report.zones.iter().map(SharedZone::from).collect(),
            limits: report.limits.iter().map(SharedLimitZone::from).collect(),
            caches: report.caches.iter().map(SharedCache::from).collect(),
        }
    }
}

impl From<&ZoneReport> for SharedZone {
    fn from(report: &ZoneReport) -> SharedZone {
        let ZoneReport { name, pairs, pending, applied, left_out } = report.clone();
        SharedZone { name, pairs, pending, applied, left_out }
    }
}

impl From<&LimitReport> for SharedLimitZone {
    fn from(report: &LimitReport) -> SharedLimitZone {
        let LimitReport { name, pending, is_alone, left_out } = report.clone();
        SharedLimitZone { name, pending, alone: is_alone, left_out }
    }
}

impl From<&CacheReport> for SharedCache {
    fn from(report: &CacheReport) -> SharedCache {
        let CacheReport { name, pending, applied, purges, full_purges } = report.clone();
        SharedCache { name, pending, applied, purges, full_purges }
    }
}

impl From<NodeReport> for ClusterNode {
    fn from(report: NodeReport) -> ClusterNode {
        let about = |name: &str| report.fact(name).to_owned();
        ClusterNode {
            host: about("host"),
            pid: about("pid"),
            version: about("version"),
            generation: about("generation"),
            silent_ms: report.silent,
            is_self: report.is_self,
            node: report.node,
        }
    }
}

/// The report of a generation that takes part in a cluster.
pub fn report(generation: &Generation) -> Option<std::sync::Arc<ClusterReport>> {
    generation.parts.get::<freerun_cluster::directives::WantedEngine>()?;
    Some(generation.parts.get::<Cluster>()?.report())
}

/// The figures of a generation that takes part in a cluster.
pub fn collect(generation: &Generation) -> Option<ClusterFigures> {
    report(generation).map(|report| ClusterFigures::from(&*report))
}

/// Writes them for Prometheus.
pub(super) fn text(figures: Option<&ClusterFigures>, out: &mut Text) {
    let Some(figures) = figures else { return };
    out.objects(&[MetricRow { labels: Vec::new(), object: figures }]);
    let zones: Vec<_> = figures.zones.iter().map(|zone| MetricRow::new("zone", &zone.name, zone)).collect();
    out.objects(&zones);
    let limits: Vec<_> = figures.limits.iter().map(|limit| MetricRow::new("zone", &limit.name, limit)).collect();
    out.objects(&limits);
    let caches: Vec<_> = figures.caches.iter().map(|cache| MetricRow::new("cache", &cache.name, cache)).collect();
    out.objects(&caches);
}
