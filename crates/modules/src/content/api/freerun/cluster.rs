//! The cluster: the engine, the machines, and which purges each has applied.

use std::collections::BTreeMap;
use std::sync::Arc;

use freerun_cluster::directives::WantedEngine;
use freerun_cluster::{Cluster, EntryId, NodeReport};

use super::endpoint_call::{EndpointAnswer, EndpointCall, EndpointFuture};
use super::refusal::{Code, Refusal};
use crate::content::described::described;
use crate::content::status::cluster::{self, ClusterNode};

described! {
    /// The purges of a cache that the machines of the cluster have applied.
    pub struct AppliedPurges {
        /// The newest entry of the log of the cache's purges.
        pub newest: String,
        /// Whether each machine that lives has applied that entry.
        pub everywhere: bool,
        /// For each machine that lives and has such a cache, the last entry that it has applied.
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
        if !cluster.report().caches.iter().any(|cache| cache.name == asked.name()) {
            return Err(Code::CacheNotFound.into());
        }
        let newest = cluster.newest_purge(asked.name()).await;
        let (newest, living) = newest.ok_or(Refusal::from(Code::ClusterAway))?;
        // A machine without such a cache has nothing to purge.
        let applied = |node: &NodeReport| Some((node.node.clone(), node.applied_purges(asked.name())?));
        let nodes: BTreeMap<String, EntryId> = living.iter().filter_map(applied).collect();
        let everywhere = nodes.values().all(|applied| *applied >= newest);
        let nodes = nodes.into_iter().map(|(node, applied)| (node, applied.to_string())).collect();
        EndpointAnswer::value(&AppliedPurges { newest: newest.to_string(), everywhere, nodes })
    })
}
