//! What all loops of the worker share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use arc_swap::ArcSwap;
use freerun_runtime::loops::{LoopStats, Remote};
use freerun_runtime::stats::Counter;

use crate::background::Backgrounds;
use crate::generation::Generation;

/// What all loops share.
pub struct Shared {
    /// How many connections each loop may have.
    pub connections: usize,
    /// Loops take turns to accept.
    pub accept_mutex: bool,
    /// Several connections are accepted at a time.
    pub multi_accept: bool,
    /// The generation that new requests begin with.
    pub generation: ArcSwap<Generation>,
    /// Figures of the loops, in order.
    pub loops: Vec<Arc<LoopStats>>,
    /// When the worker started.
    pub started: Instant,
    /// Generations installed since then.
    pub reloads: Counter,
    /// Work that no client waits for.
    pub background: Arc<Backgrounds>,
    pub(crate) remotes: Vec<Remote>,
    pub(crate) last_connection: AtomicU64,
}

impl Shared {
    /// A serial number for a connection, `$connection`: from 1, for all loops.
    pub fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Relaxed) + 1
    }
}
