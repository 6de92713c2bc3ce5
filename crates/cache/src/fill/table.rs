//! The table of all fills of a cache, and the type of a fill.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use freerun_runtime::pool::ThreadPool;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::state::{Phase, State, StorePhase};
use super::waiting_slots::Wakes;
use super::window;
use crate::disk::Disk;
use crate::key::Key;
use crate::purge::Purge;
use crate::store::Store;
use crate::usage::Usage;

/// The most fills of one cache; requests beyond them ask the origin without storing anything.
pub const MAX_FILLS: usize = 1 << 16;

/// The fills of a cache. The cache's thread ends when this is dropped: when the cache is gone, and no fill is at work.
pub(crate) struct Fills {
    pub(super) store: Arc<Store>,
    pub(super) map: papaya::HashMap<Key, Arc<Fill>, FxBuildHasher>,
    /// Fills that go on though another one has taken their place, by their addresses.
    pub(super) replaced: papaya::HashMap<usize, Arc<Fill>, FxBuildHasher>,
    /// The number of fills for variants of a key; such fills are not found by that key.
    pub(super) variants: papaya::HashMap<Key, usize, FxBuildHasher>,
    pub(super) counts: Arc<Counts>,
}

/// Counters of fills.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) begun: AtomicU64,
    pub(super) stored: AtomicU64,
    pub(super) unstored: AtomicU64,
    pub(super) broken: AtomicU64,
    pub(super) followed: AtomicU64,
}

/// Figures of fills, for status pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillFigures {
    /// The number of fills at this moment.
    pub now: u64,
    /// Fills that were begun.
    pub begun: u64,
    /// Begun fills whose object was stored.
    pub stored: u64,
    /// Fills whose object was to be stored and was not: no space, or an error of the disk.
    pub unstored: u64,
    /// Fills whose origin did not send the whole body.
    pub broken: u64,
    /// Requests that got bytes of a fill as they came, the leaders' own included.
    pub followed: u64,
    /// Bytes in memory of all fills of the process.
    pub memory: u64,
}

impl fmt::Debug for Fills {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fills").field("now", &self.map.len()).finish_non_exhaustive()
    }
}

/// An object that is being fetched.
///
/// It does not keep the table of its cache. The table frees removed fills some time later, at the latest when it is
/// dropped itself: the two would keep each other for ever. [`ActiveFill`] keeps both.
pub struct Fill {
    pub(super) store: Arc<Store>,
    pub(super) counts: Arc<Counts>,
    pub(super) disk: Arc<Disk>,
    pub(super) key: Key,
    /// The key of the key's text, which differs from `key` for a variant.
    pub(super) main: Key,
    /// The newest purge when the fill could first be found; later purges mean this object. It is set at that moment so
    /// that none is missed.
    pub(super) sequence: AtomicU64,
    began: Instant,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) client: u64,
    /// Another fill has its place, or may have it soon.
    replaced: AtomicBool,
    pub(super) state: Mutex<State>,
    /// Notified when the fill cannot be found any more.
    pub(super) closed: Notify,
}

/// A fill at work, with the table that it is in. The giver of the fill's bytes and the task that writes them have one
/// each. So they keep the cache's thread, which has to learn of the stored object. A follower has only the [`Fill`].
#[derive(Debug, Clone)]
pub(super) struct ActiveFill {
    pub(super) fills: Arc<Fills>,
    pub(super) fill: Arc<Fill>,
}

impl Deref for ActiveFill {
    type Target = Fill;

    fn deref(&self) -> &Fill {
        &self.fill
    }
}

impl ActiveFill {
    /// Takes the fill out of the table, see [`Fills::remove`].
    pub(super) fn remove(&self) {
        self.fills.remove(&self.fill);
    }
}

/// The identity of a fill that cannot be found by its key.
fn address(fill: &Arc<Fill>) -> usize {
    Arc::as_ptr(fill) as usize
}

impl fmt::Debug for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fill").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Drop for Fills {
    fn drop(&mut self) {
        self.store.end();
    }
}

impl Fills {
    /// An empty table. The fetched objects are stored in `store`.
    pub(crate) fn new(store: Arc<Store>) -> Fills {
        let (map, replaced, variants) = Default::default();
        Fills { store, map, replaced, variants, counts: Arc::default() }
    }

    pub(crate) fn figures(&self) -> FillFigures {
        let Counts { begun, stored, unstored, broken, followed } = &*self.counts;
        FillFigures {
            now: (self.map.len() + self.replaced.len()) as u64,
            begun: begun.load(Relaxed),
            stored: stored.load(Relaxed),
            unstored: unstored.load(Relaxed),
            broken: broken.load(Relaxed),
            followed: followed.load(Relaxed),
            memory: window::held(),
        }
    }

    /// The fill of a key that can be followed.
    pub(crate) fn get(&self, key: Key) -> Option<Arc<Fill>> {
        self.map.pin().get(&key).filter(|fill| fill.is_open()).cloned()
    }

    /// Forbids storing what is being fetched for this key, or for a variant of it: the key was purged meanwhile. The
    /// followers go on; no request joins.
    pub(crate) fn forbid(&self, key: Key) {
        let (map, replaced) = (self.map.pin(), self.replaced.pin());
        let mut meant: Vec<Arc<Fill>> = map.get(&key).cloned().into_iter().collect();
        // There may be thousands of other fills: they are searched only if one of them is meant.
        if self.variants.pin().contains_key(&key) {
            meant.extend(map.values().filter(|fill| fill.main == key && fill.key != key).cloned());
        }
        meant.extend(replaced.values().filter(|fill| fill.main == key || fill.key == key).cloned());
        for fill in meant {
            fill.with(|state, wakes| state.give_up_disk(wakes));
            self.remove(&fill);
        }
    }

