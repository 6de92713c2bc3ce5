//! A cache, as those see it who ask it for objects: one `keys_zone`, which all loops share.

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
pub use crate::index::{About, Entry, Found, Leave, Reservation, State};
use crate::key::Key;
use crate::manager::Handle;
use crate::memory::MemoryFigures;
use crate::purge::{MAX_TEXT, Purge, PurgeRefused};
use crate::rules::Lifetime;
use crate::store::Store;
pub use crate::tell::Tell;
use crate::usage::Usage;

/// One `keys_zone`. It is made while a configuration is read and does nothing before [`start`](Cache::start).
#[derive(Debug)]
pub struct Cache {
    store: Arc<Store>,
    /// They end the thread, when the cache has gone and nothing is fetched any more.
    fills: Arc<Fills>,
    thread: Handle,
}

impl Cache {
    /// A cache of which nothing is known yet. Cheap: it touches no file.
    pub fn new(config: CacheConfig) -> Cache {
        let store = Arc::new(Store::new(config));
        Cache { fills: Arc::new(Fills::new(store.clone())), store, thread: Handle::default() }
    }

    /// Says how the disk is reached: before [`start`](Cache::start), and to no effect later. `pool` is for what belongs to no
    /// request. Nothing is stored or read from the disk before.
    pub fn attach(&self, files: Arc<FileSystem>, pool: Arc<ThreadPool>, tell: Tell) {
        let config = self.config();
        let folder = CString::new(config.path.as_os_str().as_bytes()).unwrap_or_default();
        self.store.disk.get_or_init(|| Arc::new(Disk::new(folder, files, pool, tell)));
    }

    #[cfg(test)]
    pub(crate) fn fills(&self) -> &Arc<Fills> {
        &self.fills
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What is being fetched for a key and can be followed: for status pages.
    pub fn fill_of(&self, key: Key) -> Option<Arc<Fill>> {
        self.fills.get(key)
    }

    /// Whether another entry of a key is there than the one that was found (or none was). What is being fetched is stored before
    /// [`fill_of`](Cache::fill_of) finds it no more, so who asks this after that misses nothing.
    pub fn has_changed(&self, key: Key, known: Option<&Arc<Entry>>) -> bool {
        self.store.has_changed(key, known)
    }

    /// Leads or follows the fill of a key; `main` is the key of its text, which is another one for a variant.
    ///
    /// `known` is the entry that the request has found (one that is stale), or none: another one there now means
    /// [`Lead::Changed`]. A fill without a head that is older than `age` (`proxy_cache_lock_age`) is not followed, but led
    /// anew. `aio` and `client` say how, and for whom, files are written.
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

    /// What it was good for.
    pub fn usage(&self) -> &Usage {
        &self.store.usage
    }

    /// How often a key was asked for that has no object yet, where that is counted (`cache_min_uses`).
    pub fn uses(&self, key: Key) -> u32 {
        self.store.index.uses(key)
    }

    /// Figures of the disk's health, the memory tier, and of objects that are being fetched.
    pub fn tiers(&self) -> (HealthFigures, MemoryFigures, FillFigures) {
        let health = self.store.disk().map(|disk| disk.health.figures()).unwrap_or_default();
        (health, self.store.memory.figures(), self.fills.figures())
    }

    /// Takes over what the configuration says now, and starts the cache's thread with the first call, which waits a
    /// moment for the index to be there: for a control thread, not for a loop. Folder and levels are what a cache is known
    /// by: they do not change.
    ///
    /// # Errors
    /// The thread could not be made.
    pub fn start(&self, config: CacheConfig, tell: Tell) -> io::Result<()> {
        self.store.index.space.set_limits(config.max_size, config.max_entries());
        self.store.memory.resize(config.memory);
        self.store.config.store(Arc::new(config));
        self.store.index.bell.urgent();
        self.thread.start(&self.store, &self.fills, tell)
    }

    /// Has everything written down and the thread ended, for which it waits no longer than `limit`. True if the next
    /// process will find the index whole. For a control thread.
    pub fn stop(&self, limit: Duration) -> bool {
        self.store.end();
        self.thread.wait(limit)
    }

    /// What the configuration says.
    pub fn config(&self) -> Arc<CacheConfig> {
        self.store.config.load_full()
    }

    /// What is known of a key; a stored object is noted as used. `now` is in seconds since 1970.
    pub fn find(&self, key: Key, now: u64) -> Found {
        self.store.index.find(key, now)
    }

    /// The entry of a key without its being used: for status pages. It may be [foreign](Entry::is_foreign).
    pub fn peek(&self, key: Key) -> Option<Arc<Entry>> {
        self.store.peek(key)
    }

    /// Counts a use of a key that has no object (`proxy_cache_min_uses`), this one included.
    pub fn count(&self, key: Key, now: u64) -> u32 {
        self.store.index.count(key, now)
    }

    /// The number of the newest purge. It is taken before the upstream is asked, and given to [`stored`](Cache::stored).
    pub fn sequence(&self) -> u64 {
        self.store.sequence()
    }

    /// Reserves space for a file of so many bytes, without waiting. `None`: there is none at the moment.
    pub fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.store.reserve(bytes)
    }

