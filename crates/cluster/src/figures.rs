//! Figures of a cluster, for `status` and the API.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::log_entry::EntryId;

/// The word that lines of the error log about the cluster begin with.
pub const LOG_WORD: &str = "cluster:";

/// The state of the connection to the engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineState {
    /// The first connection is being made.
    #[default]
    Connecting,
    /// The engine is there.
    Connected,
    /// The engine is there and refuses to store anything, mostly for want of memory.
    ReadOnly,
    /// The engine is away, or refuses this node.
    Away,
}

impl EngineState {
    /// The word for it in `status` and the API.
    pub const fn name(self) -> &'static str {
        match self {
            EngineState::Connecting => "connecting",
            EngineState::Connected => "connected",
            EngineState::ReadOnly => "read_only",
            EngineState::Away => "away",
        }
    }
}

/// A zone of pairs that is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZoneReport {
    /// The name of the zone.
    pub name: String,
    /// The number of its pairs.
    pub pairs: usize,
    /// The number of changes that the engine does not have yet.
    pub pending: usize,
    /// The last entry of the zone's log that this node has applied, if the zone follows it.
    pub applied: Option<String>,
    /// The number of pairs of the engine that this node could not take: for want of room, or of another type.
    pub left_out: u64,
}

/// A zone of `limit_req` that is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitReport {
    /// The name of the zone.
    pub name: String,
    /// The number of keys that wait for the engine.
    pub pending: usize,
    /// Whether this node judges without the engine.
    pub is_alone: bool,
    /// The number of times that a key found no place among those that wait.
    pub left_out: u64,
}

/// A cache whose purges are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// The name of the cache.
    pub name: String,
    /// The number of purges that other nodes have not been told.
    pub pending: usize,
    /// The last entry of the cache's log that this node has applied, if the cache follows it.
    pub applied: Option<String>,
    /// The number of purges of other nodes that were applied.
    pub purges: u64,
    /// The number of purges of everything, because purges of other nodes were missed.
    pub full_purges: u64,
}

/// The state of a cluster as this node sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// The identifier of this node.
    pub node: String,
    /// The engine as the configuration has it.
    pub engine: String,
    /// The server that is the engine at present.
    pub peer: String,
    /// The state of the connection.
    pub state: EngineState,
    /// The time since which it is so, in milliseconds since 1970.
    pub since: u64,
    /// The reason, while the engine is away.
    pub error: String,
    /// The number of nodes that live, this one among them; 0 while nobody knows.
    pub nodes: usize,
    /// The time of the last exchange with the engine, in microseconds.
    pub round_trip: u64,
    /// The engine's clock less this node's, in milliseconds.
    pub clock_offset: i64,
    /// The zones of pairs.
    pub zones: Vec<ZoneReport>,
    /// The zones of `limit_req`.
    pub limits: Vec<LimitReport>,
    /// The caches.
    pub caches: Vec<CacheReport>,
    /// The number of entries that this node has written.
    pub messages_out: u64,
    /// The number of entries that this node has read.
    pub messages_in: u64,
    /// The bytes of the entries that this node has written.
    pub bytes_out: u64,
    /// The bytes of the entries that this node has read.
    pub bytes_in: u64,
}

/// A node as it describes itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its identifier.
    pub node: String,
    /// The time since it was heard of, in milliseconds.
    pub silent: u64,
    /// Whether it is this one.
    pub is_self: bool,
    /// The facts that it tells: its host, its version, the number of its configuration, its places in logs.
    pub about: Vec<(String, String)>,
}

impl NodeReport {
    /// The value of a fact; empty: the node does not tell it.
    pub fn fact(&self, name: &str) -> &str {
        self.about.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The last entry of the log of this cache's purges that the node has applied. `None`: it does not share them.
    pub fn applied_purges(&self, cache: &str) -> Option<EntryId> {
        self.fact(&purges_fact(cache)).parse().ok()
    }
}

/// The name of the fact which purges of a cache a node has applied.
pub(crate) fn purges_fact(cache: &str) -> String {
    format!("purges {cache}")
}

/// Counts of the thread.
#[derive(Debug, Default)]
pub(crate) struct ClusterCounts {
    pub(crate) messages_out: AtomicU64,
    pub(crate) messages_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
}

impl ClusterCounts {
    /// Counts an entry that was written.
    pub(crate) fn sent(&self, bytes: usize) {
        self.messages_out.fetch_add(1, Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts an entry that was read.
    pub(crate) fn received(&self, bytes: usize) {
        self.messages_in.fetch_add(1, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }
}