    /// Forbids storing the fetched objects that the purges mean. While a response's head has not come, this cannot be
    /// decided: no request joins such a fill any more, and it is compared with the purges before it is stored.
    pub(crate) fn purged(&self, all: &[Purge], number: u64) {
        let keys: SmallVec<[Key; 1]> = all
            .iter()
            .filter_map(|what| match what {
                Purge::Key(text) => Some(Key::of(text)),
                Purge::Prefix(_) | Purge::Tag(_) => None,
            })
            .collect();
        let only_keys = keys.len() == all.len();
        let (map, replaced) = (self.map.pin(), self.replaced.pin());
        let older = map.values().chain(replaced.values()).filter(|fill| fill.sequence.load(Acquire) < number);
        for fill in older.cloned().collect::<Vec<_>>() {
            let meant = fill.with(|state, wakes| {
                let meant = match &state.phase {
                    _ if keys.contains(&fill.main) => Some(true),
                    Phase::Known(head) => Some(all.iter().any(|what| what.means(&head.key, &head.tags))),
                    Phase::Asked | Phase::Never if only_keys => Some(false),
                    Phase::Asked | Phase::Never => None,
                };
                if meant == Some(true) {
                    state.give_up_disk(wakes);
                }
                meant
            });
            match meant {
                Some(true) => self.remove(&fill),
                Some(false) => {}
                None => self.hide(&fill),
            }
        }
    }

    /// The smallest purge number of the fills that may still be stored.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let (map, replaced) = (self.map.pin(), self.replaced.pin());
        let may_be_stored =
            |fill: &&Arc<Fill>| fill.with(|state, _| matches!(state.storing, StorePhase::Undecided | StorePhase::Yes));
        let of_these = map.values().chain(replaced.values()).filter(may_be_stored);
        of_these.map(|fill| fill.sequence.load(Acquire)).min()
    }

    /// Counts a fill that comes or goes, if it is for a variant.
    pub(super) fn count(&self, fill: &Fill, comes: bool) {
        if fill.key != fill.main {
            self.variants.pin().compute(fill.main, |there| match there.map_or(0, |(_, number)| *number) {
                number if comes => papaya::Operation::Insert(number + 1),
                0 => {
                    debug_assert!(false, "a fill of a variant goes that never came");
                    papaya::Operation::Abort(())
                }
                1 => papaya::Operation::Remove,
                number => papaya::Operation::Insert(number - 1),
            });
        }
    }

    /// Hides a fill, which goes on but is not found any more.
    fn hide(&self, fill: &Arc<Fill>) {
        self.set_aside(fill);
        let _ = self.map.pin().remove_if(&fill.key, |_, there| Arc::ptr_eq(there, fill));
    }

    /// Makes a fill's place free for another one, while it goes on: at any time it is found in one of the two places,
    /// or it has ended.
    pub(super) fn set_aside(&self, fill: &Arc<Fill>) {
        fill.replaced.store(true, Release);
        self.replaced.pin().insert(address(fill), fill.clone());
        if fill.with(|state, _| state.is_closed()) {
            self.replaced.pin().remove(&address(fill));
        }
    }

    /// Takes a fill out of the table: no request finds it any more. Its followers go on.
    pub(super) fn remove(&self, fill: &Arc<Fill>) {
        // This comes first: a fill that takes its place meanwhile sees that it is closed, or has put it into `replaced`
        // before this looks there.
        let (was_closed, left) = fill.with(|state, _| (state.is_closed(), state.close()));
        drop(left);
        // The fill may have been replaced, and then it is not in the map.
        let _ = self.map.pin().remove_if(&fill.key, |_, there| Arc::ptr_eq(there, fill));
        if fill.replaced.load(Acquire) {
            self.replaced.pin().remove(&address(fill));
        }
        if !was_closed {
            self.count(fill, false);
        }
        fill.closed.notify_waiters();
    }
}

impl Fill {
    /// The counters of the use of its cache.
    pub fn usage(&self) -> &Usage {
        &self.store.usage
    }

    pub(super) fn new(fills: &Fills, disk: Arc<Disk>, keys: (Key, Key), pool: Arc<ThreadPool>, client: u64) -> Fill {
        let (key, main) = keys;
        let (sequence, began) = (AtomicU64::new(0), Instant::now());
        let replaced = AtomicBool::new(false);
        Fill {
            store: fills.store.clone(),
            counts: fills.counts.clone(),
            disk,
            key,
            main,
            sequence,
            began,
            pool,
            client,
            replaced,
            state: Mutex::default(),
            closed: Notify::new(),
        }
    }

    /// Does something with the state, and wakes the tasks that it collects after the lock is released. The lock is held
    /// for a look into a list, and never while something waits.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut state, &mut wakes);
        state.check_invariants();
        drop(state);
        wakes.into_iter().for_each(std::task::Waker::wake);
        result
    }

    /// The key that was asked for. The object may be stored under another key (`Vary`).
    pub fn key(&self) -> Key {
        self.key
    }

    pub(super) fn is_open(&self) -> bool {
        self.with(|state, _| state.is_open())
    }

    /// Whether the origin has sent nothing for so long, though it may.
    pub fn has_stalled(&self, age: Duration) -> bool {
        self.is_overdue(age) && self.with(|state, _| !state.is_full())
    }

    /// Whether nothing has come for so long: neither the head nor, after it, more of the body.
    pub(super) fn is_overdue(&self, age: Duration) -> bool {
        let moved = self.with(|state, _| match state.phase {
            Phase::Asked => Some(self.began),
            Phase::Known(_) => state.moved(),
            Phase::Never => None,
        });
        moved.is_some_and(|moved| moved.elapsed() >= age)
    }
}