    /// As [`reserve`](Cache::reserve), but gives the cache's thread so much time to make room.
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

    /// Has a reservation cover so many bytes in all, giving the cache's thread so much time to make room. False: no.
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

    /// An object has been written whole and has its name; the index takes it, in the place of what the key had. `None`:
    /// its key was purged while it was fetched, and the file is removed.
    pub fn stored(&self, about: &About, reservation: Reservation, now: u64) -> Option<Arc<Entry>> {
        self.store.stored(about, reservation, now)
    }

    /// A file was found on the disk for a key that was [`Found::Unknown`], and read. `None`: it may not be used (the key
    /// was purged), or there is an entry by now, which [`find`](Cache::find) has. `main` is the key of its text.
    pub fn adopt(&self, key: Key, main: Key, size: u64, lifetime: Lifetime, now: u64) -> Option<Arc<Entry>> {
        let index = &self.store.index;
        let about = About { key, main, size, sequence: 0, lifetime };
        let entry = Entry::new(&about, index.space.round(size), now);
        entry.set_verified();
        index.adopt(entry)
    }

    /// The upstream said that the object is still good (304): it has a new lifetime, in the index and its journal. The
    /// file stays as it is.
    pub fn revalidated(&self, entry: &Arc<Entry>, lifetime: Lifetime) {
        self.store.index.renew(entry, lifetime);
    }

    /// Removes this object and no other one: its file is damaged, or what it says is known to be wrong. False: it was gone.
    pub fn discard(&self, entry: &Arc<Entry>, why: Leave) -> bool {
        self.store.discard(entry, why)
    }

    /// Removes what the key has, if it has something, with all its variants: the exact purge. What is fetched at this moment
    /// is not stored. True if there was an object. It is in force at once; [`settled`](Cache::settled) tells when the file is gone, too.
    pub fn remove(&self, key: Key) -> bool {
        // First what is being fetched, so that the look at the index comes after what that may put there.
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

    /// Purges all objects that are meant, at once; their files go in the background. The answer is its number.
    ///
    /// # Errors
    /// It is refused, see [`PurgeRefused`].
    pub fn purge(&self, what: &Purge) -> Result<u64, PurgeRefused> {
        self.purge_all(std::slice::from_ref(what))
    }

    /// Purges what several purges mean, at once. The answer is the number of the last one.
    ///
    /// # Errors
    /// One of them is refused; none is in force then.
    pub fn purge_all(&self, all: &[Purge]) -> Result<u64, PurgeRefused> {
        if all.iter().any(|what| what.text().len() > MAX_TEXT) {
            return Err(PurgeRefused::TooLong);
        }
        let mut number = self.sequence();
        let mut listed = false;
        for what in all {
            number = match what {
                // It needs no list: variants know whose they are.
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

    /// Whether a purge newer than the object means it. To be asked whenever an object is opened or taken from memory; if
    /// so, it is to be [discarded](Cache::discard). Where nothing was purged meanwhile this is one look.
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

    /// Waits until the thread has done all that it was told so far: files of removed objects are gone, purges are on the
    /// disk. False: not within `limit`, or the cache has ended.
    pub async fn settled(&self, limit: Duration) -> bool {
        let index = &self.store.index;
        if matches!(index.state(), State::Stopped) {
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

    /// Where the file of a key is.
    pub fn path_of(&self, key: Key) -> PathBuf {
        self.store.path_of(key)
    }

    /// Its figures. They are read one after the other while it works.
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
    /// How far the index has come.
    pub state: State,
    /// How many objects there are.
    pub entries: usize,
    /// The most there may be.
    pub max_entries: u64,
    /// Keys without objects whose uses are counted.
    pub counted: usize,
    /// Bytes of objects on the disk.
    pub used: u64,
    /// Bytes reserved for objects that are being written.
    pub reserved: u64,
    /// The most of both.
    pub max_size: u64,
    /// Reservations that were refused for want of space.
    pub refused: u64,
    /// Changes that the cache's thread has not looked at yet.
    pub pending: usize,
    /// Purges whose objects are still being removed.
    pub purges: usize,
    /// Objects removed to make room.
    pub evicted: u64,
    /// Objects removed because nobody asked for them.
    pub inactive: u64,
    /// Objects removed by purges and invalidations.
    pub purged: u64,
    /// Objects whose files were not what they should be.
    pub damaged: u64,
    /// Files found on the disk that the journal did not know.
    pub adopted: u64,
    /// Left-over files removed.
    pub orphans: u64,
    /// Entries that the journal had.
    pub loaded: u64,
    /// How long loading them took, in milliseconds.
    pub load_ms: u64,
    /// Files that could not be removed and are tried again.
    pub failed_removals: u64,
}
