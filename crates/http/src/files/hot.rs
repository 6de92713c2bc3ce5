//! Hot files: open files and small contents of one loop, reused for at most one second.
//!
//! A server that opens, stats, reads and closes a file for every request spends more time on that than on the response.
//! A state of the file at most [`VALID`] old is good enough for HTTP, whose dates count seconds; `open_file_cache off`
//! turns it off.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_proto::conditional;
use freerun_runtime::files::{Meta, OpenFile};
use freerun_runtime::loops;
use freerun_serve::loop_local::LoopLocal;
use rustc_hash::FxHashMap;

use crate::files::known::{KnownFile, KnownFiles};

/// How long a file is assumed to be unchanged.
pub const VALID: Duration = Duration::from_secs(1);
/// Contents up to this size are kept.
pub const MAX_CONTENT: u64 = 32 * 1024;
/// The most files that a loop keeps.
const MAX_FILES: usize = 512;
/// Open files may take this part (one in so many) of the descriptors that the process may have, over all loops.
const SHARE: u64 = 8;
/// The most bytes of contents that a loop keeps.
const MAX_BYTES: usize = 4 << 20;

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

/// The hot files of one loop.
pub struct HotFiles<L> {
    // The names are those of existing files, and their number is bounded: no client can fill the map with names of its
    // choice.
    files: FxHashMap<Box<[u8]>, (Instant, Rc<HotFile>)>,
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
        let (files, known, changes) = (FxHashMap::default(), KnownFiles::default(), CHANGES.load(Acquire));
        HotFiles { files, bytes: 0, open: 0, max_open, changes, known }
    }

    /// The file that a path of a location leads to, if it was [learned](HotFiles::learn).
    pub fn known(&self, location: &LoopLocal<L>, path: &[u8]) -> Option<&Rc<KnownFile<L>>> {
        if self.changes != CHANGES.load(Acquire) {
            return None;
        }
        self.known.get(location, path, loops::nanos())
    }

    /// Learns that a path of a location leads to the file that is kept under this name.
    pub fn learn(&mut self, location: &LoopLocal<L>, path: &[u8], name: &[u8], media_type: Bytes) {
        let Some((since, file)) = self.files.get(name) else { return };
        let left = VALID.saturating_sub(loops::now().saturating_duration_since(*since));
        let until = loops::nanos() + u64::try_from(left.as_nanos()).unwrap_or(0);
        self.known.put(location, path, until, file, media_type);
    }

    /// The file, if it was opened no longer than [`VALID`] ago.
    pub fn get(&self, path: &[u8], now: Instant) -> Option<Rc<HotFile>> {
        if self.changes != CHANGES.load(Acquire) {
            return None;
        }
        let (since, file) = self.files.get(path)?;
        (now.saturating_duration_since(*since) < VALID).then(|| file.clone())
    }

    /// Keeps a file. When there is no room left, it is not kept.
    pub fn put(&mut self, path: &[u8], file: &Rc<HotFile>, now: Instant) {
        let changes = CHANGES.load(Acquire);
        if self.changes != changes {
            self.retain(|_, _| false);
            self.known.clear();
            self.changes = changes;
        }
        if !self.has_room(file) {
            self.purge(now);
            if !self.has_room(file) {
                return;
            }
        }
        self.bytes += file.bytes();
        self.open += file.descriptors();
        if let Some((_, old)) = self.files.insert(path.into(), (now, file.clone())) {
            self.bytes -= old.bytes();
            self.open -= old.descriptors();
            if old.descriptors() > 0 {
                self.known.clear();
            }
        }
    }

    fn has_room(&self, file: &HotFile) -> bool {
        self.files.len() < MAX_FILES
            && self.bytes + file.bytes() <= MAX_BYTES
            && self.open + file.descriptors() <= self.max_open
    }

    /// Drops the entries that are no longer valid: descriptors must not keep a deleted file, or a mount, for longer.
    pub fn purge(&mut self, now: Instant) {
        self.retain(|since, _| now.saturating_duration_since(since) < VALID);
    }

    /// Drops a file that turned out to have changed.
    pub fn forget(&mut self, file: &Arc<OpenFile>) {
        self.retain(|_, hot| !matches!(&hot.content, Content::Open(open) if Arc::ptr_eq(open, file)));
        // The file may be a known one even if another file is kept in its place by now.
        self.known.clear();
    }

    /// Closes all kept files, when the process has run out of descriptors. Returns whether there were any.
    pub fn close_files(&mut self) -> bool {
        let before = self.open;
        self.retain(|_, hot| hot.descriptors() == 0);
        before > 0
    }

    fn retain(&mut self, keep: impl Fn(Instant, &HotFile) -> bool) {
        let before = self.files.len();
        self.files.retain(|_, (since, file)| {
            let keep = keep(*since, file);
            if !keep {
                self.bytes -= file.bytes();
                self.open -= file.descriptors();
            }
            keep
        });
        if self.files.len() < before {
            self.known.clear();
        }
    }

    /// Whether no file is kept.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_runtime::files::{Aio, FileSystem};
    use freerun_runtime::pool::{PoolSpec, ThreadPool};

    fn file(content: Option<Bytes>) -> Rc<HotFile> {
        let pool = ThreadPool::start(&PoolSpec { name: "hot".to_owned(), threads: 1, max_queue: 8 }).unwrap();
        let files = FileSystem::new(pool).unwrap();
        let open = files.try_open_now(c"/proc/self/exe", &Aio::Off).unwrap().unwrap();
        Rc::new(HotFile::new(open, content))
    }

    #[test]
    fn descriptors_are_bounded_and_contents_need_none() {
        let now = Instant::now();
        let mut hot: HotFiles<&'static str> = HotFiles { max_open: 2, ..HotFiles::new(1) };
        for path in [b"a", b"b", b"c"] {
            hot.put(path, &file(None), now);
        }
        assert!(hot.get(b"a", now).is_some() && hot.get(b"b", now).is_some());
        assert!(hot.get(b"c", now).is_none(), "no more than two");
        hot.put(b"d", &file(Some(Bytes::from_static(b"text"))), now);
        assert!(hot.get(b"d", now).is_some());
        // A new file replaces the one that is kept under the same name.
        hot.put(b"a", &file(Some(Bytes::from_static(b"text"))), now);
        hot.put(b"c", &file(None), now);
        assert!(hot.get(b"c", now).is_some());
        assert!(hot.close_files());
        assert!(hot.get(b"b", now).is_none() && hot.get(b"d", now).is_some());
        assert!(!hot.close_files());
        assert_eq!((hot.open, hot.bytes), (0, 8));
        assert!(hot.get(b"d", now + VALID).is_none(), "old");
        hot.purge(now + VALID);
        assert!(hot.is_empty());
        assert_eq!(hot.bytes, 0);
    }

    /// A stand-in for a location.
    fn location(name: &'static str) -> LoopLocal<&'static str> {
        LoopLocal::new(Arc::new(name))
    }

    #[test]
    fn a_path_is_known_in_its_location_for_as_long_as_the_file() {
        let (one, other) = (location("one"), location("other"));
        let mut hot: HotFiles<&'static str> = HotFiles::new(1);
        let file = file(Some(Bytes::from_static(b"text")));
        let html = || Bytes::from_static(b"text/html");
        hot.learn(&one, b"/a", b"/root/a", html());
        assert!(hot.known(&one, b"/a").is_none(), "no such file is kept");
        hot.put(b"/root/a", &file, Instant::now());
        hot.learn(&one, b"/a", b"/root/a", html());
        let known = hot.known(&one, b"/a").unwrap();
        assert!(Rc::ptr_eq(&known.file, &file) && known.media_type == html());
        assert!(hot.known(&one, b"/b").is_none() && hot.known(&other, b"/a").is_none());
        hot.put(b"/root/a", &file, Instant::now() - VALID);
        hot.learn(&one, b"/a", b"/root/a", html());
        assert!(hot.known(&one, b"/a").is_none(), "old");
        hot.put(b"/root/a", &file, Instant::now());
        hot.learn(&one, b"/a", b"/root/a", html());
        assert!(hot.known(&one, b"/a").is_some());
        hot.purge(Instant::now() + VALID);
        assert!(hot.known(&one, b"/a").is_none(), "forgotten with the file");
    }

    #[test]
    fn a_changed_file_is_forgotten_alone() {
        let now = Instant::now();
        let mut hot: HotFiles<&'static str> = HotFiles::new(1);
        let (one, two) = (file(None), file(None));
        hot.put(b"one", &one, now);
        hot.put(b"two", &two, now);
        let Content::Open(open) = &one.content else { panic!("it has no content") };
        hot.forget(open);
        assert!(hot.get(b"one", now).is_none() && hot.get(b"two", now).is_some());
    }
}
