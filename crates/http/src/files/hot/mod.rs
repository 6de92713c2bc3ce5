//! Hot files: open files and small contents of one loop, for as long as nothing has changed.
//!
//! A server that opens, stats, reads and closes a file for every request spends more time on that than on the response.
//! A kept file is watched, with every folder and link on the way to it ([`watches`](super::watches)). The loop looks
//! for changes before a request uses the file. Where that cannot be, the file's attributes are asked for each time, by
//! a call that does not wait. `open_file_cache off` keeps nothing.

use std::ffi::CStr;
use std::hash::Hasher;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_proto::conditional;
use freerun_runtime::files::{FileSystem, Meta, OpenFile};
use freerun_runtime::loops;
use freerun_runtime::watch::WatchResult;
use freerun_serve::loops::local::LoopLocal;
use rustc_hash::{FxHashMap, FxHasher};

use crate::files::known_files::{KnownFile, KnownFiles};
use crate::files::watches::{Stale, WatchRequest, WatchSight, Watches};

/// The time for which a file is kept after it was opened. A change is noticed without that. But a file that nobody
/// requests any more must hold neither descriptors nor memory, and changes through a shared mapping are not reported.
pub const VALID: Duration = Duration::from_secs(1);
/// Contents up to this size are kept.
pub const MAX_CONTENT: u64 = 32 * 1024;
/// The most files that a loop keeps.
const MAX_FILES: usize = 512;
/// Open files may take this part (one in so many) of the descriptors that the process may have, over all loops.
const SHARE: u64 = 8;
/// The most bytes of contents that a loop keeps.
const MAX_BYTES: usize = 4 << 20;

/// Number of names that are remembered after one request: a file is kept from the second time on.
const SEEN: usize = 1024;

/// The number of changes that the server itself has made to files.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Notes that the server has changed files: no loop uses older knowledge of them. (For `open_file_cache` with `max=`
/// see [`changed`](super::open_files::changed).)
pub fn files_changed() {
    CHANGES.fetch_add(1, Release);
}

/// The data of a file that a response needs.
#[derive(Clone)]
pub struct HotFile {
    /// The attributes of the file.
    pub meta: Meta,
    /// All of its bytes, or the file to read them from.
    pub content: Content,
    /// The `ETag` of the file, as nginx makes it.
    pub etag: Bytes,
}

/// The contents of a file.
#[derive(Clone)]
pub enum Content {
    /// All bytes of the file, because they are few and were in memory. No descriptor is held for them.
    Bytes(Bytes),
    /// The bytes are in the open file.
    Open(Arc<OpenFile>),
}

impl HotFile {
    /// A hot file of an open file, or of its bytes where they could be read at once.
    pub fn new(file: Arc<OpenFile>, content: Option<Bytes>) -> HotFile {
        let meta = *file.meta();
        let etag = Bytes::copy_from_slice(conditional::etag(meta.mtime, meta.size).as_bytes());
        let content = match content {
            Some(bytes) => Content::Bytes(bytes),
            None if meta.size == 0 && meta.is_file() => Content::Bytes(Bytes::new()),
            None => Content::Open(file),
        };
        HotFile { meta, content, etag }
    }

    fn bytes(&self) -> usize {
        match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::Open(_) => 0,
        }
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self.content, Content::Open(_)))
    }
}

/// The reason to trust that a kept file is unchanged.
enum Trust {
    /// The file is watched, and so is the way to it.
    Watched { watch: i32, way: Rc<[u8]> },
    /// The file's attributes have to be asked for.
    Asked,
}

struct HotEntry {
    /// The number of the [place](HotLookup::Place).
    number: u64,
    since: Instant,
    /// `None` until its content was read.
    file: Option<Rc<HotFile>>,
    trust: Trust,
}

impl HotEntry {
    fn bytes(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.bytes())
    }

    fn descriptors(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.descriptors())
    }
}

