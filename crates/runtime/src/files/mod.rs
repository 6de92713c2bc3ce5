//! File operations that never make the loop wait: every operation is probed first, done at once if it cannot wait, and
//! handed to a thread pool if it might.
//!
//! | operation | the probe |
//! |---|---|
//! | open, stat | `openat2(2)` with `RESOLVE_CACHED`; on mounts where `open` itself may ask a server or a process, always the pool |
//! | read | `preadv2(2)` with `RWF_NOWAIT` |
//! | sendfile | the ladder of [`Rung`](crate::mounts::Rung)s (`probe.rs`); a copy where the probes are not enough |
//! | connect to a Unix socket | as for `stat`; the descriptor keeps the names in the cache until `connect(2)` has walked them |
//! | any other | none: always the pool |

mod atime;
pub mod change;
mod copy;
mod direct;
#[cfg(feature = "faults")]
pub mod faults;
mod features;
mod kernel;
mod links;
mod list;
mod open;
mod probe;
mod read;
mod readahead;
mod send;
mod socket;
mod temp;
#[cfg(test)]
mod tests;
mod trust;
mod types;
mod unnamed_file;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::mounts::{Mount, MountStatus, Mounts, STALL};
use crate::pool::{PoolError, Tag, ThreadPool};
use kernel::{Kernel, Linux};
use trust::Trust;

pub use copy::COPIED_MAX;
pub use direct::DirectFile;
pub use features::{KernelFeature, MissingFeature};
pub use links::{AnchoredName, LinkCheck, LinkRule};
pub use list::{Arrange, Change, DirectoryEntry, Encoding, Entries, ListError, Listing, MAX_ENTRIES, MAX_LISTINGS};
pub use probe::Cursor;
pub use send::{INLINE_MAX, POOL_CHUNK, SendResult};
pub use socket::SocketPaths;
pub use temp::{TempFile, nameless_path};
pub use types::{Aio, ClientPresence, FileError, Meta, NamedError, OpenFile, Trouble, Via};
pub use unnamed_file::UnnamedFile;

/// The file operations of the worker: one value for all loops.
pub struct FileSystem {
    kernel: Box<dyn Kernel>,
    mounts: Arc<Mounts>,
    trust: Trust,
    closer: Arc<types::Closer>,
    /// Whether `openat2` with `RESOLVE_CACHED` works here; false for good after it has failed.
    cached_lookup: AtomicBool,
    missing: Vec<MissingFeature>,
    started: Instant,
}

impl std::fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSystem").finish_non_exhaustive()
    }
}

impl FileSystem {
    /// Reads the mount table and finds out which calls this kernel supports. `pool` closes files whose closing may
    /// wait.
    ///
    /// # Errors
    /// The thread that watches the mount table cannot be made.
    pub fn new(pool: Arc<ThreadPool>) -> io::Result<Arc<FileSystem>> {
        Ok(FileSystem::with(Box::new(Linux), Mounts::watch()?, pool))
    }

    fn with(kernel: Box<dyn Kernel>, mounts: Arc<Mounts>, pool: Arc<ThreadPool>) -> Arc<FileSystem> {
        let looked = KernelFeature::ALL.into_iter().filter_map(|feature| feature.look(&*kernel).err());
        let missing: Vec<MissingFeature> = looked.collect();
        let cached_lookup = missing.iter().all(|missing| missing.feature != KernelFeature::CachedLookup);
        Arc::new(FileSystem {
            kernel,
            mounts,
            trust: Trust::default(),
            closer: Arc::new(types::Closer::new(pool)),
            cached_lookup: AtomicBool::new(cached_lookup),
            missing,
            started: Instant::now(),
        })
    }

    /// The time on this object's clock.
    fn now(&self) -> Duration {
        self.kernel.age(self.started)
    }

    /// The time on this object's clock, in milliseconds.
    fn now_ms(&self) -> u64 {
        to_ms(self.now())
    }

    /// Notes the values that `timed` needs, at the beginning of an operation that should not wait. On a mount under
    /// suspicion these include how often this thread has waited: a thread that was preempted is slow, too.
    fn begin(&self, mount: Option<&Mount>) -> Began {
        let at = self.now();
        let suspect = mount.is_some_and(|mount| mount.is_suspect(to_ms(at)));
        Began { at, waits: suspect.then(|| self.kernel.waits()) }
    }

    /// Judges an inline operation by the time it took. True if it has waited in spite of the probe.
    fn timed(&self, mount: &Mount, began: Began) -> bool {
        let now = self.now();
        let elapsed = now.saturating_sub(began.at);
        elapsed > STALL && mount.stalled(to_ms(now), began.waits.map(|before| self.kernel.waits() > before))
    }

    /// Whether paths can be looked up without waiting (`RESOLVE_CACHED`, Linux 5.12); if not, every open goes to the pool.
    pub fn has_cached_lookup(&self) -> bool {
        self.cached_lookup.load(Relaxed)
    }

    /// The features of the kernel that were missing when this value was made.
    pub fn missing_features(&self) -> &[MissingFeature] {
        &self.missing
    }

    /// Figures of the mounts that were used.
    pub fn mounts(&self) -> Vec<MountStatus> {
        let now = self.now_ms();
        self.mounts.table().mounts().filter(|mount| mount.is_used()).map(|mount| mount.status(now)).collect()
    }

    /// The mount table.
    pub fn mount_table(&self) -> &Arc<Mounts> {
        &self.mounts
    }

    /// Runs an operation that may wait: in the pool, or at once with [`Aio::Off`].
    ///
    /// # Errors
    /// [`FileError::Pool`] if it did not run.
    pub async fn offload<T, F>(&self, via: Via<'_>, tag: Tag, f: F) -> Result<T, FileError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let Some(pool) = via.aio.pool() else { return Ok(f()) };
        let outcome: Result<T, PoolError> = match via.gone {
            Some(gone) => pool.run_unless(tag, Some(gone.gone()), f).await,
            None => pool.run(tag, f).await,
        };
        Ok(outcome?)
    }
}

/// See [`FileSystem::begin`].
#[derive(Clone, Copy)]
struct Began {
    at: Duration,
    waits: Option<u64>,
}

/// Milliseconds, never 0, which stands for "never".
fn to_ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX).max(1)
}
