//! The state that the thread shares with the handle, and the orders that the thread takes.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use freerun_cache::purge::Purge;
use freerun_serve::values::keyvals::{PairChange, PairRefusal};
use tokio::sync::{Notify, oneshot};

use crate::figures::{ClusterCounts, ClusterReport, NodeReport};
use crate::log_entry::EntryId;
use crate::settings::ClusterPlan;

/// The longest wait of a change until the engine has it and this node has read it back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The reason why pairs are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairWriteError {
    /// The change is refused, as without a cluster.
    #[error(transparent)]
    Refused(#[from] PairRefusal),
    /// The engine is away, or has not answered in time: then the change may be made nevertheless.
    #[error("the pairs are shared with other nodes, and the engine is away")]
    Away,
}

/// An order for the thread.
pub(crate) enum ClusterOrder {
    /// Changes pairs of a zone.
    Pairs { zone: Arc<str>, change: PairChange, answer: oneshot::Sender<Result<(), PairWriteError>> },
    /// Tells other nodes of purges of a cache.
    Purges { cache: Arc<str>, purges: Vec<Purge>, answer: oneshot::Sender<PurgeDelivery> },
    /// Asks for the nodes that live.
    Nodes { answer: oneshot::Sender<Vec<NodeReport>> },
    /// Asks for the newest entry of the log of a cache's purges, and for the nodes that live.
    NewestPurge { cache: Arc<str>, answer: oneshot::Sender<(EntryId, Vec<NodeReport>)> },
}

/// The outcome of a purge for other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeDelivery {
    /// The engine has the purge: each node reads it.
    Delivered,
    /// The purge is on the disk of this node, and will be delivered when the engine is there again.
    Stored,
    /// Other nodes may not hear of the purge: the engine is away, and it could not be stored in time.
    Failed,
}

/// The state of a cluster, which the thread writes and others read.
#[derive(Default)]
pub(crate) struct ClusterState {
    /// The plan that the thread follows.
    pub(crate) plan: ArcSwapOption<ClusterPlan>,
    /// Rings when the plan is another one.
    pub(crate) bell: Notify,
    /// The state as it was within the last second.
    pub(crate) report: ArcSwap<ClusterReport>,
    /// Counts of what was exchanged.
    pub(crate) counts: ClusterCounts,
}