/// The answer of [`HotFiles::begin`].
pub enum HotLookup {
    /// The file is not going to be kept.
    No,
    /// The caller is to have this way watched, for the next time.
    Way(WatchRequest),
    /// The file has a place, with this number, until something changes.
    Place(u64),
}

/// A kept file.
pub struct KeptFile {
    /// The file.
    pub file: Rc<HotFile>,
    /// Whether the caller has to ask for its attributes before using it.
    pub asks: bool,
}

/// A file that was just opened, and that may be kept.
pub struct OpenedFile<'o> {
    /// The path that was opened.
    pub path: &'o CStr,
    /// The file.
    pub file: &'o Arc<OpenFile>,
    /// Whether its attributes can be asked for by the path: not if `disable_symlinks` plays a part.
    pub can_be_asked: bool,
    /// The answer of [`HotFiles::moment`] from before it was opened.
    pub moment: u64,
}

/// The hot files of one loop.
pub struct HotFiles<L> {
    // The names belong to existing files, and their number is bounded: no client can fill the map with names of its
    // choice.
    files: FxHashMap<Box<[u8]>, HotEntry>,
    /// The number of places that there were so far.
    places: u64,
    /// The watches for the files.
    watches: Watches,
    /// The names that were asked for lately, as hashes, and the second of that.
    seen: Box<[(u32, u32)]>,
    /// The number of bytes of the kept contents.
    bytes: usize,
    /// The number of the kept open files.
    open: usize,
    /// The largest number of kept open files.
    max_open: usize,
    /// The value of [`CHANGES`] when it was last looked at.
    changes: u64,
    /// Some of the files, by the paths that lead to them.
    known: KnownFiles<L>,
}

