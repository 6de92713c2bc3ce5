//! The types that callers use: the way to do an operation ([`Via`]), an open file, its attributes, errors.

use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_queue::SegQueue;
use freerun_conf::text_of;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::mounts::{Class, Mount};
use crate::pool::{PoolError, Tag, ThreadPool};

/// Manner of operations that may wait (the directive `aio`).
#[derive(Debug, Clone)]
pub enum Aio {
    /// Operations are probed; those that might wait go to the pool `default`.
    Auto(Arc<ThreadPool>),
    /// Operations are probed; those that might wait go to the named pool.
    Threads(Arc<ThreadPool>),
    /// No probing: everything goes to the pool, as nginx's `aio threads` does with reads.
    Always(Arc<ThreadPool>),
    /// Everything is done at once on the loop, which waits, as nginx does by default.
    Off,
}

impl Aio {
    /// The pool, if there is one.
    pub fn pool(&self) -> Option<&Arc<ThreadPool>> {
        match self {
            Aio::Auto(pool) | Aio::Threads(pool) | Aio::Always(pool) => Some(pool),
            Aio::Off => None,
        }
    }
}

/// Reports when the client that work is done for has gone away.
pub trait ClientPresence {
    /// Resolves when the client no longer waits for the answer.
    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl ClientPresence for crate::net::Socket {
    fn gone(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(crate::net::Socket::gone(self))
    }
}

/// The way in which an operation is done, and the client that it is done for.
#[derive(Clone, Copy)]
pub struct Via<'a> {
    /// Whether and where it may wait.
    pub aio: &'a Aio,
    /// A number for the client's address; clients are served in turn.
    pub client: u64,
    /// Frees the place in the queue when the client goes away.
    pub gone: Option<&'a dyn ClientPresence>,
}

impl std::fmt::Debug for Via<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Via").field("aio", self.aio).field("client", &self.client).finish_non_exhaustive()
    }
}

/// Reason why a file operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The system's error.
    #[error("{call} failed ({errno}: {})", error_text(*.errno))]
    System {
        /// The call as in nginx's log, e.g. `open()`.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
    /// The system's error, about a file whose path the caller does not know.
    #[error(transparent)]
    Named(Box<NamedError>),
    /// The pool did not run the operation.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// The system's error about a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} \"{}\" failed ({errno}: {})", text_of(path), error_text(*errno))]
pub struct NamedError {
    /// The call as in nginx's log, e.g. `open()`.
    call: &'static str,
    /// The error number.
    errno: i32,
    /// The path.
    path: Vec<u8>,
}

impl FileError {
    /// The same error with the path of the file that it is about, unless it has one.
    pub fn at(self, path: impl FnOnce() -> Vec<u8>) -> FileError {
        match self {
            FileError::System { call, errno } => FileError::Named(Box::new(NamedError { call, errno, path: path() })),
            error => error,
        }
    }

    pub(crate) fn new(call: &'static str, errno: Errno) -> FileError {
        FileError::System { call, errno: errno.raw_os_error() }
    }

    /// The error number, if the system refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            FileError::System { errno, .. } => Some(*errno),
            FileError::Named(error) => Some(error.errno),
            FileError::Pool(_) => None,
        }
    }

    /// Whether sending failed because of the socket (the client went away), not because of the file.
    pub fn is_peer(&self) -> bool {
        const PEER: [Errno; 6] =
            [Errno::PIPE, Errno::CONNRESET, Errno::CONNABORTED, Errno::TIMEDOUT, Errno::NOTCONN, Errno::HOSTUNREACH];
        self.errno().is_some_and(|errno| PEER.iter().any(|peer| peer.raw_os_error() == errno))
    }

    /// Whether there is no room on the disk for the bytes that were to be written.
    pub fn is_full_disk(&self) -> bool {
        self.errno().is_some_and(|errno| [Errno::NOSPC, Errno::DQUOT].iter().any(|full| full.raw_os_error() == errno))
    }

    /// The text for the log, in nginx's words: `open() "/x" failed (2: No such file or directory)`. The error's own path
    /// comes before this one.
    pub fn describe(&self, path: &[u8]) -> String {
        match self {
            FileError::System { call, errno } => {
                format!("{call} \"{}\" failed ({errno}: {})", text_of(path), error_text(*errno))
            }
            FileError::Named(error) => error.to_string(),
            FileError::Pool(error) => error.to_string(),
        }
    }
}

