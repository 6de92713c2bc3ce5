//! The index of a cache: which objects there are. Any loop may look, add and remove without a lock; the cache's thread
//! does the rest (queues, files, journal); it gets the changes through a queue.

mod entry;
pub(crate) mod policy;
pub mod simulate;
mod space;
#[cfg(test)]
mod tests;
mod wake_up;

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crossbeam_queue::SegQueue;
use papaya::HashMap;
use rustc_hash::FxBuildHasher;
use tokio::sync::Notify;

pub use entry::{About, Entry};
pub(crate) use entry::{FileMark, fingerprint, short};
pub use space::Reservation;
pub(crate) use space::Space;
pub(crate) use wake_up::Bell;

use crate::key::Key;
use crate::rules::Lifetime;

/// Reservations are refused while the cache's thread has this many changes to look at.
pub(crate) const MAX_PENDING: usize = 65_536;

/// The number of marks of purged keys. Two keys that share a mark are not told apart, see [`Index::mark`].
const MARKS: usize = 1 << 16;

const _: () = assert!(MARKS.is_power_of_two(), "every mark stands for equally many keys");

/// The index's answer about a key.
#[derive(Debug, Clone)]
pub enum IndexAnswer {
    /// There is an object; whether it is fresh is for its [`Lifetime`] to say.
    Stored(Arc<Entry>),
    /// The index has no entry and is still being loaded: there may be a file.
    Unknown,
    /// There is no object, and no file.
    Nothing,
}

/// Progress of loading the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LoadState {
    /// The thread has not looked at the folder yet, or another process still has it.
    Starting,
    /// The journal is being read.
    Loading,
    /// After an unclean end: the entries of the journal are loaded, and files that it does not know are looked for.
    Walking,
    /// The whole index is loaded.
    Ready,
    /// The cache has ended.
    Stopped,
}

impl LoadState {
    /// The name of the state, for status pages.
    pub fn name(self) -> &'static str {
        match self {
            LoadState::Starting => "starting",
            LoadState::Loading => "loading",
            LoadState::Walking => "walking",
            LoadState::Ready => "ready",
            LoadState::Stopped => "stopped",
        }
    }

    fn of(byte: u8) -> LoadState {
        debug_assert!(byte <= LoadState::Stopped as u8, "{byte} is no state");
        match byte {
            0 => LoadState::Starting,
            1 => LoadState::Loading,
            2 => LoadState::Walking,
            3 => LoadState::Ready,
            _ => LoadState::Stopped,
        }
    }
}

/// Reason why an object leaves the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The object's key, the key's text, or one of its tags was purged.
    Purged,
    /// The file is missing, or not what the index says.
    Damaged,
    /// A newer response to the same request made it invalid (an unsafe method, a response that may not be stored).
    Invalidated,
}

/// A change that the cache's thread is notified of through the queue.
#[derive(Debug)]
pub(crate) enum Event {
    /// An object is new; the one whose place it took is gone.
    Stored { entry: Arc<Entry>, replaced: Option<Arc<Entry>> },
    /// An object was removed: its file has to go.
    Removed(Arc<Entry>),
    /// A key was purged: its variants have to go. This part of the key identifies them.
    Purged(u32),
    /// The file of this key has to go, which was never in the index.
    Unwanted(Key),
    /// A lifetime has changed.
    Renewed(Arc<Entry>),
    /// The list of purges has changed.
    Purges,
    /// The folder of this key's file is to be watched.
    Watch(Key),
    /// A caller waits until everything before this is done.
    Settle(u64),
}

/// The result of loading an entry of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The entry is in the index.
    Done,
    /// The index already has an entry of its key.
    Exists,
    /// The key of the entry was purged, or there is no room: its file is removed.
    Refused,
}

/// Uses of a key that has no object (`proxy_cache_min_uses`).
#[derive(Debug)]
struct Count {
    uses: AtomicU32,
    /// The last use, in seconds since 1970.
    seen: AtomicU32,
}

