//! The start of the thread: it takes the lock of the folder and reads the journal.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use freerun_runtime::log::Level;
use rustc_hash::FxHashSet;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::core::Moment;
use super::disk;
use super::walk::Walk;
use crate::index::policy::{Item, Place, Policy};
use crate::index::{About, Entry, Load, LoadState};
use crate::journal::line::{JournalObject, Line};
use crate::journal::{self, Journal, LOCK, PRIVATE, purges};
use crate::key::Key;
use crate::purge::Purge;
use crate::store::Store;

/// The owner of the folder.
pub(super) enum Lock {
    /// The folder belongs to this cache, as long as the file is open.
    Own(File),
    /// Another process, or a cache of an earlier configuration.
    Others,
    /// The owner cannot be determined.
    Failed(io::Error),
}

impl Lock {
    /// Tries to lock the folder for this cache.
    pub(super) fn take(store: &Store) -> Lock {
        let folder = store.config.load().path.clone();
        // The master has made the folder; this is for a process that runs without a master.
        let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let opened = File::options().write(true).create(true).truncate(false).mode(PRIVATE).open(folder.join(LOCK));
        let file = match opened {
            Ok(file) => file,
            Err(error) => return Lock::Failed(error),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Lock::Own(file),
            Err(Errno::WOULDBLOCK) => Lock::Others,
            Err(error) => Lock::Failed(error.into()),
        }
    }
}

/// The state with which the thread continues after opening.
pub(super) struct OpenState {
    pub(super) journal: Journal,
    pub(super) policy: Policy<Arc<Entry>>,
    pub(super) walk: Option<Walk>,
}

/// Number of bits of a purge's number that count the purges of one second.
const PURGES_A_SECOND: u32 = 20;

/// Reads the purges and the journal. Afterwards the cache is usable; the walk finds the objects that the journal does
/// not know.
pub(super) fn open(store: &Arc<Store>, at: Moment) -> OpenState {
    let begun = Instant::now();
    let config = store.config.load_full();
    let index = &store.index;
    disk::measure(&config.path, config.min_free, &index.space);
    // Some purges have to be newer than everything in the journal: purges from before the thread began, and purges that
    // come while it reads. So the numbers of a process begin above the numbers of all processes before it.
    let base = at.unix << PURGES_A_SECOND;
    index.raise_sequence(base);
    // Purges come first: nothing is looked for on the disk before they are known.
    let purges = purges::read(&config.path);
    store.purges.restore(purges.as_deref().unwrap_or_default(), index);
    if purges.is_some() {
        index.set_state(LoadState::Loading, true);
    } else {
        let text = format!("the purges of cache \"{}\" cannot be read: all of it is purged", config.name);
        store.reporter.tell(Level::Error, &text);
        // The list is new, so there is room.
        let _ = store.purges.add(&Purge::Prefix(bytes::Bytes::new()), index);
    }
    let mut loading =
        JournalLoader { store, policy: Policy::new(config.max_entries()), gone: FxHashSet::default(), at };
    index.expect(journal::lines(&config.path));
    let loaded = journal::load(&config.path, |line| loading.take(line));
    let JournalLoader { policy, gone, .. } = loading;
    if loaded.sequence >= base {
        // The clock went back, or it is still the same second.
        index.raise_sequence(loaded.sequence);
        store.purges.restore(purges.as_deref().unwrap_or_default(), index);
    }
    let journal = Journal::open(&config.path, &loaded);
    store.work.loaded.store(policy.len() as u64, Relaxed);
    store.work.load_ms.store(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX), Relaxed);
    let walk = (!loaded.clean).then(|| Walk::new(&config, at.unix, gone));
    // Without a journal, only the file itself shows that an object exists.
    let look = walk.is_some() && !(loaded.exists && loaded.intact);
    let state = if walk.is_some() { LoadState::Walking } else { LoadState::Ready };
    index.set_state(state, look);
    index.space.open();
    if loaded.exists && !loaded.clean {
        let text = if loaded.intact { "was not closed" } else { "is damaged" };
        let text = format!("the journal of cache \"{}\" {text}: its folder is looked through", config.name);
        store.reporter.tell(Level::Notice, &text);
    }
    OpenState { journal, policy, walk }
}

struct JournalLoader<'a> {
    store: &'a Store,
    policy: Policy<Arc<Entry>>,
    /// Keys whose last known change is their removal: their files are not taken in again.
    gone: FxHashSet<Key>,
    at: Moment,
}

impl JournalLoader<'_> {
    fn take(&mut self, line: &Line) {
        match line {
            Line::Stored(stored) => self.stored(stored),
            Line::Removed { key, .. } => {
                if self.forget(*key) {
                    self.gone.insert(*key);
                }
            }
            Line::Title(_) => {}
        }
    }

    fn stored(&mut self, stored: &JournalObject) {
        let index = &self.store.index;
        if !self.gone.is_empty() {
            self.gone.remove(&stored.key);
        }
        let JournalObject { key, size, sequence, lifetime, .. } = *stored;
        let about = About { key, main: key, size, sequence, lifetime };
        // The time of the last use begins anew: while there was no process, no request could ask.
        let mut entry = Entry::new(&about, index.space.round(size), self.at.unix);
        entry.set_variant_of(stored.variant_of);
        if stored.foreign {
            entry.set_foreign();
        }
        let entry = Arc::new(entry);
        let mut outcome = index.load(&entry);
        if outcome == Load::Exists && self.forget(key) {
            outcome = index.load(&entry);
        }
        if outcome != Load::Done {
            return;
        }
        Item::set_frequency(&entry, stored.frequency);
        if stored.main {
            self.policy.insert_main(entry);
        } else {
            self.policy.insert(entry);
        }
    }

    /// Takes out the entry that earlier lines gave a key. False: the entry is from a loop, which has read the file
    /// itself.
    fn forget(&mut self, key: Key) -> bool {
        let index = &self.store.index;
        let Some(entry) = index.peek(key) else { return true };
        if Item::place(&entry) == Place::None {
            return false;
        }
        if index.remove(&entry, true) {
            self.policy.forget(&entry);
            index.space.release(entry.disk());
        }
        true
    }
}
