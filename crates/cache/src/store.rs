//! The state that all parts of a cache share: its configuration, its index, its memory tier, and the way to its disk.
//!
//! The fills, the cache's own thread and the [`Cache`](crate::cache::Cache) itself are built on it.

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
use crate::folder_watch::Folders;
use crate::index::{About, Entry, Event, Index, Leave, MAX_PENDING, Reservation};
use crate::key::Key;
use crate::memory::{Memory, OPEN_FILES};
use crate::name_locks::Naming;
use crate::object::Unreadable;
use crate::purge::Purges;
use crate::reporter::Reporter;
use crate::usage::Usage;
use crate::work::Work;

/// The state that loops and the cache's thread share.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: ArcSwap<CacheConfig>,
    pub(crate) index: Index,
    pub(crate) purges: Purges,
    pub(crate) work: Work,
    /// Small objects, and open files of others. An object that leaves the index has to be dropped here.
    pub(crate) memory: Arc<Memory>,
    /// The folders that are watched for what others change in them.
    pub(crate) folders: Arc<Folders>,
    pub(crate) usage: Usage,
    pub(crate) naming: Naming,
    /// Files have names while they are written, because the file system does not support unnamed ones. A file that is
    /// being written would remain if the process ended now.
    pub(crate) named_early: AtomicBool,
    /// Target of the reports of errors.
    pub(crate) reporter: Arc<Reporter>,
    /// The way to the disk, once it was set.
    pub(crate) disk: OnceLock<Arc<Disk>>,
    /// The thread is to write everything down and to end.
    pub(crate) stop: AtomicBool,
}

impl Store {
    /// Makes a store with an empty index. This is cheap: it touches no file.
    pub(crate) fn new(config: CacheConfig) -> Store {
        let memory = Arc::new(Memory::new(config.memory, OPEN_FILES));
        Store {
            index: Index::new(config.max_entries(), config.max_size),
            folders: Arc::new(Folders::new(&memory)),
            memory,
            usage: Usage::default(),
            naming: Naming::default(),
            named_early: AtomicBool::new(false),
            reporter: Arc::default(),
            disk: OnceLock::new(),
            config: ArcSwap::from_pointee(config),
            purges: Purges::default(),
            work: Work::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Tells the thread to write everything down and to end.
    pub(crate) fn end(&self) {
        self.stop.store(true, Release);
        self.index.bell.urgent();
    }

    /// Has a file removed that was written and must not be used, with the entry that the index has for its key.
    pub(crate) fn unwanted(&self, key: Key) {
        match self.index.peek(key) {
            Some(entry) => drop(self.index.remove(&entry, false)),
            None => self.index.tell(Event::Unwanted(key)),
        }
    }

    /// Whether the key has another entry than the entry found before (or none).
    pub(crate) fn has_changed(&self, key: Key, known: Option<&Arc<Entry>>) -> bool {
        let now = self.index.peek(key).filter(|entry| !entry.is_foreign());
        now.is_some_and(|now| known.is_none_or(|known| !Arc::ptr_eq(known, &now)))
    }

    /// Reserves space for a file of this number of bytes, without waiting. `None`: there is no space at the moment.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let index = &self.index;
        if index.events.len() >= MAX_PENDING {
            index.bell.urgent();
            return None;
        }
        index.space.reserve(bytes)
    }

    /// Takes an object into the index, in the place of the key's earlier one. The object has been written whole and its
    /// file has its name. `None`: its key was purged while it was fetched, and the file is removed.
    pub(crate) fn stored(&self, about: &About, reservation: Reservation, now: u64) -> Option<Arc<Entry>> {
        self.usage.written.add(about.size, now);
        self.index.store(about, reservation, now)
    }

    /// Removes this object and no other one: its file is damaged, or its content is known to be wrong. False: it was
    /// already gone.
    pub(crate) fn discard(&self, entry: &Arc<Entry>, why: Leave) -> bool {
        let removed = self.index.remove(entry, false);
        self.memory.forget(entry.key());
        if removed {
            let counter = if why == Leave::Damaged { &self.work.damaged } else { &self.work.purged };
            counter.fetch_add(1, Relaxed);
        }
        removed
    }

    /// Removes the entry of a file that cannot be used, unless that may change by itself. Returns the reason to tell the
    /// request: a file that this server has removed or replaced meanwhile, or is about to, is no damage.
    pub(crate) fn remove_unreadable(&self, entry: &Arc<Entry>, unreadable: Unreadable) -> Unreadable {
        let is_about_file = matches!(unreadable, Unreadable::Missing | Unreadable::Damaged(_));
        // In this order: whoever gives a file its name replaces the entry before the lock ends.
        if is_about_file && (self.naming.is_held(entry.key()) || entry.is_gone()) {
            return Unreadable::Missing;
        }
        if unreadable == Unreadable::Missing {
            self.folders.mistrust(entry.key(), &self.config.load().levels);
        }
        if unreadable.is_for_good() {
            self.discard(entry, Leave::Damaged);
        }
        unreadable
    }

    /// Compares an object with the purges that came since it was fetched. `None` if one of them means it; otherwise the
    /// number of the purge up to which it was compared.
    pub(crate) fn compared(&self, sequence: u64, key: &[u8], tags: &[Bytes]) -> Option<u64> {
        let purges = &self.purges;
        let newest = purges.newest();
        (newest <= sequence || !purges.means(sequence, key, tags)).then_some(newest)
    }

    /// The path of a key's file.
    pub(crate) fn path_of(&self, key: Key) -> PathBuf {
        let config = self.config.load();
        config.path.join(config.levels.file_name(key))
    }

    /// The path of a key's file, for system calls.
    pub(crate) fn c_path_of(&self, key: Key) -> CString {
        // A folder with a zero byte in its name is refused when the configuration is read.
        CString::new(self.path_of(key).into_os_string().into_vec()).unwrap_or_default()
    }
}
