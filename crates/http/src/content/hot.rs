//! Hot files: open files and small contents of one loop, used again for at most one second.
//!
//! A server that opens, stats, reads and closes for every request spends more on that than on the response. What a file
//! was at most [`VALID`] ago is good enough for HTTP, whose dates count seconds; `open_file_cache off` turns it off.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_proto::conditional;
use freerun_runtime::files::OpenFile;

/// For how long a file is taken to be what it was.
pub const VALID: Duration = Duration::from_secs(1);
/// Contents up to this size are kept.
pub const MAX_CONTENT: u64 = 32 * 1024;
/// The most files that a loop keeps.
const MAX_FILES: usize = 512;
/// The most bytes of contents that a loop keeps.
const MAX_BYTES: usize = 4 << 20;

/// An open file with what a response needs of it.
pub struct HotFile {
    /// The file.
    pub file: Arc<OpenFile>,
    /// All of its bytes, where they are few and were in memory.
    pub content: Option<Bytes>,
    /// nginx's `ETag` for it.
    pub etag: Bytes,
}

impl HotFile {
    /// Wraps an open file.
    pub fn new(file: Arc<OpenFile>, content: Option<Bytes>) -> HotFile {
        let meta = file.meta();
        let etag = Bytes::copy_from_slice(conditional::etag(meta.mtime, meta.size).as_bytes());
        HotFile { file, content, etag }
    }
}

/// The hot files of one loop.
#[derive(Default)]
pub struct HotFiles {
    files: HashMap<Box<[u8]>, (Instant, Rc<HotFile>)>,
    bytes: usize,
}

impl HotFiles {
    /// The file, if it was opened no longer than [`VALID`] ago.
    pub fn get(&self, path: &[u8], now: Instant) -> Option<Rc<HotFile>> {
        let (since, file) = self.files.get(path)?;
        (now.saturating_duration_since(*since) < VALID).then(|| file.clone())
    }

    /// Keeps a file. When there is no room left, it is not kept.
    pub fn put(&mut self, path: &[u8], file: &Rc<HotFile>, now: Instant) {
        let size = file.content.as_ref().map_or(0, Bytes::len);
        if self.files.len() >= MAX_FILES || self.bytes + size > MAX_BYTES {
            self.purge(now);
            if self.files.len() >= MAX_FILES || self.bytes + size > MAX_BYTES {
                return;
            }
        }
        self.bytes += size;
        if let Some((_, old)) = self.files.insert(path.into(), (now, file.clone())) {
            self.bytes -= old.content.as_ref().map_or(0, Bytes::len);
        }
    }

    /// Lets go of what is no longer valid: descriptors must not keep a deleted file, or a mount, for longer.
    pub fn purge(&mut self, now: Instant) {
        let bytes = &mut self.bytes;
        self.files.retain(|_, (since, file)| {
            let keep = now.saturating_duration_since(*since) < VALID;
            if !keep {
                *bytes -= file.content.as_ref().map_or(0, Bytes::len);
            }
            keep
        });
    }

    /// Lets go of a file that turned out to have changed.
    pub fn forget(&mut self, file: &Arc<OpenFile>) {
        let bytes = &mut self.bytes;
        self.files.retain(|_, (_, hot)| {
            let keep = !Arc::ptr_eq(&hot.file, file);
            if !keep {
                *bytes -= hot.content.as_ref().map_or(0, Bytes::len);
            }
            keep
        });
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
