//! What all of a cache share: its configuration, its index, what is in memory, and the way to its disk.
//!
//! Those who fetch objects, the cache's own thread and the [`Cache`](crate::cache::Cache) itself stand above it.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::config::CacheConfig;
use crate::disk::Disk;
use crate::index::{About, Entry, Event, Index, Leave, MAX_PENDING, Reservation};
use crate::key::Key;
use crate::memory::{Memory, OPEN_FILES};
use crate::naming::Naming;
use crate::purge::Purges;
use crate::usage::Usage;
use crate::work::Work;

/// What loops and the cache's thread share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: ArcSwap<CacheConfig>,
    pub(crate) index: Index,
    pub(crate) purges: Purges,
    pub(crate) work: Work,
    /// Small objects, and open files of others. What leaves the index is to be forgotten here.
    pub(crate) memory: Memory,
    pub(crate) usage: Usage,
    pub(crate) naming: Naming,
    /// Files have names while they are written: the file system has none without.
    pub(crate) named_early: AtomicBool,
    /// What the disk is reached with, once that was said.
    pub(crate) disk: OnceLock<Arc<Disk>>,
    /// The thread is to write everything down and to end.
    pub(crate) stop: AtomicBool,
}

impl Store {
    /// One of which nothing is known yet. Cheap: it touches no file.
    pub(crate) fn new(config: CacheConfig) -> Store {
        Store {
            index: Index::new(config.max_entries(), config.max_size),
            memory: Memory::new(config.memory, OPEN_FILES),
            usage: Usage::default(),
            naming: Naming::default(),
            named_early: AtomicBool::new(false),
            disk: OnceLock::new(),
            config: ArcSwap::from_pointee(config),
            purges: Purges::default(),
            work: Work::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Has the thread write everything down and end.
    pub(crate) fn end(&self) {
        self.stop.store(true, Release);
        self.index.bell.urgent();
    }

    pub(crate) fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.get()
    }

    /// A file is written that has a name already, which nobody would remove if the process ended now.
    pub(crate) fn note_named_early(&self) {
        self.named_early.store(true, Relaxed);
    }

    /// A file was written that must not be used: it goes, with what the index has for its key.
    pub(crate) fn unwanted(&self, key: Key) {
        match self.peek(key) {
            Some(entry) => drop(self.index.remove(&entry, false)),
            None => self.index.tell(Event::Unwanted(key)),
        }
    }

    /// The entry of a key without its being used. It may be [foreign](Entry::is_foreign).
    pub(crate) fn peek(&self, key: Key) -> Option<Arc<Entry>> {
        self.index.peek(key)
    }

    /// Whether another entry of a key is there than the one that was found (or none was).
    pub(crate) fn has_changed(&self, key: Key, known: Option<&Arc<Entry>>) -> bool {
        let now = self.peek(key).filter(|entry| !entry.is_foreign());
        now.is_some_and(|now| known.is_none_or(|known| !Arc::ptr_eq(known, &now)))
    }

    /// The number of the newest purge.
    pub(crate) fn sequence(&self) -> u64 {
        self.index.sequence()
    }

    /// Reserves space for a file of so many bytes, without waiting. `None`: there is none at the moment.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let index = &self.index;
        if index.events.len() >= MAX_PENDING {
            index.bell.urgent();
            return None;
        }
        index.space.reserve(bytes)
    }

    /// An object has been written whole and has its name; the index takes it, in the place of what the key had. `None`:
    /// its key was purged while it was fetched, and the file is removed.
    pub(crate) fn stored(&self, about: &About, reservation: Reservation, now: u64) -> Option<Arc<Entry>> {
        self.usage.written.add(about.size, now);
        self.index.store(about, reservation, now)
    }

    /// Removes this object and no other one: its file is damaged, or what it says is known to be wrong. False: it was gone.
    pub(crate) fn discard(&self, entry: &Arc<Entry>, why: Leave) -> bool {
        let removed = self.index.remove(entry, false);
        self.memory.forget(entry.key());
        if removed {
            let counter = if why == Leave::Damaged { &self.work.damaged } else { &self.work.purged };
            counter.fetch_add(1, Relaxed);
        }
        removed
    }

    /// Whether a purge that came since the object was asked for means it; and if not, up to which one it was compared.
    pub(crate) fn compared(&self, sequence: u64, key: &[u8], tags: &[Bytes]) -> Option<u64> {
        let purges = &self.purges;
        let newest = purges.newest();
        (newest <= sequence || !purges.means(sequence, key, tags)).then_some(newest)
    }

    /// Where the file of a key is.
    pub(crate) fn path_of(&self, key: Key) -> PathBuf {
        let config = self.config.load();
        config.path.join(config.levels.file_name(key))
    }

    /// Where the file of a key is, for system calls.
    pub(crate) fn c_path_of(&self, key: Key) -> CString {
        // A folder with a zero in its name is refused where it is configured.
        CString::new(self.path_of(key).into_os_string().into_vec()).unwrap_or_default()
    }
}
