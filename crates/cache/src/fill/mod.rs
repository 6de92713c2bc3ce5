//! Objects that are being fetched: one [`Fill`] for a key at a time.
//!
//! Who finds no object leads a fill ([`Cache::lead`](crate::cache::Cache::lead)) and gives it what the origin sends
//! ([`Filling`]); all others follow it, on whichever loop they are, and get what has come at once and the rest as it comes
//! ([`Follower`]). Nobody polls: who waits is woken. A task of a pool writes the same bytes to a file, which gets its name
//! when the body is whole (`write.rs`). What becomes of whom when something fails is in `state.rs`.

mod follow;
mod look;
mod seats;
mod state;
#[cfg(test)]
mod tests;
mod window;
mod write;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_runtime::files::{Aio, FileError};
use freerun_runtime::pool::ThreadPool;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::cache::Cache;
use crate::disk::Disk;
use crate::index::Entry;
use crate::key::Key;
use crate::purge::Purge;
use crate::record::{Head, MAX_HEAD};
pub use follow::{Follower, Progress};
use seats::Wakes;
use state::{End, Phase, State, Storing};
pub use state::{SMALL_WINDOW, WINDOW, WINDOWS, WRITE};

/// The most fills of one cache; who comes beyond them asks the origin without storing anything.
pub const MAX_FILLS: usize = 1 << 16;
/// How long a fill whose body is complete is followed, though its file has no name yet: the disk may hang.
pub const LINGER: Duration = Duration::from_secs(5);
/// Bodies of unknown length reserve so much at a time, in bytes.
const RESERVE: u64 = 1 << 20;

/// The fills of a cache.
#[derive(Default)]
pub(crate) struct Fills {
    map: papaya::HashMap<Key, Arc<Fill>, FxBuildHasher>,
    /// Those that go on though another one has taken their place, by their addresses.
    replaced: papaya::HashMap<usize, Arc<Fill>, FxBuildHasher>,
    /// How many fills there are of variants of a key, which are not found by it.
    variants: papaya::HashMap<Key, usize, FxBuildHasher>,
    pub(crate) figures: Counts,
}

/// What is counted of them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    begun: AtomicU64,
    stored: AtomicU64,
    unstored: AtomicU64,
    broken: AtomicU64,
    followed: AtomicU64,
}

/// For the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FillFigures {
    /// Fills at this moment.
    pub now: u64,
    /// Fills that were begun.
    pub begun: u64,
    /// Of these, those whose object was stored.
    pub stored: u64,
    /// Those that were to be stored and were not: no space, an error of the disk.
    pub unstored: u64,
    /// Those whose origin did not send all.
    pub broken: u64,
    /// Requests that got bytes of one as they came, the leaders' own included.
    pub followed: u64,
    /// Bytes in memory of all fills of the process.
    pub memory: u64,
}

impl fmt::Debug for Fills {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fills").field("now", &self.map.len()).finish_non_exhaustive()
    }
}

/// What a request for an absent object does.
#[derive(Debug)]
pub enum Lead {
    /// Asks the origin, and gives what it sends to the fill.
    Leader(Filling),
    /// Another one does.
    Follow(Arc<Fill>),
    /// The object has changed since it was looked for: look again.
    Changed,
    /// Asks the origin for itself, and stores nothing: there are [`MAX_FILLS`], or the cache has not been started.
    Alone,
}

/// An object that is being fetched.
pub struct Fill {
    cache: Arc<Cache>,
    disk: Arc<Disk>,
    key: Key,
    /// The key of its text: another one for a variant.
    main: Key,
    /// Purges that come later mean this object. Set when it can be found, so that none is missed.
    sequence: AtomicU64,
    began: Instant,
    pool: Arc<ThreadPool>,
    client: u64,
    /// Another one has its place, or may have it soon.
    replaced: AtomicBool,
    state: Mutex<State>,
    /// Told when it cannot be found any more.
    closed: Notify,
}

/// What a fill is known by that cannot be found by its key.
fn address(fill: &Arc<Fill>) -> usize {
    Arc::as_ptr(fill) as usize
}