impl<L> HotFiles<L> {
    /// An empty set, for one of `loops` loops. Descriptors are for connections first: only a part of those that the
    /// process may have goes to files, which may never be asked for again.
    pub fn new(loops: usize) -> HotFiles<L> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let share = limit.map_or(u64::MAX, |limit| limit / SHARE / loops.max(1) as u64);
        let max_open = usize::try_from(share).unwrap_or(MAX_FILES).min(MAX_FILES);
        let (files, watches, known) = Default::default();
        let changes = CHANGES.load(Acquire);
        HotFiles { files, places: 0, watches, seen: Box::default(), bytes: 0, open: 0, max_open, changes, known }
    }

    /// Drops what has changed. To be called before anything that is kept is used.
    #[inline]
    pub fn look(&mut self) {
        if self.watches.must_look() {
            self.look_now();
        }
    }

    fn look_now(&mut self) {
        if let Some(stale) = self.watches.look() {
            self.drop_stale(&stale);
        }
    }

    #[cold]
    fn drop_stale(&mut self, stale: &Stale) {
        if stale.everything {
            return self.retain(|_, _| false);
        }
        if !stale.ways.is_empty() {
            let is_stale = |own: &Rc<[u8]>| stale.ways.iter().any(|way| Rc::ptr_eq(way, own));
            self.retain(|_, entry| !matches!(&entry.trust, Trust::Watched { way, .. } if is_stale(way)));
        }
        for name in &stale.names {
            self.forget_name(name);
        }
        // Names with a rule for links have it behind the path.
        if self.files.keys().any(|name| name.contains(&0)) {
            let is_stale = |path: Option<&[u8]>| stale.names.iter().any(|name| Some(&**name) == path);
            self.retain(|name, _| !is_stale(name.split(|byte| *byte == 0).next()));
        }
    }

    /// A number that grows when the way to a file is found to have changed. As long as it stays the same, a file that
    /// was opened meanwhile is still the file that its path leads to.
    pub fn moment(&self) -> u64 {
        self.watches.forgotten()
    }

    /// The file that a path of a location leads to, if it was [learned](HotFiles::learn).
    pub fn known(&mut self, location: &LoopLocal<L>, path: &[u8]) -> Option<&Rc<KnownFile<L>>> {
        self.look();
        if self.changes != CHANGES.load(Acquire) {
            return None;
        }
        self.known.get(location, path, loops::nanos())
    }

    /// Learns that a path of a location leads to the file that is kept under this name, if that is watched.
    pub fn learn(&mut self, location: &LoopLocal<L>, path: &[u8], name: &[u8], media_type: Bytes) {
        let Some(HotEntry { since, file: Some(file), trust: Trust::Watched { .. }, .. }) = self.files.get(name) else {
            return;
        };
        let left = VALID.saturating_sub(loops::now().saturating_duration_since(*since));
        let until = loops::nanos() + u64::try_from(left.as_nanos()).unwrap_or(0);
        self.known.put(location, path, until, file, media_type);
    }

    /// The file that is kept under this name, if it is.
    pub fn get(&mut self, name: &[u8], now: Instant) -> Option<KeptFile> {
        self.look();
        if self.changes != CHANGES.load(Acquire) {
            return None;
        }
        let entry = self.files.get(name)?;
        let asks = matches!(entry.trust, Trust::Asked);
        let file = entry.file.clone().filter(|_| now.saturating_duration_since(entry.since) < VALID)?;
        Some(KeptFile { file, asks })
    }

    /// Prepares to keep a file that was just opened: watches it, before its content is read.
    pub fn begin(&mut self, name: &[u8], opened: &OpenedFile<'_>, files: &FileSystem, now: Instant) -> HotLookup {
        if !files.reports_changes(opened.file) || !self.was_seen(name) {
            return HotLookup::No;
        }
        let changes = CHANGES.load(Acquire);
        if self.changes != changes {
            self.retain(|_, _| false);
            self.changes = changes;
        }
        if self.files.len() >= MAX_FILES {
            self.drop_old(now);
            if self.files.len() >= MAX_FILES {
                return HotLookup::No;
            }
        }
        let path = opened.path.to_bytes();
        let Some(folder) = path.iter().rposition(|byte| *byte == b'/').and_then(|end| path.get(..end)) else {
            return HotLookup::No;
        };
        let mut way = self.watches.way(if folder.is_empty() { b"/" } else { folder }, now);
        // The last name may belong to a link, which is to be watched, too. Some file systems do not say that without
        // waiting if there is a link on the way.
        if matches!(way, WatchSight::Watched(_)) && files.is_named(opened.path, opened.file) != Some(true) {
            way = self.watches.way(path, now);
        }
        let trust = match way {
            WatchSight::Wanted(wanted) => return HotLookup::Way(wanted),
            WatchSight::Soon => return HotLookup::No,
            WatchSight::Watched(_) if opened.moment != self.moment() => return HotLookup::No,
            WatchSight::Watched(way) => match self.watches.file(opened.file, name) {
                Some(watch) => Trust::Watched { watch, way },
                None => Trust::Asked,
            },
            WatchSight::Unwatched => Trust::Asked,
        };
        let is_good = match &trust {
            // It may have changed between its opening and the watch.
            Trust::Watched { .. } => files.is_unchanged(opened.file),
            Trust::Asked => opened.can_be_asked && opened.file.meta().is_settled(),
        };
        self.forget_name(name);
        if !is_good {
            self.distrust(name, &trust);
            return HotLookup::No;
        }
        self.places += 1;
        self.files.insert(name.into(), HotEntry { number: self.places, since: now, file: None, trust });
        HotLookup::Place(self.places)
    }

    /// Keeps a file in its [place](HotLookup::Place). A file that has changed meanwhile has lost it, and perhaps to another one.
    /// When there is no room left, it is not kept.
    pub fn put(&mut self, name: &[u8], place: u64, file: &Rc<HotFile>, now: Instant) {
        // What has changed meanwhile is only known if somebody has looked; the next look finds the others here.
        let has_place = self.files.get(name).is_some_and(|entry| entry.number == place && entry.file.is_none());
        if !has_place || self.changes != CHANGES.load(Acquire) {
            return;
        }
        if !self.has_room(file) {
            self.drop_old(now);
            if !self.has_room(file) {
                return self.forget_name(name);
            }
        }
        if let Some(entry) = self.files.get_mut(name) {
            entry.file = Some(file.clone());
            self.bytes += file.bytes();
            self.open += file.descriptors();
        }
    }

    /// Takes over a way that a thread of a pool has watched.
    pub fn walked(&mut self, begun: WatchRequest, walked: Option<WatchResult>) {
        self.look_now();
        self.watches.walked(begun, walked, loops::now());
    }

    /// Whether a name was asked for in the last second or two. It is noted that it was asked for now.
    fn was_seen(&mut self, name: &[u8]) -> bool {
        if self.seen.is_empty() {
            self.seen = vec![(0, 0); SEEN].into();
        }
        let mut hasher = FxHasher::default();
        hasher.write(name);
        let hash = hasher.finish();
        let second = (loops::millis() / 1000) as u32 + 2;
        let mark = (hash >> 32) as u32;
        let before = std::mem::replace(&mut self.seen[hash as usize % SEEN], (mark, second));
        before.0 == mark && before.1 + 1 >= second
    }

    fn has_room(&self, file: &HotFile) -> bool {
        self.bytes + file.bytes() <= MAX_BYTES && self.open + file.descriptors() <= self.max_open
    }

    /// Drops the entries that are no longer valid, and those that have changed: descriptors must not keep a deleted
    /// file, or a mount, for longer.
    pub fn purge(&mut self, now: Instant) {
        self.look_now();
        self.drop_old(now);
        self.watches.purge(now);
    }

    fn drop_old(&mut self, now: Instant) {
        self.retain(|_, entry| now.saturating_duration_since(entry.since) < VALID);
    }

    /// Drops everything, because another generation serves from now on.
    pub fn retire(&mut self) {
        self.retain(|_, _| false);
        self.watches.retire();
    }

    /// Drops a file that turned out to have changed.
    pub fn forget(&mut self, file: &Arc<OpenFile>) {
        let is_it = |kept: &HotFile| matches!(&kept.content, Content::Open(open) if Arc::ptr_eq(open, file));
        self.retain(|_, entry| !entry.file.as_ref().is_some_and(|kept| is_it(kept)));
        // The file may be a known one even if another file is kept in its place by now.
        self.known.clear();
    }

    /// Drops what is kept under a name.
    pub fn forget_name(&mut self, name: &[u8]) {
        if let Some(entry) = self.files.remove(name) {
            self.bytes -= entry.bytes();
            self.open -= entry.descriptors();
            self.distrust(name, &entry.trust);
            self.known.clear();
        }
    }

    fn distrust(&mut self, name: &[u8], trust: &Trust) {
        if let Trust::Watched { watch, .. } = trust {
            self.watches.forget_file(*watch, name);
        }
    }

    /// Closes all kept files, when the process has run out of descriptors. Returns whether there were any.
    pub fn close_files(&mut self) -> bool {
        let before = self.open;
        self.retain(|_, entry| entry.descriptors() == 0);
        before > 0
    }

    fn retain(&mut self, keep: impl Fn(&[u8], &HotEntry) -> bool) {
        let before = self.files.len();
        let (watches, bytes, open) = (&mut self.watches, &mut self.bytes, &mut self.open);
        self.files.retain(|name, entry| {
            let keep = keep(name, entry);
            if !keep {
                *bytes -= entry.bytes();
                *open -= entry.descriptors();
                if let Trust::Watched { watch, .. } = entry.trust {
                    watches.forget_file(watch, name);
                }
            }
            keep
        });
        if self.files.len() < before {
            self.known.clear();
        }
    }

    /// Whether no file is kept, and none is watched.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.watches.is_empty()
    }
}

#[cfg(test)]
mod tests;
