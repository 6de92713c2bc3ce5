//! The zones and caches that a configuration shares with other machines.

use std::sync::Arc;
use std::time::Duration;

use freerun_cluster::directives::WantedEngine;
use freerun_cluster::settings::{ClusterPlan, PlannedLimit, PurgeTarget};
use freerun_cluster::{Cluster, EngineState, LOG_WORD};
use freerun_proxy::caches::zones::Caches;
use freerun_runtime::log::Level;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::limits::bucket::Bucket;
use freerun_serve::limits::leases::{SharedLimit, SharedLimits};
use freerun_serve::loops::shared::SharedState;
use freerun_serve::tls::values::SharedTickets;
use freerun_serve::values::keyvals::AllKeyvals;

use super::purge_target::CacheTarget;

/// The cluster that a generation takes part in, or that the one before has left to it.
pub(super) fn cluster(generation: &Generation) -> Option<Arc<Cluster>> {
    generation.parts.get::<Cluster>()
}

/// Has the thread follow a configuration, before that takes requests which may change what is shared.
pub(super) fn prepare(generation: &Arc<Generation>, _: &Arc<SharedState>) {
    let Some(cluster) = cluster(generation) else { return };
    let Some(wanted) = generation.parts.get::<WantedEngine>() else { return cluster.stop(Duration::ZERO) };
    let zones = generation.parts.get::<AllKeyvals>();
    let zones = zones.iter().flat_map(|all| all.http.iter().chain(&all.stream));
    let caches = generation.parts.get::<Caches>();
    let caches = caches.iter().flat_map(|caches| caches.iter()).filter(|cache| cache.path.sync);
    let plan = ClusterPlan {
        engine: wanted.0.clone(),
        pairs: zones.filter(|(_, zone)| zone.sync.is_some()).map(|(name, zone)| (name.clone(), zone.clone())).collect(),
        caches: caches
            .map(|cache| {
                let target: Arc<dyn PurgeTarget> = Arc::new(CacheTarget::new(&cache.folder));
                (cache.path.name.as_str().into(), target)
            })
            .collect(),
        limits: limits(generation),
        tickets: generation
            .parts
            .get::<SharedTickets>()
            .map(|all| all.0.clone().into_iter().collect())
            .unwrap_or_default(),
        generation: generation.number,
        log: generation.error_log.clone(),
    };
    if let Err(error) = cluster.update(plan) {
        let line = format_args!("{LOG_WORD} nothing is shared: the thread for it cannot be started ({error})");
        generation.error_log.write(Level::Alert, None, line);
    }
}

/// The zones of `limit_req` that a generation shares, with the largest burst that it has for each.
fn limits(generation: &Generation) -> Vec<(Arc<str>, PlannedLimit)> {
    let Some(shared) = generation.parts.get::<SharedLimits>() else { return Vec::new() };
    let report = cluster(generation).map(|cluster| cluster.report());
    let nodes = report.filter(|report| report.state == EngineState::Connected).map_or(0, |report| report.nodes.max(1));
    let each = |(name, SharedLimit { leases, rate }): (&Arc<str>, &SharedLimit)| {
        let burst = shared.bursts.get(name).copied().unwrap_or_default();
        let bucket = leases.set_bucket(Bucket { rate: *rate, burst });
        // A zone that is new does not begin alone where there is an engine.
        leases.set_nodes(nodes);
        (name.clone(), PlannedLimit { leases: leases.clone(), bucket })
    };
    shared.zones.iter().map(each).collect()
}
