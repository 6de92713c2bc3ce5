//! The cache's own thread: it evicts, removes files, keeps the journal, and finds the files that are on the disk.
//!
//! The thread may wait for its disk, and then nothing but this cache waits with it. Loops send it changes through a
//! queue, and store nothing while the thread does not keep up.

mod core;
mod disk;
mod open;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use freerun_conf::text_of_os;
use freerun_runtime::log::Level;

use self::core::{Manager, Moment, Next};
use crate::fill::Fills;
use crate::index::LoadState;
use crate::store::Store;
use open::{Lock, OpenState};

/// Time that a start waits for the index: a small index is loaded in it, and a larger one goes on loading behind the
/// requests. Another process may have the folder for long, while the binary is being changed.
pub(crate) const START_WAIT: Duration = Duration::from_secs(1);

/// Interval of tries for the lock of a folder while another process has it, namely the one before this, which is still
/// ending.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which a folder that cannot be used is tried again.
const FOLDER_PAUSE: Duration = Duration::from_secs(1);

/// The cache's handle on the thread.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    progress: OnceLock<Arc<ManagerProgress>>,
}

/// Progress of the thread, for callers that wait for it.
#[derive(Debug, Default)]
struct ManagerProgress {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Begun,
    /// The index is loaded.
    Loaded,
    /// The thread has ended; the value says whether everything is written down.
    Ended(bool),
}

impl ManagerProgress {
    fn set(&self, stage: Stage) {
        if let Ok(mut own) = self.stage.lock() {
            *own = stage;
        }
        self.changed.notify_all();
    }

    fn wait(&self, limit: Duration, until: impl Fn(Stage) -> bool) -> Stage {
        let Ok(stage) = self.stage.lock() else { return Stage::Ended(false) };
        let waited = self.changed.wait_timeout_while(stage, limit, |stage| !until(*stage));
        waited.map_or(Stage::Ended(false), |(stage, _)| *stage)
    }
}

impl Handle {
    /// Starts the thread, unless it runs. Returns whether it did not run.
    pub(crate) fn start(&self, store: &Arc<Store>, fills: &Arc<Fills>) -> io::Result<bool> {
        if self.progress.get().is_some() {
            return Ok(false);
        }
        let progress = Arc::new(ManagerProgress::default());
        let (store, fills, reports) = (store.clone(), Arc::downgrade(fills), progress.clone());
        let name = format!("cache {}", store.config.load().name);
        std::thread::Builder::new().name(name).spawn(move || {
            let run = AssertUnwindSafe(|| run(&store, &fills, &reports));
            let clean = catch_unwind(run).unwrap_or_else(|_| {
                let text = format!("the thread of cache \"{}\" panicked", store.config.load().name);
                store.reporter.tell(Level::Alert, &text);
                false
            });
            store.index.space.close();
            store.index.set_state(LoadState::Stopped, false);
            store.index.settle.notify_waiters();
            reports.set(Stage::Ended(clean));
        })?;
        // There is only one control thread, so no other call has started it meanwhile.
        let _ = self.progress.set(progress);
        Ok(true)
    }

    /// Waits until the index is loaded.
    pub(crate) fn wait_loaded(&self, limit: Duration) {
        if let Some(progress) = self.progress.get() {
            progress.wait(limit, |stage| stage != Stage::Begun);
        }
    }

    /// Waits for the thread's end. True if everything is written down.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        match self.progress.get() {
            None => true,
            Some(progress) => progress.wait(limit, |stage| matches!(stage, Stage::Ended(_))) == Stage::Ended(true),
        }
    }
}

/// The time of day, in seconds since 1970.
fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// The body of the thread. True if the next process will find everything.
fn run(store: &Arc<Store>, fills: &Weak<Fills>, progress: &ManagerProgress) -> bool {
    let begun = Instant::now();
    store.index.bell.answer_to(std::thread::current());
    let moment = || Moment { unix: unix_time(), clock: begun.elapsed() };
    let stopped = || store.stop.load(Acquire);
    let mut told = None;
    let lock = loop {
        if stopped() {
            return false;
        }
        match Lock::take(store) {
            Lock::Own(file) => break file,
            Lock::Others => std::thread::park_timeout(LOCK_PAUSE),
            Lock::Failed(error) => {
                if told.replace(error.kind()) != Some(error.kind()) {
                    let path = store.config.load().path.clone();
                    let text = format!("cache folder \"{}\" cannot be used: {error}", text_of_os(&path));
                    store.reporter.tell(Level::Crit, &text);
                }
                // The folder may come back, with its disk.
                std::thread::park_timeout(FOLDER_PAUSE);
            }
        }
    };
    let OpenState { journal, policy, walk } = open::open(store, moment());
    let mut manager = Manager::new(store.clone(), fills.clone(), journal, policy, walk);
    // A small folder is done after the first round.
    manager.round(moment());
    progress.set(Stage::Loaded);
    loop {
        store.index.bell.looked();
        let stopping = stopped();
        match manager.round(moment()) {
            _ if stopping => break,
            Next::Now => {}
            Next::Within(pause) => std::thread::park_timeout(pause),
            Next::Idle(pause) => {
                store.index.bell.rest();
                // Events that were queued before the bell was cleared are not waited for.
                if store.index.events.is_empty() {
                    std::thread::park_timeout(pause);
                }
            }
        }
    }
    let clean = manager.end(moment());
    drop(lock);
    clean
}
