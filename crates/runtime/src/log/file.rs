//! A log file: its queue of lines, and the bound of the queue.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use crossbeam_queue::SegQueue;

use super::sink::{self, Output, Sink};
use super::variable_paths::Destination;
use super::writer::WriterState;

/// The bytes that may wait for one file. Beyond them whole buffers are dropped and their lines counted. A single buffer
/// that is larger is taken if nothing else waits.
pub const MAX_WAITING: usize = 1024 * 1024;

/// The most descriptors that may wait to replace the present one of a file.
const MAX_REOPENED: usize = 16;

/// A handle on a log file; cloning shares the file.
#[derive(Clone)]
pub struct LogFile(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) output: Output,
    pub(super) queue: SegQueue<Chunk>,
    /// Descriptors that are to replace the present one, each when the writer comes to its [`Chunk::Reopen`].
    pub(super) reopened: SegQueue<OwnedFd>,
    /// Bytes in `queue` and in the writer's hands.
    pub(super) waiting: AtomicUsize,
    /// Whether a socket's last message was lost, which is reported once.
    pub(super) broken: AtomicBool,
    /// Lines dropped since the file is in use.
    pub(super) lost_in_all: AtomicU64,
    /// The number of dropped lines that have been reported.
    pub(super) reported: AtomicU64,
    /// A thread has been writing the file for long, and others go on with the other logs.
    pub(super) held_up: AtomicBool,
    /// The number of the error of the last write, if that failed and lines wait for the next attempt; 0 otherwise.
    pub(super) write_error: AtomicI32,
    /// The file is in the writer's list of files with work (or in its list of files that failed).
    pub(super) scheduled: AtomicBool,
    /// `None`: there is no thread, and lines are written where they are logged.
    pub(super) shared: Option<Arc<WriterState>>,
}

impl Inner {
    /// Goes on with the next of the descriptors that are to replace the present one. `false`: there is none.
    pub(super) fn next_descriptor(&self) -> bool {
        let next = self.reopened.pop();
        let is_there = next.is_some();
        if let Some(fd) = next {
            self.output.fd.store(Arc::new(fd));
        }
        is_there
    }

    /// Goes on with the newest of the descriptors that are to replace the present one, which takes no lines. `false`: there
    /// is none.
    pub(super) fn newest_descriptor(&self) -> bool {
        let mut is_there = false;
        while self.next_descriptor() {
            is_there = true;
        }
        is_there
    }

    /// Counts lines that are lost.
    pub(super) fn lost(&self, lines: u64) {
        self.lost_in_all.fetch_add(lines, Ordering::AcqRel);
    }
}

/// An item of a file's queue.
pub(super) enum Chunk {
    /// Whole lines, or one message.
    Lines(Bytes),
    /// Lines to be compressed with gzip at this level.
    Gzip(Bytes, u8),
    /// Lines for a file that has to be opened.
    Named(Box<Destination>, Bytes),
    /// Mark between lines for the present descriptor and lines for the next one.
    Reopen,
}

static NOTHING: Bytes = Bytes::new();

impl Chunk {
    fn bytes(&self) -> &Bytes {
        match self {
            Chunk::Lines(bytes) | Chunk::Gzip(bytes, _) | Chunk::Named(_, bytes) => bytes,
            Chunk::Reopen => &NOTHING,
        }
    }
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFile").field("name", &self.0.output.name).finish_non_exhaustive()
    }
}

impl LogFile {
    /// The path as configured and made absolute, `stderr`, or a name that begins with [`SYSLOG`](super::SYSLOG) and the like.
    pub fn name(&self) -> &str {
        &self.0.output.name
    }

    /// The path, or the whole name of what is no file.
    pub fn path(&self) -> &str {
        self.0.output.path()
    }

    /// Whether this is the process's stderr.
    pub fn is_stderr(&self) -> bool {
        self.0.output.name == "stderr"
    }

    /// Queues one or more whole lines, each with its newline. Never blocks on a threaded writer. `false`: the file's
    /// bound was reached and the lines were dropped and counted.
    pub fn write(&self, lines: impl Into<Bytes>) -> bool {
        self.push(Chunk::Lines(lines.into()))
    }

    /// Queues lines that are to be compressed with gzip, at a level from 1 to 9, into a member of their own. `false`:
    /// they were dropped and counted.
    pub fn write_compressed(&self, lines: impl Into<Bytes>, level: u8) -> bool {
        self.push(Chunk::Gzip(lines.into(), level))
    }

