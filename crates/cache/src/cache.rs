//! A cache, as its callers see it: one `keys_zone`, which all loops share.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use freerun_runtime::files::{Aio, FileSystem};
use freerun_runtime::pool::ThreadPool;

pub use crate::config::{CacheConfig, Pace};
use crate::disk::Disk;
use crate::fill::{Fill, FillFigures, Fills, Lead};
use crate::health::HealthFigures;
use crate::index::Event;
pub use crate::index::{About, Entry, IndexAnswer, Leave, LoadState, Reservation};
pub use crate::journal::SYNCED;
use crate::key::Key;
use crate::manager::{Handle, START_WAIT};
use crate::memory::MemoryFigures;
use crate::purge::{MAX_TEXT, Purge, PurgeRefused};
pub use crate::reporter::Tell;
use crate::rules::Lifetime;
use crate::store::Store;
use crate::usage::Usage;

/// A `keys_zone`. It is made while a configuration is read and does nothing before [`start`](Cache::start).
#[derive(Debug)]
pub struct Cache {
    store: Arc<Store>,
    /// Fills that are under way. The cache's thread ends when the cache is gone and nothing is fetched any more.
    fills: Arc<Fills>,
    thread: Handle,
}

impl Cache {
    /// Makes a cache with an empty index. This is cheap: it touches no file.
    pub fn new(config: CacheConfig) -> Cache {
        let store = Arc::new(Store::new(config));
        Cache { fills: Arc::new(Fills::new(store.clone())), store, thread: Handle::default() }
    }

    /// Sets how the disk is reached. This has to be called before [`start`](Cache::start); later calls have no effect.
    /// `pool` runs the work that belongs to no request. Before this call nothing is stored on the disk or read from it.
    pub fn attach(&self, files: Arc<FileSystem>, pool: Arc<ThreadPool>) {
        let config = self.config();
        let folder = CString::new(config.path.as_os_str().as_bytes()).unwrap_or_default();
        let reporter = &self.store.reporter;
        self.store.disk.get_or_init(|| Arc::new(Disk::new(folder, files, pool, reporter.clone())));
    }