/// The index. The loops and the cache's thread share it.
#[derive(Debug)]
pub(crate) struct Index {
    map: HashMap<Key, Arc<Entry>, FxBuildHasher>,
    counts: HashMap<Key, Count, FxBuildHasher>,
    pub(crate) space: Arc<Space>,
    pub(crate) events: SegQueue<Event>,
    pub(crate) bell: Arc<Bell>,
    state: AtomicU8,
    /// A key that is not in the index is looked for on the disk: while loading, and while walking without a journal.
    look: AtomicBool,
    sequence: AtomicU64,
    /// For each mark, the number of the newest purge of one of its keys.
    marks: Box<[AtomicU64]>,
    newest_mark: AtomicU64,
    asked: AtomicU64,
    settled: AtomicU64,
    pub(crate) settle: Notify,
}

impl Index {
    pub(crate) fn new(max_entries: usize, max_size: u64) -> Index {
        let bell = Arc::new(Bell::default());
        Index {
            map: HashMap::with_hasher(FxBuildHasher),
            counts: HashMap::with_hasher(FxBuildHasher),
            space: Arc::new(Space::new(max_size, max_entries, bell.clone())),
            events: SegQueue::new(),
            bell,
            state: AtomicU8::new(LoadState::Starting as u8),
            look: AtomicBool::new(false),
            sequence: AtomicU64::new(1),
            marks: (0..MARKS).map(|_| AtomicU64::new(0)).collect(),
            newest_mark: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            settle: Notify::new(),
        }
    }

    pub(crate) fn find(&self, key: Key, now: u64) -> IndexAnswer {
        if let Some(entry) = self.map.pin().get(&key)
            && !entry.is_foreign()
        {
            entry.touch(now);
            return IndexAnswer::Stored(entry.clone());
        }
        if self.look.load(Acquire) { IndexAnswer::Unknown } else { IndexAnswer::Nothing }
    }

    /// The entry of a key; no use is counted.
    pub(crate) fn peek(&self, key: Key) -> Option<Arc<Entry>> {
        self.map.pin().get(&key).cloned()
    }

    /// Up to `most` objects that are variants of a key. The index knows a part of that key alone (32 bits), so one of another
    /// key may be among them. It looks at all objects: no loop calls this.
    pub(crate) fn variants(&self, of: Key, most: usize) -> Vec<Arc<Entry>> {
        let (main, map) = (short(of), self.map.pin());
        let meant = map.values().filter(|entry| entry.variant_of() == main && !self.is_marked(entry));
        meant.take(most).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Counts a use of a key that has no object, and returns how many there were. If there is no room for a key, its
    /// count is always one.
    pub(crate) fn count(&self, key: Key, now: u64) -> u32 {
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        let counts = self.counts.pin();
        if let Some(count) = counts.get(&key) {
            count.seen.store(now, Relaxed);
            return count.uses.fetch_add(1, Relaxed).saturating_add(1);
        }
        if counts.len() >= self.space.max_entries() {
            self.bell.urgent();
            return 1;
        }
        let count = Count { uses: AtomicU32::new(0), seen: AtomicU32::new(now) };
        counts.get_or_insert(key, count).uses.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// The uses of a key that [`count`](Index::count) has counted.
    pub(crate) fn uses(&self, key: Key) -> u32 {
        self.counts.pin().get(&key).map_or(0, |count| count.uses.load(Relaxed))
    }

    /// Forgets the uses of a key.
    pub(crate) fn forget_count(&self, key: Key) {
        self.counts.pin().remove(&key);
    }

    pub(crate) fn counted(&self) -> usize {
        self.counts.len()
    }

    /// Forgets counts that are older than `inactive` seconds, and half of the others when there is hardly any room
    /// left.
    pub(crate) fn forget_counts(&self, now: u64, inactive: u32) {
        let now = u32::try_from(now).unwrap_or(u32::MAX);
        let full = self.counts_are_full();
        let mut odd = false;
        self.counts.pin().retain(|_, count| {
            odd = !odd;
            let alive = now.saturating_sub(count.seen.load(Relaxed)) < inactive;
            // Counts of keys that were asked for again are worth more.
            alive && (!full || odd || count.uses.load(Relaxed) > 1)
        });
    }

    pub(crate) fn counts_are_full(&self) -> bool {
        self.counts.len() > self.space.max_entries() / 4 * 3
    }

    /// The number of purges so far. An object keeps the one at which it was fetched.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Acquire)
    }

    /// The number of a new purge: objects with a smaller one were fetched before.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, AcqRel) + 1
    }

