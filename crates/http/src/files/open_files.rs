//! `open_file_cache`: files that are kept open, and attributes of files and folders, shared by all loops.
//!
//! A loop never waits for the cache. The names are spread over shards, each behind a lock that is held for one look
//! into a table (no system call, no allocation of more than a name). A loop that finds a shard locked by another one
//! does without the cache this time: opening a file costs about two microseconds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use freerun_runtime::files::{FileError, Meta, OpenFile};

use crate::files::hot::{Content, HotFile};

/// The largest number of shards.
const SHARDS: usize = 64;
/// A shard is made for at least this many names, so that the oldest name of a shard is nearly the oldest of all.
const SHARD_NAMES: usize = 16;
/// Open files may take this part (one in so many) of the descriptors that the process may have.
const SHARE: u64 = 4;
/// The most bytes of small contents that are kept.
const MAX_BYTES: usize = 64 << 20;
/// Number of expired names that are removed at each use, as long as there are any.
const SWEEP: usize = 2;
/// Number of open files that are closed at a time when the process has run out of descriptors: closing takes time.
const GIVEN_BACK: usize = 256;

/// All existing caches.
static CACHES: Mutex<Vec<Weak<OpenFiles>>> = Mutex::new(Vec::new());

/// Removes what all caches know of these paths, and of all paths below them, because the server itself has changed
/// them. It waits for locks, so it is for threads of the pool; a loop never waits for those locks.
pub fn changed<'p>(paths: impl Iterator<Item = &'p [u8]>) {
    let caches: Vec<_> = {
        let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.strong_count() > 0);
        caches.iter().filter_map(Weak::upgrade).collect()
    };
    for path in paths {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        for cache in &caches {
            cache.forget_below(&path[..end]);
        }
    }
}

/// Conditions for the use of a kept entry: the directives of the location that asks.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The time for which an entry is valid.
    pub valid: Duration,
    /// A file has to be used at least so often to be kept open.
    pub min_uses: u32,
    /// Whether errors are kept.
    pub errors: bool,
}

/// The cache of open files.
pub struct OpenFiles {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    shard_max: usize,
    inactive: Duration,
    max_open: usize,
    open: AtomicUsize,
    bytes: AtomicUsize,
}

impl std::fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFiles").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Arc<[u8]>, OpenFileEntry>,
    /// The names, from the one used longest ago to the one used last.
    order: BTreeMap<u64, Arc<[u8]>>,
    clock: u64,
}

struct OpenFileEntry {
    known: CachedLookup,
    checked: Instant,
    used: Instant,
    uses: u32,
    place: u64,
}

/// A cached result for a name.
#[derive(Clone)]
pub enum CachedLookup {
    /// The attributes of a file or folder that is not kept open.
    Meta(Meta),
    /// An open file or folder.
    File(HotFile),
    /// The error of opening it.
    Error(FileError),
}

impl CachedLookup {
    fn bytes(&self) -> usize {
        match self {
            CachedLookup::File(HotFile { content: Content::Bytes(bytes), .. }) => bytes.len(),
            _ => 0,
        }
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self, CachedLookup::File(HotFile { content: Content::Open(_), .. })))
    }
}