    #[cfg(test)]
    pub(crate) fn fills(&self) -> &Arc<Fills> {
        &self.fills
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The fill of a key, if a request that comes now can follow it.
    pub fn fill_of(&self, key: Key) -> Option<Arc<Fill>> {
        self.fills.get(key)
    }

    /// Whether the key has another entry than `known`, the entry found before (or none). A fill's object is stored
    /// before [`fill_of`](Cache::fill_of) stops finding the fill, so a caller that asks this after that misses nothing.
    pub fn has_changed(&self, key: Key, known: Option<&Arc<Entry>>) -> bool {
        self.store.has_changed(key, known)
    }

    /// Leads or follows the fill of a key; `main` is the key of the key's text, which differs from `key` for a variant.
    ///
    /// `known` is the entry that the request has found (one that is stale), or none: if the index has another one now,
    /// the answer is [`Lead::Changed`]. A fill to which nothing has come for as long as `age` (`proxy_cache_lock_age`) is
    /// not followed, but led anew. `aio` says how files are written, `client` for which client.
    pub fn lead(
        &self,
        key: Key,
        main: Key,
        known: Option<&Arc<Entry>>,
        age: Option<Duration>,
        aio: &Aio,
        client: u64,
    ) -> Lead {
        self.fills.lead((key, main), known, age, aio, client)
    }

    /// The counters of how the cache was used.
    pub fn usage(&self) -> &Usage {
        &self.store.usage
    }

    /// Number of requests for a key without an object, where that is counted (`cache_min_uses`).
    pub fn uses(&self, key: Key) -> u32 {
        self.store.index.uses(key)
    }

    /// Figures of the disk's health, of the memory tier, and of the fills.
    pub fn tiers(&self) -> (HealthFigures, MemoryFigures, FillFigures) {
        let health = self.store.disk.get().map(|disk| disk.health.figures()).unwrap_or_default();
        (health, self.store.memory.figures(), self.fills.figures())
    }

    /// Takes over the present configuration, with the function that reports errors from now on. The first call also starts
    /// the cache's thread and waits a moment for the index, so it is for a control thread, not for a loop. The folder and
    /// its levels identify a cache: they do not change.
    ///
    /// # Errors
    /// The thread could not be made.
    pub fn start(&self, config: CacheConfig, tell: Tell) -> io::Result<()> {
        if self.begin(config, tell)? {
            self.wait_loaded(START_WAIT);
        }
        Ok(())
    }

    /// As [`start`](Cache::start), but does not wait for the index. Returns whether this has started the thread.
    ///
    /// # Errors
    /// The thread could not be made.
    pub fn begin(&self, config: CacheConfig, tell: Tell) -> io::Result<bool> {
        self.store.index.space.set_limits(config.max_size, config.max_entries());
        self.store.memory.resize(config.memory);
        self.store.config.store(Arc::new(config));
        self.store.reporter.set(tell);
        self.store.index.bell.urgent();
        self.thread.start(&self.store, &self.fills)
    }

    /// Waits for the index of a cache that was begun. For a control thread.
    pub fn wait_loaded(&self, limit: Duration) {
        self.thread.wait_loaded(limit);
    }

    /// Tells the thread to write everything down and to end, and waits for its end, at most for `limit`. True if the
    /// next process will find the index whole. For a control thread.
    pub fn stop(&self, limit: Duration) -> bool {
        self.store.end();
        self.thread.wait(limit)
    }

    /// The present configuration of the cache.
    pub fn config(&self) -> Arc<CacheConfig> {
        self.store.config.load_full()
    }

    /// Looks up a key; a stored object is noted as used. `now` is in seconds since 1970.
    pub fn find(&self, key: Key, now: u64) -> IndexAnswer {
        self.store.index.find(key, now)
    }

    /// The entry of a key. Unlike [`find`](Cache::find) this notes no use, and the entry may be
    /// [foreign](Entry::is_foreign).
    pub fn peek(&self, key: Key) -> Option<Arc<Entry>> {
        self.store.index.peek(key)
    }

    /// Counts a use of a key that has no object (`proxy_cache_min_uses`). The answer includes this use. An object that is
    /// stored and cannot be read now, the entry `known`, has had all its uses: the answer is `u32::MAX`. `None`: an object
    /// was stored since the caller looked for one, and nothing is counted.
    pub fn count(&self, key: Key, known: Option<&Arc<Entry>>, now: u64) -> Option<u32> {
        if known.is_some() {
            return (!self.has_changed(key, known)).then_some(u32::MAX);
        }
        let uses = self.store.index.count(key, now);
        // An object that is stored later than this look takes the count away itself.
        if self.has_changed(key, None) {
            self.store.index.forget_count(key);
            return None;
        }
        Some(uses)
    }

    /// The number of the newest purge. A caller takes it before it asks the upstream, and gives it to
    /// [`stored`](Cache::stored).
    pub fn sequence(&self) -> u64 {
        self.store.index.sequence()
    }

    /// Reserves space for a file of this number of bytes, without waiting. `None`: there is no space at the moment.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.store.reserve(bytes)
    }

    /// Reserves space as [`reserve`](Cache::reserve) does, but waits up to `limit` for the cache's thread to make room.
    pub async fn reserve_within(&self, bytes: u64, limit: Duration) -> Option<Reservation> {
        let space = &self.store.index.space;
        if let Some(reservation) = self.reserve(bytes) {
            return Some(reservation);
        }
        if !space.can_ever_hold(bytes) {
            return None;
        }
        let retry = async {
            loop {
                let mut freed = std::pin::pin!(space.freed.notified());
                freed.as_mut().enable();
                if let Some(reservation) = self.reserve(bytes) {
                    return reservation;
                }
                freed.await;
            }
        };
        freerun_runtime::timer::timeout(limit, retry).await.ok()
    }

    /// Extends a reservation to this number of bytes in all, and waits up to `limit` for the cache's thread to make
    /// room. False: there is not enough space.
    pub async fn cover_within(&self, reservation: &mut Reservation, bytes: u64, limit: Duration) -> bool {
        let space = &self.store.index.space;
        if reservation.cover(bytes) {
            return true;
        }
        if !space.can_ever_hold(bytes) {
            return false;
        }
        let retry = async {
            loop {
                let mut freed = std::pin::pin!(space.freed.notified());
                freed.as_mut().enable();
                if reservation.cover(bytes) {
                    return;
                }
                freed.await;
            }
        };
        freerun_runtime::timer::timeout(limit, retry).await.is_ok()
    }