    pub(crate) fn raise_sequence(&self, at_least: u64) {
        self.sequence.fetch_max(at_least, AcqRel);
    }

    /// Puts an object into the index that has been written, with the space that was reserved for it. `None`: its key
    /// was purged while it was fetched, and the file is removed.
    pub(crate) fn store(&self, about: &About, reservation: Reservation, now: u64) -> Option<Arc<Entry>> {
        let disk = self.space.round(about.size).min(reservation.bytes());
        let entry = Arc::new(Entry::new(about, disk, now));
        debug_assert!(disk >= about.size.min(reservation.bytes()), "a file takes up less than its length");
        reservation.into_used(disk);
        let replaced = self.map.pin().insert(about.key, entry.clone()).cloned();
        let replaced = replaced.filter(|old| {
            policy::Item::set_frequency(&entry, policy::Item::frequency(old));
            debug_assert!(!Arc::ptr_eq(&entry, old), "an entry takes its own place");
            old.leave()
        });
        self.forget_count(about.key);
        self.tell(Event::Stored { entry: entry.clone(), replaced });
        let purged = |key: Key| self.mark(short(key)).load(SeqCst) > about.sequence;
        if purged(about.key) || purged(about.main) {
            self.remove(&entry, false);
            return None;
        }
        Some(entry)
    }

    /// Puts a file into the index that was found on the disk. `None`: there is an entry already, the key was purged, or
    /// there is no room; in the last two cases the file is removed.
    pub(crate) fn adopt(&self, entry: Entry) -> Option<Arc<Entry>> {
        let key = entry.key();
        if self.peek(key).is_some() {
            return None;
        }
        if !self.space.has_entry() {
            self.tell(Event::Unwanted(key));
            return None;
        }
        debug_assert!(!entry.is_gone(), "the entry of a file that was found has left already");
        let entry = Arc::new(entry);
        self.space.adopt(entry.disk());
        if self.map.pin().try_insert(key, entry.clone()).is_err() {
            self.space.release(entry.disk());
            return None;
        }
        self.tell(Event::Stored { entry: entry.clone(), replaced: None });
        if self.is_marked(&entry) || self.mark(short(key)).load(SeqCst) > entry.sequence() {
            self.remove(&entry, false);
            return None;
        }
        Some(entry)
    }

    /// Makes room for this number of entries, which are about to be loaded.
    pub(crate) fn expect(&self, entries: u64) {
        let entries = usize::try_from(entries).unwrap_or(usize::MAX).min(self.space.max_entries());
        self.map.pin().reserve(entries);
    }

    /// Puts an entry into the index as [`adopt`](Index::adopt) does, but puts no event into the queue: for the thread
    /// that reads the journal.
    pub(crate) fn load(&self, entry: &Arc<Entry>) -> Load {
        debug_assert!(!entry.is_gone(), "an entry that has left is loaded again");
        let key = entry.key();
        let marked = |name: u32| self.mark(name).load(SeqCst) > 0;
        let purged = marked(short(key)) || (entry.variant_of() != 0 && marked(entry.variant_of()));
        if purged || !self.space.has_entry() {
            self.tell(Event::Unwanted(key));
            return Load::Refused;
        }
        if self.map.pin().try_insert(key, entry.clone()).is_err() {
            return Load::Exists;
        }
        self.space.adopt(entry.disk());
        Load::Done
    }

