//! Changes by other programs to the files of objects in memory: people purge caches by deleting files.
//!
//! An object in memory is used without a look at its file for at most the rest of the second in which it was last
//! looked at. The folders of such objects are watched besides (inotify(7)), so that a file that is removed, renamed,
//! replaced or rewritten is noticed by the next request. The kernel reports a change before the system call that makes
//! it returns. A loop looks for reports once in each era ([`freerun_runtime::arrival_era`]), as it does for hot files. So a
//! request that was sent after the change never gets the object from memory. A folder is opened by the cache's own
//! thread; until it is watched, each use looks at the file. Where it cannot be watched, a look in each second remains.
//!
//! One watcher serves all caches of the process. A loop that finds reports applies them; it never waits for another
//! loop at the same work, but looks at the file meanwhile.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use freerun_runtime::arrival_era;
use freerun_runtime::watch::{FileChange, News, Watcher};
use papaya::HashMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::key::{Key, Levels};
use crate::memory::Memory;
use crate::object::{MOMENT, SECONDS};

/// The most folders that are watched for all caches of the process, and the most that one cache remembers.
pub(crate) const MAX_FOLDERS: usize = 8192;

/// The watcher of all caches; `None` if the system has none for this process.
static WATCH: OnceLock<Option<Watch>> = OnceLock::new();

/// Number of times that anything may have changed.
static UPHEAVALS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The era in which this thread last looked for reports.
    static LOOKED: Cell<u64> = const { Cell::new(0) };
}

struct Watch {
    watcher: Watcher,
    /// Reports are being applied: the kernel has no more of them, but objects that they mean may still seem unchanged.
    applying: AtomicBool,
    folders: Mutex<FxHashMap<i32, WatchedFolder>>,
}

/// A watched folder.
struct WatchedFolder {
    of: Weak<Folders>,
    name: Box<str>,
}

/// Whether a folder is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderState {
    /// By this watch.
    Yes(i32),
    /// The cache's thread is going to watch it.
    Soon,
    /// The folder cannot be watched.
    No,
}

/// The folders of one cache.
#[derive(Debug)]
pub(crate) struct Folders {
    memory: Weak<Memory>,
    states: HashMap<Box<str>, FolderState, FxBuildHasher>,
}

/// The moment for [`LookedAt`](crate::object::LookedAt): the second `now`, and how often anything may have changed. It
/// is never 0.
pub(crate) fn moment(now: u64) -> u64 {
    let upheavals = UPHEAVALS.load(SeqCst) << SECONDS & (MOMENT - 1);
    MOMENT | upheavals | now & ((1 << SECONDS) - 1)
}

/// Applies the changes that were reported. False: another thread is about to do so, and objects in memory must not be
/// believed before it has.
#[inline]
pub(crate) fn is_applied() -> bool {
    let era = arrival_era::now();
    if LOOKED.get() == era {
        return true;
    }
    let applied = WATCH.get().and_then(Option::as_ref).is_none_or(Watch::look);
    if applied {
        LOOKED.set(era);
    }
    applied
}

/// Applies the changes that were reported, for a thread that is no loop: the kernel's queue must not overflow because
/// no request comes.
pub(crate) fn apply() {
    if let Some(watch) = WATCH.get().and_then(Option::as_ref) {
        watch.look();
    }
}

impl Watch {
    fn look(&self) -> bool {
        if let Some(news) = self.watcher.news() {
            return self.take(news);
        }
        !self.applying.load(SeqCst)
    }

    #[cold]
    fn take(&self, news: News) -> bool {
        let Ok(mut folders) = self.folders.try_lock() else { return false };
        self.applying.store(true, SeqCst);
        self.watcher.take_news(news, |change| match change {
            FileChange::Name(watch, name) => {
                let memory = folders.get(&watch).and_then(|watched| watched.of.upgrade()?.memory.upgrade());
                if let Some((memory, key)) = memory.zip(Key::from_hex(name)) {
                    memory.doubt(key);
                }
            }
            FileChange::Itself(watch) => {
                if let Some(watched) = folders.remove(&watch) {
                    UPHEAVALS.fetch_add(1, SeqCst);
                    self.watcher.remove(watch);
                    watched.forget(watch);
                }
            }
            FileChange::Anything => {
                UPHEAVALS.fetch_add(1, SeqCst);
            }
        });
        self.applying.store(false, SeqCst);
        true
    }