    /// Takes an object into the index, in the place of the key's earlier one. The object has been written whole and its
    /// file has its name. `None`: its key was purged while it was fetched, and the file is removed.
    pub fn stored(&self, about: &About, reservation: Reservation, now: u64) -> Option<Arc<Entry>> {
        self.store.stored(about, reservation, now)
    }

    /// Takes a file into the index that was found on the disk, and read, for a key that was [`IndexAnswer::Unknown`]. `None`:
    /// it may not be used (the key was purged), or there is an entry by now, which [`find`](Cache::find) has. `main` is
    /// the key of the key's text.
    pub fn adopt(&self, key: Key, main: Key, size: u64, lifetime: Lifetime, now: u64) -> Option<Arc<Entry>> {
        let index = &self.store.index;
        let about = About { key, main, size, sequence: 0, lifetime };
        let entry = Entry::new(&about, index.space.round(size), now);
        entry.set_verified();
        index.adopt(entry)
    }

    /// Gives an object a new lifetime, in the index and its journal, after the upstream said that the object is still
    /// good (304). The file stays as it is.
    pub fn revalidated(&self, entry: &Arc<Entry>, lifetime: Lifetime) {
        self.store.index.renew(entry, lifetime);
    }

    /// Removes this object and no other one: its file is damaged, or its content is known to be wrong. False: it was
    /// already gone.
    pub fn discard(&self, entry: &Arc<Entry>, why: Leave) -> bool {
        self.store.discard(entry, why)
    }

    /// Removes the object of a key, if there is one, with all its variants (the exact purge). An object that is being
    /// fetched at this moment is not stored. True if there was an object. The purge is in force at once;
    /// [`settled`](Cache::settled) tells when the file is gone, too.
    pub fn remove(&self, key: Key) -> bool {
        // The fills come first, so that the look at the index comes after everything that they may put there.
        self.fills.forbid(key);
        let (_, removed) = self.purge_key(key);
        removed
    }

    fn purge_key(&self, key: Key) -> (u64, bool) {
        let (number, removed) = self.store.index.purge(key);
        self.store.memory.forget(key);
        if removed {
            self.store.work.purged.fetch_add(1, Relaxed);
        }
        (number, removed)
    }

    /// Purges all objects that `what` means, at once; their files are removed in the background. Returns the number of
    /// the purge.
    ///
    /// # Errors
    /// The purge is refused, see [`PurgeRefused`].
    pub fn purge(&self, what: &Purge) -> Result<u64, PurgeRefused> {
        self.purge_all(std::slice::from_ref(what))
    }

    /// Purges all objects that several purges mean, at once. Returns the number of the last purge.
    ///
    /// # Errors
    /// One of the purges is refused; none is in force then.
    pub fn purge_all(&self, all: &[Purge]) -> Result<u64, PurgeRefused> {
        if all.iter().any(|what| what.text().len() > MAX_TEXT) {
            return Err(PurgeRefused::TooLong);
        }
        let mut number = self.sequence();
        let mut listed = false;
        for what in all {
            number = match what {
                // This needs no entry in the list: variants know the key that they belong to.
                Purge::Key(text) => self.purge_key(Key::of(text)).0,
                what => {
                    listed = true;
                    self.store.purges.add(what, &self.store.index)?
                }
            };
        }
        self.fills.purged(all, number);
        if listed {
            self.store.index.tell(Event::Purges);
        }
        Ok(number)
    }

    /// Whether a purge newer than the object means it. This has to be asked whenever an object is opened or taken from
    /// memory; if the answer is true, the object has to be [discarded](Cache::discard). If nothing was purged
    /// meanwhile, this costs one comparison.
    pub fn is_purged(&self, entry: &Entry, key: &[u8], tags: &[bytes::Bytes]) -> bool {
        if self.store.index.is_marked(entry) {
            return true;
        }
        let newest = self.store.purges.newest();
        let checked = entry.checked();
        if checked >= newest {
            return false;
        }
        let meant = self.store.purges.means(checked, key, tags);
        if !meant {
            entry.set_checked(newest);
        }
        meant
    }