    pub(crate) fn renew(&self, entry: &Arc<Entry>, lifetime: Lifetime) {
        if entry.renew(lifetime) {
            self.tell(Event::Renewed(entry.clone()));
        }
    }

    /// Removes this entry and no other one. Its file is removed, and then its space is free. `quiet`: the caller is the
    /// cache's thread and does the rest itself. False: it was already gone.
    pub(crate) fn remove(&self, entry: &Arc<Entry>, quiet: bool) -> bool {
        let _ = self.map.pin().remove_if(&entry.key(), |_, own| Arc::ptr_eq(own, entry));
        let own = entry.leave();
        if own && !quiet {
            self.tell(Event::Removed(entry.clone()));
        }
        own
    }

    /// Removes the object of a key with all variants, and prevents an object that is being fetched from being stored.
    /// Returns the number of the purge, and whether there was an object.
    pub(crate) fn purge(&self, key: Key) -> (u64, bool) {
        let sequence = self.next_sequence();
        debug_assert!(sequence > 0, "a purge with the number 0 would mean nothing");
        // First the mark, then the look: a thread that stores an object does these in the opposite order, so one of the
        // two notices.
        self.mark(short(key)).fetch_max(sequence, SeqCst);
        self.newest_mark.fetch_max(sequence, SeqCst);
        let there = match self.peek(key) {
            Some(entry) => {
                let foreign = entry.is_foreign();
                self.remove(&entry, false) && !foreign
            }
            None => {
                if self.look.load(Acquire) {
                    self.tell(Event::Unwanted(key));
                }
                false
            }
        };
        debug_assert!(self.mark(short(key)).load(Acquire) >= sequence, "the purge's mark was taken back");
        self.tell(Event::Purged(short(key)));
        (sequence, there)
    }

    /// Whether the entry is a variant of a key that was purged since it was fetched.
    pub(crate) fn is_marked(&self, entry: &Entry) -> bool {
        let main = entry.variant_of();
        main != 0
            && entry.sequence() < self.newest_mark.load(Acquire)
            && entry.sequence() < self.mark(main).load(Acquire)
    }

    /// The mark of a key, by a part of it. A purge of one key also means the other keys with its mark, if they are
    /// being fetched at that moment or are variants. That costs them a fetch.
    fn mark(&self, name: u32) -> &AtomicU64 {
        &self.marks[name as usize % MARKS]
    }

    pub(crate) fn tell(&self, event: Event) {
        self.events.push(event);
        self.bell.ring();
    }

    pub(crate) fn state(&self) -> LoadState {
        LoadState::of(self.state.load(Acquire))
    }

    /// Sets the state of the index, and whether unknown keys may have files.
    pub(crate) fn set_state(&self, state: LoadState, look: bool) {
        let searched = matches!(state, LoadState::Loading | LoadState::Walking);
        debug_assert!(!look || searched, "a key is looked for on the disk in the state {state:?}");
        self.look.store(look, std::sync::atomic::Ordering::Release);
        let before = self.state.swap(state as u8, AcqRel);
        debug_assert!(before <= state as u8, "the index goes back from {:?} to {state:?}", LoadState::of(before));
    }

    /// A number to wait for: when [`settled`](Index::has_settled) has reached it, the thread has handled everything
    /// that was in the queue before.
    pub(crate) fn ask_settled(&self) -> u64 {
        let number = self.asked.fetch_add(1, AcqRel) + 1;
        self.tell(Event::Settle(number));
        self.bell.urgent();
        number
    }

    pub(crate) fn has_settled(&self, number: u64) -> bool {
        self.settled.load(Acquire) >= number
    }

    pub(crate) fn set_settled(&self, number: u64) {
        debug_assert!(number <= self.asked.load(Acquire), "nobody has asked for number {number}");
        self.settled.fetch_max(number, AcqRel);
    }
}
