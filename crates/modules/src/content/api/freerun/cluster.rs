//! The cluster: the engine, the machines, and which purges each has applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use freerun_cluster::directives::WantedEngine;
use freerun_cluster::{Cluster, NodeReport};

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFuture};
use super::refusal::{Code, Refusal};
use crate::content::described::described;
use crate::content::status::cluster::{self, ClusterNode};

described! {
    /// The purges of a cache that the machines of the cluster have applied.
    pub struct AppliedPurges {
        /// The last entry of the cache's log that this machine has applied.
        pub applied: Option<String>,
        /// Whether each machine that lives has applied that entry.
        pub everywhere: bool,
        /// For each machine that lives, the last entry that it has applied; empty: none.
        pub nodes: BTreeMap<String, String>,
    }
}

/// The cluster that the configuration takes part in.
fn cluster(asked: &EndpointCall<'_>) -> Result<Arc<Cluster>, Refusal> {
    let parts = &asked.source.generation.parts;
    let cluster = parts.get::<WantedEngine>().and_then(|_| parts.get::<Cluster>());
    cluster.ok_or_else(|| Code::NoCluster.into())
}

/// The state of the cluster.
pub(super) fn show(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let figures = cluster::collect(&asked.source.generation).ok_or(Refusal::from(Code::NoCluster))?;
        EndpointAnswer::value(&figures)
    })
}

/// The machines.
pub(super) fn nodes(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let nodes = cluster(&asked)?.nodes().await.ok_or(Refusal::from(Code::ClusterAway))?;
        EndpointAnswer::value(&nodes.into_iter().map(ClusterNode::from).collect::<Vec<_>>())
    })
}

/// The purges of a cache that each machine has applied.
pub(super) fn purges(asked: EndpointCall<'_>) -> EndpointFuture<'_> {
    Box::pin(async move {
        let cluster = cluster(&asked)?;
        let report = cluster.report();
        let cache =
            report.caches.iter().find(|cache| cache.name == asked.name()).ok_or(Refusal::from(Code::CacheNotFound))?;
        let living = cluster.nodes().await.ok_or(Refusal::from(Code::ClusterAway))?;
        let applied = |node: &NodeReport| (node.node.clone(), node.applied_purges(asked.name()).to_owned());
        let nodes: BTreeMap<String, String> = living.iter().map(applied).collect();
        let own = cache.applied.as_deref().map(place);
        let everywhere = nodes.values().all(|applied| own.is_none_or(|own| place(applied) >= own));
        EndpointAnswer::value(&AppliedPurges { applied: cache.applied.clone(), everywhere, nodes })
    })
}

/// An identifier of an entry as numbers, which can be compared.
fn place(id: &str) -> (u64, u64) {
    let (milliseconds, number) = id.split_once('-').unwrap_or_default();
    (milliseconds.parse().unwrap_or_default(), number.parse().unwrap_or_default())
}