    /// Watches an open folder, as `name` of a cache, and notes it there before the end of the watch can be reported.
    /// `None`: there are too many.
    fn add(&self, folder: &File, of: &Arc<Folders>, name: &str) -> Option<()> {
        let mut folders = self.folders.lock().ok()?;
        if folders.len() >= MAX_FOLDERS {
            return None;
        }
        let watch = self.watcher.add_contents(folder).ok()?;
        folders.insert(watch, WatchedFolder { of: Arc::downgrade(of), name: name.into() });
        of.states.pin().insert(name.into(), FolderState::Yes(watch));
        Some(())
    }

    fn remove(&self, watch: i32) {
        if let Ok(mut folders) = self.folders.lock()
            && folders.remove(&watch).is_some()
        {
            self.watcher.remove(watch);
        }
    }
}

impl WatchedFolder {
    /// Has the folder watched anew, if it is needed again: it has another place now, or is gone.
    fn forget(&self, watch: i32) {
        if let Some(of) = self.of.upgrade() {
            let _ = of.states.pin().remove_if(&self.name, |_, state| *state == FolderState::Yes(watch));
        }
    }
}

impl Folders {
    pub(crate) fn new(memory: &Arc<Memory>) -> Folders {
        Folders { memory: Arc::downgrade(memory), states: HashMap::default() }
    }

    /// Whether the folder of a key is watched, and whether the caller has to see to it that it will be.
    pub(crate) fn of_key(&self, key: Key, levels: &Levels) -> (FolderState, bool) {
        let states = self.states.pin();
        let name = levels.folder(key);
        if let Some(state) = states.get(name.as_str()) {
            return (*state, false);
        }
        if states.len() >= MAX_FOLDERS {
            return (FolderState::No, false);
        }
        let is_first = states.try_insert(name.into(), FolderState::Soon).is_ok();
        (FolderState::Soon, is_first)
    }

    /// Watches the folder of a key below the cache's own. This waits for its disk.
    pub(crate) fn watch(self: &Arc<Self>, key: Key, levels: &Levels, path: &Path) {
        let name = levels.folder(key);
        let watch = WATCH.get_or_init(|| {
            let watcher = Watcher::new().ok()?;
            Some(Watch { watcher, applying: AtomicBool::new(false), folders: Mutex::default() })
        });
        match File::open(path.join(&name)) {
            Ok(folder) => {
                if watch.as_ref().and_then(|watch| watch.add(&folder, self, &name)).is_none() {
                    self.states.pin().insert(name.into(), FolderState::No);
                }
            }
            // The next object in it makes it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.states.pin().remove(name.as_str());
            }
            Err(_) => {
                self.states.pin().insert(name.into(), FolderState::No);
            }
        }
    }

    /// Has the folder of a key watched anew, where a file was not found: the folder may be another one meanwhile. The
    /// kernel may report the end of the old one late, if it is held open.
    pub(crate) fn mistrust(&self, key: Key, levels: &Levels) {
        self.states.pin().remove(levels.folder(key).as_str());
    }

    /// Has folders that could not be watched tried again with their next use.
    pub(crate) fn retry(&self) {
        self.states.pin().retain(|_, state| *state != FolderState::No);
    }

    /// Ends all watches of the cache.
    pub(crate) fn end(&self) {
        let states = self.states.pin();
        if let Some(watch) = WATCH.get().and_then(Option::as_ref) {
            let watched = states.values().filter_map(|state| match state {
                FolderState::Yes(own) => Some(*own),
                FolderState::Soon | FolderState::No => None,
            });
            watched.for_each(|own| watch.remove(own));
        }
        states.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_second_until_anything_may_have_changed() {
        let now = moment(7);
        assert!(now != 0 && now != moment(8));
        UPHEAVALS.fetch_add(1, SeqCst);
        assert_ne!(moment(7), now);
    }
}
