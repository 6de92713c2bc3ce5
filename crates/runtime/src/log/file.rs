//! One log file: what waits to be written, and how much may.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use crossbeam_queue::SegQueue;

use super::writer::Shared;

/// Bytes that may wait for one file. Beyond them whole buffers are dropped and their lines counted. A single buffer
/// that is larger is taken when nothing else waits.
pub const MAX_WAITING: usize = 1024 * 1024;

/// A handle on a log file; cloning shares the file.
#[derive(Clone)]
pub struct LogFile(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) name: String,
    pub(super) fd: ArcSwap<OwnedFd>,
    pub(super) queue: SegQueue<Bytes>,
    /// Bytes in `queue` and in the writer's hands.
    pub(super) waiting: AtomicUsize,
    /// Lines dropped since the last report.
    pub(super) lost: AtomicU64,
    /// Lines dropped since the file is in use.
    pub(super) lost_in_all: AtomicU64,
    /// The file is in the writer's list of files with work (or in its list of files that failed).
    pub(super) scheduled: AtomicBool,
    /// `None`: no thread, write where called.
    pub(super) shared: Option<Arc<Shared>>,
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFile").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl LogFile {
    /// The path as configured and made absolute, or `stderr`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether this is the process's stderr.
    pub fn is_stderr(&self) -> bool {
        self.0.name == "stderr"
    }

    /// Hands over one or more whole lines, each with its newline. Never blocks on a threaded writer. `false`: the
    /// file's bound was reached and the lines were dropped and counted.
    pub fn write(&self, lines: impl Into<Bytes>) -> bool {
        let lines = lines.into();
        let inner = &*self.0;
        let Some(shared) = &inner.shared else {
            return write_all(&inner.fd.load(), &lines).is_ok();
        };
        let size = lines.len();
        if size == 0 {
            return true;
        }
        let before = inner.waiting.fetch_add(size, Ordering::AcqRel);
        if before != 0 && before + size > MAX_WAITING {
            inner.waiting.fetch_sub(size, Ordering::AcqRel);
            let count = memchr::memchr_iter(b'\n', &lines).count().max(1) as u64;
            inner.lost.fetch_add(count, Ordering::AcqRel);
            inner.lost_in_all.fetch_add(count, Ordering::Relaxed);
            return false;
        }
        inner.queue.push(lines);
        if !inner.scheduled.swap(true, Ordering::AcqRel) {
            shared.schedule(self.clone());
        }
        true
    }

    /// Lines go to `fd` from now on (log reopening). Lines that wait go there too. The old descriptor is closed when
    /// the write that uses it ends.
    pub fn reopen(&self, fd: OwnedFd) {
        self.0.fd.store(Arc::new(fd));
    }

    /// Lines dropped and not yet reported in the error log.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Acquire)
    }

    /// Lines dropped since the file is in use, reported or not.
    pub fn lost_in_all(&self) -> u64 {
        self.0.lost_in_all.load(Ordering::Relaxed)
    }
}

/// Writes everything, waiting where it has to.
fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Best effort: a process whose stderr is gone has nobody to tell.
pub(super) fn write_stderr(bytes: &[u8]) {
    use std::io::Write as _;
    let _ = std::io::stderr().lock().write_all(bytes);
}