impl fmt::Debug for Fill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Fill").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Fills {
    pub(crate) fn figures(&self) -> FillFigures {
        let Counts { begun, stored, unstored, broken, followed } = &self.figures;
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

    /// What is being fetched for this key, or for a variant of it, is not to be stored: it was purged meanwhile. Who follows goes
    /// on; nobody joins.
    pub(crate) fn forbid(&self, key: Key) {
        let (map, replaced) = (self.map.pin(), self.replaced.pin());
        let mut meant: Vec<Arc<Fill>> = map.get(&key).cloned().into_iter().collect();
        // There may be thousands of others: they are looked at only where one of them is meant.
        if self.variants.pin().contains_key(&key) {
            meant.extend(map.values().filter(|fill| fill.main == key && fill.key != key).cloned());
        }
        meant.extend(replaced.values().filter(|fill| fill.main == key || fill.key == key).cloned());
        for fill in meant {
            fill.with(|state, wakes| state.give_up_disk(wakes));
            self.remove(&fill);
        }
    }

    /// The same for what purges mean. Of a response whose head has not come nobody knows that: nobody joins it any more, and before
    /// it is stored it is compared with them.
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

    /// The number of the oldest one that may still be stored.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let (map, replaced) = (self.map.pin(), self.replaced.pin());
        let may_be_stored =
            |fill: &&Arc<Fill>| fill.with(|state, _| matches!(state.storing, Storing::Undecided | Storing::Yes));
        let of_these = map.values().chain(replaced.values()).filter(may_be_stored);
        of_these.map(|fill| fill.sequence.load(Acquire)).min()
    }

    /// A fill comes, or has gone: if it is of a variant, it is counted.
    fn count(&self, fill: &Fill, comes: bool) {
        if fill.key != fill.main {
            self.variants.pin().compute(fill.main, |there| match there.map_or(0, |(_, number)| *number) {
                number if comes => papaya::Operation::Insert(number + 1),
                0 => papaya::Operation::Abort(()),
                1 => papaya::Operation::Remove,
                number => papaya::Operation::Insert(number - 1),
            });
        }
    }

    /// It goes on, and is found by nobody.
    fn hide(&self, fill: &Arc<Fill>) {
        self.set_aside(fill);
        let _ = self.map.pin().remove_if(&fill.key, |_, there| Arc::ptr_eq(there, fill));
    }

    /// Another one may take its place, while it goes on: it is found in one of the two places at any time, or has ended.
    fn set_aside(&self, fill: &Arc<Fill>) {
        fill.replaced.store(true, Release);
        self.replaced.pin().insert(address(fill), fill.clone());
        if fill.with(|state, _| state.is_closed()) {
            self.replaced.pin().remove(&address(fill));
        }
    }

    fn remove(&self, fill: &Arc<Fill>) {
        // First this: who takes its place meanwhile sees it, or has put it among those replaced before this looks there.
        let (was_closed, left) = fill.with(|state, _| (state.is_closed(), state.close()));
        drop(left);
        // It may have been replaced, and is not in the map then.
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

impl Cache {
    /// What is being fetched for a key and can be followed: for status pages.
    pub fn fill_of(&self, key: Key) -> Option<Arc<Fill>> {
        self.fills().get(key)
    }

    /// Whether another entry of a key is there than the one that was found (or none was). What is being fetched is stored before
    /// [`fill_of`](Cache::fill_of) finds it no more, so who asks this after that misses nothing.
    pub fn has_changed(&self, key: Key, known: Option<&Arc<Entry>>) -> bool {
        let now = self.peek(key).filter(|entry| !entry.is_foreign());
        now.is_some_and(|now| known.is_none_or(|known| !Arc::ptr_eq(known, &now)))
    }

    /// Leads or follows the fill of a key; `main` is the key of its text, which is another one for a variant.
    ///
    /// `known` is the entry that the request has found (one that is stale), or none: another one there now means
    /// [`Lead::Changed`]. A fill without a head that is older than `age` (`proxy_cache_lock_age`) is not followed, but led
    /// anew. `aio` and `client` say how, and for whom, files are written.
    pub fn lead(
        self: &Arc<Self>,
        key: Key,
        main: Key,
        known: Option<&Arc<Entry>>,
        age: Option<Duration>,
        aio: &Aio,
        client: u64,
    ) -> Lead {
        let Some(disk) = self.disk() else { return Lead::Alone };
        let map = self.fills().map.pin();
        let mut spare: Option<Arc<Fill>> = None;
        // Each round somebody else has come or gone; two at the same instant are rare, a dozen are not seen.
        for _ in 0..MAX_ROUNDS {
            let there = map.get(&key);
            if let Some(fill) = there
                && fill.is_open()
                && !age.is_some_and(|age| fill.is_overdue(age))
            {
                return Lead::Follow(fill.clone());
            }
            if map.len() + self.fills().replaced.len() >= MAX_FILLS {
                return Lead::Alone;
            }
            let fill = spare.take().unwrap_or_else(|| {
                let pool = aio.pool().unwrap_or(&disk.pool).clone();
                Arc::new(Fill::new(self.clone(), disk.clone(), (key, main), pool, client))
            });
            let before = there.cloned();
            if let Some(before) = &before {
                self.fills().set_aside(before);
            }
            self.fills().count(&fill, true);
            let placed = map.compute(key, |there| match (there, &before) {
                (None, None) => papaya::Operation::Insert(fill.clone()),
                (Some((_, there)), Some(before)) if Arc::ptr_eq(there, before) => {
                    papaya::Operation::Insert(fill.clone())
                }
                _ => papaya::Operation::Abort(()),
            });
            if matches!(placed, papaya::Compute::Aborted(())) {
                self.fills().count(&fill, false);
                spare = Some(fill);
                continue;
            }
            fill.sequence.store(self.sequence(), Release);
            // One that was there a moment ago may just have stored what is wanted.
            if self.has_changed(key, known) {
                // Who has found it meanwhile asks the origin.
                Filling { fill, over: false }.not_storable();
                return Lead::Changed;
            }
            self.fills().figures.begun.fetch_add(1, Relaxed);
            return Lead::Leader(Filling { fill, over: false });
        }
        Lead::Alone
    }
}

/// How often leading a fill is tried while others do the same.
const MAX_ROUNDS: usize = 12;

impl Fill {
    fn new(cache: Arc<Cache>, disk: Arc<Disk>, keys: (Key, Key), pool: Arc<ThreadPool>, client: u64) -> Fill {
        let (key, main) = keys;
        let (sequence, began) = (AtomicU64::new(0), Instant::now());
        let replaced = AtomicBool::new(false);
        Fill {
            cache,
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

    /// Does something with the state, and wakes afterwards who is to be woken. The lock is held for a look into a list, and
    /// never while something waits.
    fn with<T>(&self, act: impl FnOnce(&mut State, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let result = act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), &mut wakes);
        wakes.into_iter().for_each(std::task::Waker::wake);
        result
    }

    /// The key that was asked for. The object may be stored under another one (`Vary`).
    pub fn key(&self) -> Key {
        self.key
    }

    fn is_open(&self) -> bool {
        self.with(|state, _| state.is_open())
    }

    fn is_overdue(&self, age: Duration) -> bool {
        self.began.elapsed() >= age && self.with(|state, _| matches!(state.phase, Phase::Asked))
    }

    /// How far it is, without waiting.
    pub fn progress(&self) -> Progress {
        self.with(|state, _| match &state.phase {
            Phase::Asked => Progress::Asked,
            Phase::Known(head) => Progress::Known(head.clone()),
            Phase::Never => Progress::Never,
        })
    }

    /// A follower at the first byte; `None` where it cannot be followed (any more). `aio` and `client` say how, and for whom,
    /// it reads what is in memory no longer.
    pub fn join(self: &Arc<Self>, aio: Aio, client: u64) -> Option<Follower> {
        self.seated(false, aio, client)
    }

    fn seated(self: &Arc<Self>, leads: bool, aio: Aio, client: u64) -> Option<Follower> {
        let seat = self.with(|state, _| if state.can_join(0) { state.seats.take(0, leads) } else { None })?;
        Some(Follower::new(self.clone(), seat, aio, client))
    }

    /// Starts the task that writes, if it has something to do. Where no pool takes it, nothing is stored.
    fn work(self: &Arc<Self>) {
        if self.with(|state, _| state.wants_work()) {
            write::start(self);
        }
    }

    /// The task that writes has stored it.
    fn done(self: &Arc<Self>) {
        self.cache.fills().figures.stored.fetch_add(1, Relaxed);
        self.cache.fills().remove(self);
        drop(self.with(|state, _| state.stopped()));
    }

    /// The task that writes has ended without storing it.
    fn abandoned(self: &Arc<Self>) {
        self.with(|state, wakes| state.give_up_disk(wakes));
        self.cache.fills().remove(self);
        drop(self.with(|state, _| state.stopped()));
    }

    /// The disk has refused it.
    fn failed(self: &Arc<Self>, error: &FileError) {
        self.disk.trouble(error, &self.cache.c_path_of(self.key));
        self.unstored();
    }

    /// Storing has failed.
    fn unstored(self: &Arc<Self>) {
        let was = self.with(|state, wakes| {
            let was = state.storing;
            state.give_up_disk(wakes);
            was
        });
        if matches!(was, Storing::Undecided | Storing::Yes) {
            self.cache.fills().figures.unstored.fetch_add(1, Relaxed);
            self.cache.fills().remove(self);
        }
    }
}

/// Gives what the origin sends to a fill. Dropping it before [`end`](Filling::end) means that the rest never comes: who
/// follows gets an error, and nothing is stored.
#[derive(Debug)]
pub struct Filling {
    fill: Arc<Fill>,
    over: bool,
}

/// Nobody wants the rest: no client follows, and it is not being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody wants the rest of it")]
pub struct Unwanted;

impl Filling {
    /// The fill, for the leader's own response to follow.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// The leader's own follower: as [`Fill::join`], and however many there are.
    pub fn follow(&self, aio: Aio, client: u64) -> Option<Follower> {
        self.fill.seated(true, aio, client)
    }

    /// The head has come. The body's length is what `length` says; where it does not, [`Head::body`] counts for nothing. The
    /// object is stored under `key`, unless there is no space or the disk is not well: then it is only passed on. Says
    /// whether it is going to be stored.
    pub fn head(&mut self, head: Head, length: Option<u64>, key: Key) -> bool {
        let cache = &self.fill.cache;
        let mut head = head;
        head.body = length.unwrap_or(0);
        let size = head.size() as u64;
        let reserved = match length {
            _ if !self.fill.disk.health.may_store() || window::held() > MOST_MEMORY => None,
            _ if head.size() > MAX_HEAD => None,
            Some(length) => cache.reserve(size.saturating_add(length)),
            None => cache.reserve(size + RESERVE),
        };
        let head = Arc::new(head);
        let stores = self.fill.with(|state, wakes| {
            // It may have been purged since.
            let stores = reserved.is_some() && state.storing == Storing::Undecided;
            if stores {
                (state.reserved, state.begin) = (reserved, size);
                state.keeping = Some(write::Keeping::new(head.clone(), key, length.is_some()));
            }
            state.head(head, length, if stores { Storing::Yes } else { Storing::No }, wakes);
            stores
        });
        if !stores {
            cache.fills().figures.unstored.fetch_add(1, Relaxed);
            // Who waits for the head follows; who comes now leads another one.
            cache.fills().remove(&self.fill);
        }
        stores
    }

    /// The answer is not for others: who waits asks the origin for itself.
    pub fn not_storable(mut self) {
        self.over = true;
        self.fill.with(|state, wakes| {
            state.phase = Phase::Never;
            state.finish(End::Broken, wakes);
        });
        self.fill.cache.fills().remove(&self.fill);
    }

    /// The next bytes of the body. They are there for all who follow when this is first polled; it is ready when there is room
    /// for more.
    ///
    /// # Errors
    /// [`Unwanted`]: it need not go on.
    pub async fn push(&mut self, piece: Bytes) -> Result<(), Unwanted> {
        self.give(piece);
        let fill = &self.fill;
        let room = poll_fn(|context| {
            let (poll, work) = fill.with(|state, _| (state.poll_room(context), state.wants_work()));
            if work {
                write::start(fill);
                // Where no pool took it there is room, or nobody left.
                return fill.with(|state, _| state.poll_room(context));
            }
            poll
        });
        tokio::pin!(room);
        while freerun_runtime::timer::timeout(fill.disk.health.limit(), room.as_mut()).await.is_err() {
            // A disk that does not go on: do without it. A client that does not is waited for.
            if fill.with(|state, _| state.is_storing() && !state.has_moved()) {
                fill.disk.health.late();
                fill.unstored();
            }
        }
        if fill.with(|state, _| state.is_unwanted()) { Err(Unwanted) } else { Ok(()) }
    }

    fn give(&mut self, piece: Bytes) {
        let enough = self.fill.with(|state, wakes| {
            state.push(piece, wakes);
            state.cover(RESERVE)
        });
        if !enough {
            self.fill.unstored();
        }
        self.fill.work();
    }

    /// All of the body has come at once.
    pub fn whole(mut self, body: Bytes) {
        self.fill.with(|state, wakes| state.push(body, wakes));
        self.finish(End::Whole);
    }

    /// The body is whole. It gets its name in the background; until then those who come follow the fill. One that is shorter
    /// or longer than was announced is not whole: that is as if this were dropped.
    pub fn end(mut self) {
        self.finish(End::Whole);
    }

    fn finish(&mut self, end: End) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let fill = &self.fill;
        let (end, storing) = fill.with(|state, wakes| {
            state.finish(end, wakes);
            (state.end, state.is_storing())
        });
        if end == Some(End::Broken) {
            fill.cache.fills().figures.broken.fetch_add(1, Relaxed);
        }
        if storing {
            fill.work();
        } else {
            fill.cache.fills().remove(fill);
        }
    }
}

/// Beyond this many bytes in all windows nothing new is stored: the disks do not keep up.
const MOST_MEMORY: u64 = 2 * WINDOWS;

impl Drop for Filling {
    fn drop(&mut self) {
        self.finish(End::Broken);
    }
}