impl OpenFiles {
    /// An empty cache for `max` names, each kept for `inactive` after its last use.
    pub fn new(max: usize, inactive: Duration) -> OpenFiles {
        let shards = (max / SHARD_NAMES).clamp(1, SHARDS);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let max_open = limit.map_or(usize::MAX, |limit| usize::try_from(limit / SHARE).unwrap_or(usize::MAX));
        OpenFiles {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            shard_max: max / shards,
            inactive,
            max_open,
            open: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Enters this cache among those that [`changed`] clears.
    pub fn register(self: &Arc<Self>) {
        let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
        let this = Arc::downgrade(self);
        // A cache that is kept over a reload is entered already.
        if !caches.iter().any(|cache| cache.ptr_eq(&this)) {
            caches.push(this);
        }
    }

    /// The shard of a name; `None` if another loop holds its lock.
    fn shard(&self, name: &[u8]) -> Option<MutexGuard<'_, Shard>> {
        let index = self.hasher.hash_one(name) as usize % self.shards.len();
        self.lock(index)
    }

    /// Locks the shard with this index; `None` if another loop holds its lock.
    fn lock(&self, index: usize) -> Option<MutexGuard<'_, Shard>> {
        match self.shards.get(index)?.try_lock() {
            Ok(shard) => Some(shard),
            // Another thread has panicked; each entry is complete by itself.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The cached result for a name, if it is still valid. It counts as a use.
    pub fn get(&self, name: &[u8], terms: Terms, now: Instant) -> Option<CachedLookup> {
        let mut shard = self.shard(name)?;
        let entry = shard.entries.get(name)?;
        let old = now.saturating_duration_since(entry.checked) >= terms.valid
            || now.saturating_duration_since(entry.used) >= self.inactive;
        if old {
            return None;
        }
        let known = entry.known.clone();
        // Opening a file that is not kept open counts when it is put.
        shard.touch(name, now, u32::from(!matches!(known, CachedLookup::Meta(_))));
        Some(known)
    }

    /// Keeps the result that was just found for a name.
    pub fn put(&self, name: &[u8], mut known: CachedLookup, terms: Terms, now: Instant) {
        let Some(mut shard) = self.shard(name) else { return };
        if matches!(known, CachedLookup::Error(_)) && !terms.errors || terms.valid.is_zero() {
            self.remove(&mut shard, name);
            return;
        }
        let uses = match shard.entries.get(name) {
            Some(entry) if now.saturating_duration_since(entry.used) < self.inactive => entry.uses,
            _ => 0,
        };
        if let CachedLookup::File(file) = &known {
            let full = self.open.load(Relaxed) + known.descriptors() > self.max_open
                || self.bytes.load(Relaxed) + known.bytes() > MAX_BYTES;
            if uses + 1 < terms.min_uses || full {
                known = CachedLookup::Meta(file.meta);
            }
        }
        self.remove(&mut shard, name);
        self.expire(&mut shard, now);
        while shard.entries.len() >= self.shard_max {
            let Some(oldest) = shard.order.values().next().cloned() else { break };
            self.remove(&mut shard, &oldest);
        }
        self.open.fetch_add(known.descriptors(), Relaxed);
        self.bytes.fetch_add(known.bytes(), Relaxed);
        let name: Arc<[u8]> = name.into();
        let entry = OpenFileEntry { known, checked: now, used: now, uses, place: 0 };
        shard.entries.insert(name.clone(), entry);
        shard.touch(&name, now, 1);
    }

    fn expire(&self, shard: &mut Shard, now: Instant) {
        for _ in 0..SWEEP {
            let Some(oldest) = shard.order.values().next().cloned() else { return };
            match shard.entries.get(&oldest) {
                Some(entry) if now.saturating_duration_since(entry.used) < self.inactive => return,
                _ => self.remove(shard, &oldest),
            }
        }
    }

    fn remove(&self, shard: &mut Shard, name: &[u8]) {
        if let Some(entry) = shard.entries.remove(name) {
            shard.order.remove(&entry.place);
            self.open.fetch_sub(entry.known.descriptors(), Relaxed);
            self.bytes.fetch_sub(entry.known.bytes(), Relaxed);
        }
    }

    /// Removes the entries of a path, and of all below it, for all rules for symbolic links. Waits for each shard in
    /// turn.
    fn forget_below(&self, path: &[u8]) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let is_below = |name: &[u8]| {
                name.strip_prefix(path).is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'\0')))
            };
            let names: Vec<Arc<[u8]>> = shard.entries.keys().filter(|name| is_below(name)).cloned().collect();
            for name in names {
                self.remove(&mut shard, &name);
            }
        }
    }

    /// Removes a file that turned out to have changed.
    pub fn forget(&self, name: &[u8], file: &Arc<OpenFile>) {
        let Some(mut shard) = self.shard(name) else { return };
        let is_it = |known: &CachedLookup| match known {
            CachedLookup::File(HotFile { content: Content::Open(open), .. }) => Arc::ptr_eq(open, file),
            _ => false,
        };
        if shard.entries.get(name).is_some_and(|entry| is_it(&entry.known)) {
            self.remove(&mut shard, name);
        }
    }

    /// Closes some files, when the process has run out of descriptors. Returns whether there were any.
    pub fn close_files(&self) -> bool {
        let before = self.open.load(Relaxed);
        let mut left = GIVEN_BACK.min(before);
        for index in 0..self.shards.len() {
            if left == 0 {
                break;
            }
            let Some(mut shard) = self.lock(index) else { continue };
            // The names that were used longest ago.
            let is_open = |name: &&Arc<[u8]>| shard.entries.get(&***name).is_some_and(|of| of.known.descriptors() > 0);
            let open: Vec<Arc<[u8]>> = shard.order.values().filter(is_open).take(left).cloned().collect();
            left -= open.len();
            for name in open {
                self.remove(&mut shard, &name);
            }
        }
        before > 0
    }

    /// The number of kept names, and the number of open ones among them.
    pub fn len(&self) -> (usize, usize) {
        let names = (0..self.shards.len()).filter_map(|index| self.lock(index)).map(|shard| shard.entries.len()).sum();
        (names, self.open.load(Relaxed))
    }
}