    /// Waits until the thread has handled everything that was put into its queue so far: files of removed objects are
    /// gone, purges are on the disk. False: this took longer than `limit`, or the cache has ended.
    pub async fn settled(&self, limit: Duration) -> bool {
        let index = &self.store.index;
        if matches!(index.state(), LoadState::Stopped) {
            return false;
        }
        let number = index.ask_settled();
        let wait = async {
            loop {
                let mut settled = std::pin::pin!(index.settle.notified());
                settled.as_mut().enable();
                if index.has_settled(number) {
                    return;
                }
                settled.await;
            }
        };
        freerun_runtime::timer::timeout(limit, wait).await.is_ok()
    }

    /// Asks the thread to tell when it has handled everything that was put into its queue so far; the number is for
    /// [`has_settled`](Cache::has_settled).
    pub fn ask_settled(&self) -> u64 {
        self.store.index.ask_settled()
    }

    /// Whether the thread has handled everything that was in its queue when [`ask_settled`](Cache::ask_settled) gave this
    /// number: files of removed objects are gone, purges are on the disk.
    pub fn has_settled(&self, number: u64) -> bool {
        self.store.index.has_settled(number)
    }

    /// Up to `most` objects that are variants of a key (`Vary`), besides the object stored under the key itself. It
    /// looks at the whole index, so no loop calls this. An object of another key may be among them, if 32 bits of both
    /// are equal.
    pub fn variants(&self, of: Key, most: usize) -> Vec<Arc<Entry>> {
        self.store.index.variants(of, most)
    }

    /// The path of a key's file.
    pub fn path_of(&self, key: Key) -> PathBuf {
        self.store.path_of(key)
    }

    /// Reads the figures of the cache one after the other, while it works.
    pub fn figures(&self) -> Figures {
        let Store { index, purges, work, .. } = &*self.store;
        let space = index.space.figures();
        Figures {
            state: index.state(),
            entries: index.len(),
            max_entries: space.max_entries,
            counted: index.counted(),
            used: space.taken.saturating_sub(space.reserved),
            reserved: space.reserved,
            max_size: space.limit,
            refused: space.refused,
            pending: index.events.len(),
            purges: purges.len(),
            evicted: work.evicted.load(Relaxed),
            inactive: work.inactive.load(Relaxed),
            purged: work.purged.load(Relaxed),
            damaged: work.damaged.load(Relaxed),
            adopted: work.adopted.load(Relaxed),
            orphans: work.orphans.load(Relaxed),
            loaded: work.loaded.load(Relaxed),
            load_ms: work.load_ms.load(Relaxed),
            failed_removals: work.failed_removals.load(Relaxed),
        }
    }
}

/// Figures of a cache.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Progress of loading the index.
    pub state: LoadState,
    /// The number of objects.
    pub entries: usize,
    /// The limit of the number of objects.
    pub max_entries: u64,
    /// Keys without objects whose uses are counted.
    pub counted: usize,
    /// Bytes of objects on the disk.
    pub used: u64,
    /// Bytes reserved for objects that are being written.
    pub reserved: u64,
    /// The limit of the bytes stored and reserved together.
    pub max_size: u64,
    /// Reservations that were refused for lack of space.
    pub refused: u64,
    /// Changes that the cache's thread has not looked at yet.
    pub pending: usize,
    /// Purges whose objects are still being removed.
    pub purges: usize,
    /// Objects removed to make room.
    pub evicted: u64,
    /// Objects removed because no request asked for them.
    pub inactive: u64,
    /// Objects removed by purges and invalidations.
    pub purged: u64,
    /// Objects whose files were not what they should be.
    pub damaged: u64,
    /// Files found on the disk that were missing from the journal.
    pub adopted: u64,
    /// Left-over files removed.
    pub orphans: u64,
    /// Entries that were loaded from the journal.
    pub loaded: u64,
    /// Duration of loading the entries, in milliseconds.
    pub load_ms: u64,
    /// Files that could not be removed; their removal is tried again.
    pub failed_removals: u64,
}