    /// Queues messages to a syslog server, which stand one after the other in `messages`; each ends at its place in
    /// `ends`.
    pub fn write_messages(&self, messages: impl Into<Bytes>, ends: &[usize]) {
        let messages = messages.into();
        let mut start = 0;
        for end in ends.iter().copied().filter(|end| *end <= messages.len()) {
            if start < end {
                self.push(Chunk::Lines(messages.slice(start..end)));
            }
            start = end;
        }
    }

    /// Queues lines for a file whose path they bring; only the log called [`NAMED`](super::NAMED) takes them. `false`:
    /// they were dropped and counted.
    pub fn write_named(&self, to: Destination, lines: impl Into<Bytes>) -> bool {
        self.push(Chunk::Named(Box::new(to), lines.into()))
    }

    /// Whether this log is sent to a syslog server.
    pub fn is_syslog(&self) -> bool {
        matches!(self.0.output.sink, Sink::Socket(_))
    }

    fn push(&self, chunk: Chunk) -> bool {
        let inner = &*self.0;
        if inner.shared.is_none() {
            return sink::write_now(&inner.output, chunk.bytes());
        }
        let size = chunk.bytes().len();
        if size == 0 {
            return true;
        }
        let before = inner.waiting.fetch_add(size, Ordering::AcqRel);
        if before != 0 && before + size > MAX_WAITING {
            inner.waiting.fetch_sub(size, Ordering::AcqRel);
            inner.lost(memchr::memchr_iter(b'\n', chunk.bytes()).count().max(1) as u64);
            return false;
        }
        inner.queue.push(chunk);
        self.schedule();
        true
    }

    /// Has the thread look at this file.
    fn schedule(&self) {
        if let Some(shared) = &self.0.shared
            && !self.0.scheduled.swap(true, Ordering::AcqRel)
        {
            shared.schedule(self.clone());
        }
    }

    /// Has lines written to `fd` that are queued from now on (log reopening). Those that wait are still for the old
    /// descriptor, unless it does not take them: then they are written to `fd`, too.
    pub fn reopen(&self, fd: OwnedFd) {
        let inner = &*self.0;
        if inner.shared.is_none() {
            inner.output.fd.store(Arc::new(fd));
            return;
        }
        // A file may be renamed too often while a single write goes on. Then its lines are in a later one: the
        // descriptor takes the place of the oldest, in the queue too.
        let replaces = inner.reopened.len() >= MAX_REOPENED && inner.reopened.pop().is_some();
        inner.reopened.push(fd);
        if !replaces {
            inner.queue.push(Chunk::Reopen);
        }
        self.schedule();
    }

    /// Whether a line of this size would be taken now, and not be dropped. Lines that would be dropped need not be
    /// made, but have to be [counted](LogFile::lose).
    #[inline]
    pub fn has_room(&self, size: usize) -> bool {
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        waiting == 0 || waiting + size <= MAX_WAITING
    }

    /// Counts lines that were not made because there was no room.
    pub fn lose(&self, lines: u64) {
        self.0.lost(lines);
        self.schedule(); // To be reported.
    }

    /// Lines dropped and not yet reported in the error log.
    pub fn lost(&self) -> u64 {
        let reported = self.0.reported.load(Ordering::Acquire);
        self.lost_in_all().saturating_sub(reported)
    }

    /// Whether a write to this file takes long, so that its lines wait while another thread goes on with the other
    /// logs.
    pub fn is_held_up(&self) -> bool {
        self.0.held_up.load(Ordering::Relaxed)
    }

    /// The error of the last write, while lines wait for the next attempt.
    pub fn write_error(&self) -> Option<io::Error> {
        let number = self.0.write_error.load(Ordering::Relaxed);
        (number != 0).then(|| io::Error::from_raw_os_error(number))
    }

    /// The bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// The number of threads that write logs, or are held up doing so, including the thread that stands by.
    pub fn threads(&self) -> usize {
        self.0.shared.as_ref().map_or(0, |shared| shared.threads())
    }

    /// Whether both handles are on the same file.
    pub(super) fn is(&self, other: &LogFile) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The file's name in an error log.
    pub(super) fn shown(&self) -> &str {
        if self.0.output.sink == Sink::Named { "files with variables in their paths" } else { self.0.output.path() }
    }

    /// Lines dropped since the file is in use, reported or not.
    pub fn lost_in_all(&self) -> u64 {
        self.0.lost_in_all.load(Ordering::Relaxed)
    }
}

/// Writes to stderr as far as possible: if a process's stderr is gone, or nobody reads it, there is no other place to report
/// that.
pub(super) fn write_stderr(bytes: &[u8]) {
    let _ = sink::write_if_room(rustix::stdio::stderr(), bytes);
}