impl Shard {
    /// Notes a use: the name becomes the last one to be removed.
    fn touch(&mut self, name: &[u8], now: Instant, uses: u32) {
        self.clock += 1;
        let place = self.clock;
        let Some(entry) = self.entries.get_mut(name) else { return };
        entry.used = now;
        entry.uses = entry.uses.saturating_add(uses);
        let before = std::mem::replace(&mut entry.place, place);
        if let Some(name) = self.order.remove(&before).or_else(|| Some(name.into())) {
            self.order.insert(place, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use freerun_runtime::files::{Aio, FileSystem};
    use freerun_runtime::pool::{PoolSpec, ThreadPool};

    const TERMS: Terms = Terms { valid: Duration::from_secs(60), min_uses: 1, errors: false };

    fn file(content: Option<Bytes>) -> CachedLookup {
        let pool = ThreadPool::start(&PoolSpec { name: "files".to_owned(), threads: 1, max_queue: 8 }).unwrap();
        let files = FileSystem::new(pool).unwrap();
        let open = files.try_open_now(c"/proc/self/exe", &Aio::Off).unwrap().unwrap();
        CachedLookup::File(HotFile::new(open, content))
    }

    fn missing() -> CachedLookup {
        CachedLookup::Error(FileError::System { call: "open()", errno: 2 })
    }

    #[test]
    fn what_the_server_changes_is_forgotten_with_all_below() {
        let (cache, now) = (Arc::new(OpenFiles::new(20, Duration::from_secs(60))), Instant::now());
        cache.register();
        let known = file(Some(Bytes::from_static(b"text")));
        let names: [&[u8]; 6] = [b"/d/a", b"/d/a/b/c", b"/d/a\0n2", b"/d/ab", b"/d", b"/x"];
        for name in names {
            cache.put(name, known.clone(), TERMS, now);
        }
        changed([&b"/d/a/"[..], b"/x"].into_iter());
        let left: Vec<&[u8]> = names.into_iter().filter(|name| cache.get(name, TERMS, now).is_some()).collect();
        assert_eq!(left, [&b"/d/ab"[..], b"/d"]);
        assert_eq!(cache.bytes.load(Relaxed), 8);
    }

    #[test]
    fn the_one_used_longest_ago_goes_first() {
        let (cache, now) = (OpenFiles::new(2, Duration::from_secs(60)), Instant::now());
        let known = file(Some(Bytes::from_static(b"text")));
        cache.put(b"a", known.clone(), TERMS, now);
        cache.put(b"b", known.clone(), TERMS, now);
        assert!(cache.get(b"a", TERMS, now).is_some());
        cache.put(b"c", known, TERMS, now);
        assert!(cache.get(b"b", TERMS, now).is_none());
        assert!(cache.get(b"a", TERMS, now).is_some() && cache.get(b"c", TERMS, now).is_some());
        assert_eq!((cache.len(), cache.bytes.load(Relaxed)), ((2, 0), 8));
    }

    #[test]
    fn what_is_old_is_not_believed_and_what_nobody_uses_goes() {
        let (cache, now) = (OpenFiles::new(20, Duration::from_secs(90)), Instant::now());
        cache.put(b"a", file(None), TERMS, now);
        assert!(cache.get(b"a", TERMS, now + Duration::from_secs(59)).is_some());
        assert!(cache.get(b"a", TERMS, now + Duration::from_secs(60)).is_none());
        assert_eq!(cache.len(), (1, 1));
        let much_later = now + Duration::from_secs(200);
        cache.put(b"b", file(None), TERMS, much_later);
        assert_eq!(cache.len(), (1, 1), "the use of another name lets it go");
        let zero = Terms { valid: Duration::ZERO, ..TERMS };
        cache.put(b"b", file(None), zero, much_later);
        assert_eq!(cache.len(), (0, 0));
    }

    #[test]
    fn a_file_is_kept_open_from_its_second_use_on_where_that_is_asked() {
        let (cache, now) = (OpenFiles::new(20, Duration::from_secs(60)), Instant::now());
        let twice = Terms { min_uses: 2, ..TERMS };
        cache.put(b"a", file(None), twice, now);
        assert!(matches!(cache.get(b"a", twice, now), Some(CachedLookup::Meta(_))));
        cache.put(b"a", file(None), twice, now);
        assert!(matches!(cache.get(b"a", twice, now), Some(CachedLookup::File(_))));
        let later = now + Duration::from_secs(61);
        cache.put(b"a", file(None), twice, later);
        assert!(
            matches!(cache.get(b"a", twice, later), Some(CachedLookup::Meta(_))),
            "counting begins anew after a pause"
        );
    }

    #[test]
    fn errors_are_kept_where_that_is_asked() {
        let (cache, now) = (OpenFiles::new(20, Duration::from_secs(60)), Instant::now());
        let errors = Terms { errors: true, ..TERMS };
        cache.put(b"a", missing(), TERMS, now);
        assert!(cache.get(b"a", errors, now).is_none());
        cache.put(b"a", missing(), errors, now);
        assert!(matches!(cache.get(b"a", errors, now), Some(CachedLookup::Error(_))));
        assert!(cache.get(b"a", TERMS, now).is_some(), "as in nginx, an error that is kept counts elsewhere, too");
        cache.put(b"a", missing(), TERMS, now);
        assert!(cache.get(b"a", errors, now).is_none());
    }

    #[test]
    fn descriptors_are_bounded_and_given_back() {
        let cache = OpenFiles { max_open: 1, ..OpenFiles::new(20, Duration::from_secs(60)) };
        let now = Instant::now();
        cache.put(b"a", file(None), TERMS, now);
        cache.put(b"b", file(None), TERMS, now);
        assert!(matches!(cache.get(b"b", TERMS, now), Some(CachedLookup::Meta(_))));
        assert_eq!(cache.len(), (2, 1));
        let Some(CachedLookup::File(HotFile { content: Content::Open(open), .. })) = cache.get(b"a", TERMS, now) else {
            panic!("it is open")
        };
        cache.forget(b"b", &open);
        assert_eq!(cache.len(), (2, 1));
        cache.forget(b"a", &open);
        assert_eq!(cache.len(), (1, 0));
        cache.put(b"a", file(None), TERMS, now);
        assert!(cache.close_files() && !cache.close_files());
        assert_eq!(cache.len(), (1, 0));
        // When many names expire, they are not removed all at once.
        let (cache, known) = (OpenFiles::new(10_000, Duration::from_secs(60)), file(None));
        for number in 0..600 {
            cache.put(format!("{number}").as_bytes(), known.clone(), TERMS, now);
        }
        let (_, open) = cache.len();
        assert!(open > GIVEN_BACK && cache.close_files());
        assert_eq!(cache.len().1, open - GIVEN_BACK);
    }
}