/// The system's text for an error number, without the number that the standard library adds.
fn error_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The largest step of a file system's clock, in seconds.
const STEP: i64 = 2;

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of its contents, seconds since 1970.
    pub mtime: i64,
    /// The nanoseconds of `mtime`.
    pub mtime_nsec: u32,
    /// Inode number.
    pub ino: u64,
    /// Device number of its file system.
    pub dev: u64,
    /// Type and permissions (`st_mode`).
    pub mode: u32,
    /// The number of the user that owns it.
    pub uid: u32,
    /// Number of its names; 0 for a file that was removed.
    pub nlink: u64,
    /// Time of the last access, as far as that is kept: seconds since 1970, nanoseconds.
    pub(crate) atime: (i64, u32),
    /// Time of the last change of anything: seconds since 1970, nanoseconds.
    pub(crate) ctime: (i64, u32),
}

impl Meta {
    // Some architectures have a narrower `st_nlink`.
    #[allow(clippy::unnecessary_cast)]
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Meta {
        Meta {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: stat.st_mtime,
            mtime_nsec: stat.st_mtime_nsec as u32,
            ino: stat.st_ino,
            dev: stat.st_dev,
            mode: stat.st_mode,
            uid: stat.st_uid,
            nlink: stat.st_nlink as u64,
            atime: (stat.st_atime, stat.st_atime_nsec as u32),
            ctime: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }

    pub(crate) fn of_statx(stat: &rustix::fs::Statx) -> Meta {
        Meta {
            size: stat.stx_size,
            mtime: stat.stx_mtime.tv_sec,
            mtime_nsec: stat.stx_mtime.tv_nsec,
            ino: stat.stx_ino,
            dev: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            mode: stat.stx_mode.into(),
            uid: stat.stx_uid,
            nlink: stat.stx_nlink.into(),
            atime: (stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
            ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }

    pub(crate) fn mtime_whole(&self) -> (i64, u32) {
        (self.mtime, self.mtime_nsec)
    }

    /// Whether these are the attributes of the same file in the same state. When it was last read does not matter.
    pub fn is_same(&self, other: &Meta) -> bool {
        Meta { atime: other.atime, ..*self } == *other
    }

    /// Whether the last change of the file is so long ago that another one would have another time: file systems count
    /// time in steps of up to two seconds. Only then do the same attributes mean the same bytes.
    pub fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        self.ctime.0.saturating_add(STEP) < i64::try_from(now).unwrap_or(i64::MAX)
    }

    fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }
}

/// The trouble with a file that was read or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble<'a> {
    /// The system's error.
    Failed(&'a FileError),
    /// The file ends before the length that it had when it was opened.
    Short,
}

type TroubleHandler = Box<dyn Fn(Trouble<'_>) + Send + Sync>;

/// The function that is called in case of trouble.
#[derive(Default)]
struct TroubleWatch(OnceLock<TroubleHandler>);

impl std::fmt::Debug for TroubleWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// A file open for reading. Dropping it never waits.
#[derive(Debug)]
pub struct OpenFile {
    /// Taken only by `drop`.
    fd: Option<OwnedFd>,
    meta: Meta,
    /// See [`OpenFile::size`].
    size: AtomicU64,
    pub(crate) mount: Arc<Mount>,
    /// Whether `mincore` may be believed: 0 not asked yet, 1 yes, 2 no.
    pub(crate) mincore: AtomicU8,
    /// Moment at which one response last found the whole file in memory, in milliseconds; 0 for never.
    pub(crate) whole_ms: AtomicU64,
    /// Number of times that this was so in a row, at different moments, and the last of these moments.
    pub(crate) whole_times: AtomicU32,
    pub(crate) whole_counted_ms: AtomicU64,
    /// Set when `cachestat` does not answer for this file.
    pub(crate) no_cachestat: AtomicBool,
    /// The time from which on a read writes the file's access time, in milliseconds; `u64::MAX` for never.
    pub(crate) atime_due_ms: AtomicU64,
    watch: TroubleWatch,
    closer: Arc<Closer>,
}

impl OpenFile {
    pub(crate) fn new(fd: OwnedFd, meta: Meta, mount: Arc<Mount>, closer: Arc<Closer>) -> OpenFile {
        OpenFile {
            fd: Some(fd),
            size: AtomicU64::new(meta.size),
            meta,
            mount,
            mincore: AtomicU8::new(0),
            whole_ms: AtomicU64::new(0),
            whole_times: AtomicU32::new(0),
            whole_counted_ms: AtomicU64::new(0),
            no_cachestat: AtomicBool::new(false),
            atime_due_ms: AtomicU64::new(u64::MAX),
            watch: TroubleWatch::default(),
            closer,
        }
    }

    /// The file's attributes when it was opened.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file's size in bytes when it was opened. For a file that the server writes, the bytes written to it since
    /// are added.
    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Sets the number of bytes that have been written to the file.
    pub(crate) fn grown(&self, size: u64) {
        self.size.store(size, Relaxed);
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.meta.is_file()
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.meta.is_dir()
    }

    /// The mount that the file is on.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// Has `tell` called, on the thread that notices it, when the file cannot be read or sent: for an owner of the file
    /// who does not read it himself. Only the first call counts. `tell` must not wait.
    pub fn watch(&self, tell: impl Fn(Trouble<'_>) + Send + Sync + 'static) {
        let _ = self.watch.0.set(Box::new(tell));
    }

    pub(crate) fn trouble(&self, trouble: Trouble<'_>) {
        if let Some(tell) = self.watch.0.get() {
            tell(trouble);
        }
    }

    /// Whether reads of the file ever write its access time.
    pub(crate) fn keeps_atime(&self) -> bool {
        self.atime_due_ms.load(Relaxed) != u64::MAX
    }

    pub(crate) fn is_atime_due(&self, now_ms: u64) -> bool {
        now_ms >= self.atime_due_ms.load(Relaxed)
    }

    pub(crate) fn resized(&mut self, size: u64) {
        self.meta.size = size;
        self.grown(size);
    }

    pub(crate) fn tag(&self, client: u64) -> Tag {
        Tag { mount: self.meta.dev, client, file: self.meta.ino }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("the descriptor is there until the file is dropped").as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        let may_wait = match self.mount.class() {
            Class::Memory | Class::Kernel => false,
            // The last close of a removed file gives its blocks back, with the journal.
            Class::Local => rustix::fs::fstat(&fd).is_ok_and(|stat| stat.st_nlink == 0),
            // Some file systems write back or ask their server on close.
            Class::Remote | Class::Unknown => true,
        };
        if may_wait {
            self.closer.close(self.tag(0), fd);
        }
    }
}

/// Closes files whose closing may wait, in the pool. A close that the pool refuses is offered again with the next one;
/// the limit on open descriptors bounds their number.
#[derive(Debug)]
pub(crate) struct Closer {
    pool: Arc<ThreadPool>,
    refused: SegQueue<(Tag, OwnedFd)>,
}

impl Closer {
    pub(crate) fn new(pool: Arc<ThreadPool>) -> Closer {
        Closer { pool, refused: SegQueue::new() }
    }

    /// Runs work whose end is not waited for. If the pool is full, it is not done.
    pub(crate) fn run(&self, tag: Tag, work: impl FnOnce() + Send + 'static) {
        drop(self.pool.spawn(tag, work));
    }

    fn close(&self, tag: Tag, fd: OwnedFd) {
        self.refused.push((tag, fd));
        // It takes two of them, so that a backlog shrinks.
        for _ in 0..2 {
            let Some((tag, fd)) = self.refused.pop() else { return };
            let holder = Arc::new(std::sync::Mutex::new(Some(fd)));
            let task = holder.clone();
            let work = move || drop(task.lock().ok().and_then(|mut fd| fd.take()));
            if let Err((PoolError::Overflow { .. }, _)) = self.pool.spawn(tag, work) {
                if let Some(fd) = holder.lock().ok().and_then(|mut fd| fd.take()) {
                    self.refused.push((tag, fd));
                }
                return;
            }
        }
    }
}
