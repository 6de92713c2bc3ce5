//! Counters of the work of the cache's thread, and of removals elsewhere.

use std::sync::atomic::AtomicU64;

/// Counters of what the thread has done.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) evicted: AtomicU64,
    pub(crate) inactive: AtomicU64,
    pub(crate) purged: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) adopted: AtomicU64,
    pub(crate) orphans: AtomicU64,
    pub(crate) loaded: AtomicU64,
    pub(crate) load_ms: AtomicU64,
    pub(crate) failed_removals: AtomicU64,
}
