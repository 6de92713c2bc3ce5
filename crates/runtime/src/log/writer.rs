//! The thread that writes the logs.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use crossbeam_queue::SegQueue;

use super::clock;
use super::error::{Errno, ErrorLog, Level};
use super::file::{Chunk, Inner, LogFile, MAX_WAITING};
use super::named::OpenFiles;
use super::sink::{self, BATCH, Memories, Sink, Written};

/// How often at most it is said that files which lines name cannot be written.
const NAMED_REPORT: Duration = Duration::from_secs(1);

/// Makes [`LogFile`]s and owns the thread that writes them. Cheap to clone; the thread lives until
/// [`Writer::shutdown`] or the end of the process.
#[derive(Clone)]
pub struct Writer {
    /// `None`: direct.
    shared: Option<Arc<Shared>>,
    files: Arc<Mutex<HashMap<String, Weak<Inner>>>>,
}

/// What producers and the thread share. Loops touch only lock-free parts of it.
pub(super) struct Shared {
    dirty: SegQueue<LogFile>,
    commands: SegQueue<Command>,
    sleeping: AtomicBool,
    thread: OnceLock<Thread>,
    report: ArcSwapOption<ErrorLog>,
}

enum Command {
    /// Answer once everything queued before has been written, or has failed.
    Flush(SyncSender<()>),
    /// The same, then end.
    Stop(SyncSender<()>),
    /// Answer once files that lines have named are closed.
    CloseNamed(SyncSender<()>),
}

impl Shared {
    pub(super) fn schedule(&self, file: LogFile) {
        self.dirty.push(file);
        self.wake();
    }

    fn wake(&self) {
        // Pairs with the fence in `idle`: either the thread sees what was pushed, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

impl Writer {
    /// Starts the writing thread. An error only if the system gives no thread.
    pub fn start() -> io::Result<Writer> {
        let shared = Arc::new(Shared {
            dirty: SegQueue::new(),
            commands: SegQueue::new(),
            sleeping: AtomicBool::new(false),
            thread: OnceLock::new(),
            report: ArcSwapOption::empty(),
        });
        clock::refresh_offset();
        let for_thread = shared.clone();
        let handle = std::thread::Builder::new().name("log".into()).spawn(move || run(&for_thread))?;
        let _ = shared.thread.set(handle.thread().clone());
        Ok(Writer { shared: Some(shared), files: Arc::default() })
    }

    /// A writer without a thread: each line is written where it is logged, before the call returns.
    pub fn direct() -> Writer {
        clock::refresh_offset();
        Writer { shared: None, files: Arc::default() }
    }

    /// The file called `name`, writing to `fd`. If a file of that name is in use already, it is that one and its
    /// descriptor is replaced: all generations write to the same place.
    pub fn file(&self, name: &str, fd: OwnedFd) -> LogFile {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = files.get(name).and_then(Weak::upgrade) {
            let file = LogFile(inner);
            file.reopen(fd);
            return file;
        }
        files.retain(|_, inner| inner.strong_count() > 0);
        let inner = Arc::new(Inner {
            name: name.to_owned(),
            sink: Sink::of(name),
            fd: ArcSwap::from_pointee(fd),
            queue: SegQueue::new(),
            waiting: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            lost_in_all: AtomicU64::new(0),
            scheduled: AtomicBool::new(false),
            shared: self.shared.clone(),
        });
        files.insert(name.to_owned(), Arc::downgrade(&inner));
        LogFile(inner)
    }

    /// The process's stderr as a log file named `stderr`.
    pub fn stderr(&self) -> io::Result<LogFile> {
        Ok(self.file("stderr", rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?))
    }

    /// The file of that name, if one is in use.
    pub fn get(&self, name: &str) -> Option<LogFile> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(name).and_then(Weak::upgrade).map(LogFile)
    }

    /// Where the writer reports its own troubles: failed writes, dropped lines.
    pub fn report_to(&self, log: ErrorLog) {
        if let Some(shared) = &self.shared {
            shared.report.store(Some(Arc::new(log)));
        }
    }

    /// Waits until what was queued before is written, at most `limit`. `false`: time ran out. Not for loops.
    pub fn flush(&self, limit: Duration) -> bool {
        self.ask(Command::Flush, limit)
    }

    /// Writes what waits, at most for `limit`, and ends the thread. Lines logged later are lost.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.ask(Command::Stop, limit)
    }

    /// Closes the files that lines have named, so that they are opened anew. Waits as [`Writer::flush`] does.
    pub fn close_named(&self, limit: Duration) -> bool {
        self.ask(Command::CloseNamed, limit)
    }

    fn ask(&self, command: fn(SyncSender<()>) -> Command, limit: Duration) -> bool {
        let Some(shared) = &self.shared else { return true };
        let (done, wait) = sync_channel(1);
        shared.commands.push(command(done));
        shared.wake();
        wait.recv_timeout(limit).is_ok()
    }
}

/// A file whose last write failed, with what was taken from its queue.
struct Failed {
    file: LogFile,
    chunks: VecDeque<Bytes>,
    retry: Instant,
}

/// What the thread keeps.
struct Keeper<'s> {
    shared: &'s Shared,
    failed: Vec<Failed>,
    memories: Memories,
    open: OpenFiles,
    /// When files that are open but unused are to be closed.
    purge: Option<Instant>,
    /// When it was last said that a named file cannot be written.
    named_reported: Option<Instant>,
}

fn run(shared: &Shared) {
    let mut thread = Keeper {
        shared,
        failed: Vec::new(),
        memories: Memories::default(),
        open: OpenFiles::default(),
        purge: None,
        named_reported: None,
    };
    let mut minute = i64::MIN;
    loop {
        let now = clock::now();
        if now.secs.div_euclid(60) != minute {
            minute = now.secs.div_euclid(60);
            clock::refresh_offset();
        }
        // Taken before the files are: whoever asked for a flush pushed their lines first.
        let command = shared.commands.pop();
        // One round over what was dirty when it began, so that a file that is written without end does not keep
        // the others (or a flush) waiting.
        for _ in 0..shared.dirty.len() {
            let Some(file) = shared.dirty.pop() else { break };
            if !thread.failed.iter().any(|f| Arc::ptr_eq(&f.file.0, &file.0)) {
                thread.turn(file, VecDeque::new(), false);
            }
        }
        let hurry = command.is_some();
        let due = Instant::now();
        for entry in std::mem::take(&mut thread.failed) {
            if hurry || entry.retry <= due {
                thread.turn(entry.file, entry.chunks, true);
            } else {
                thread.failed.push(entry);
            }
        }
        if thread.purge.is_some_and(|purge| purge <= due) {
            thread.purge = thread.open.purge(due);
        }
        match command {
            Some(Command::Flush(done)) => {
                let _ = done.send(());
            }
            Some(Command::CloseNamed(done)) => {
                thread.open.close_all();
                let _ = done.send(());
            }
            Some(Command::Stop(done)) => {
                let _ = done.send(());
                return;
            }
            None => thread.idle(now),
        }
    }
}

impl Keeper<'_> {
    /// Sleeps until there is work, a failed file is due, a named one has to be closed, or the minute ends.
    fn idle(&self, now: clock::Moment) {
        let shared = self.shared;
        shared.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if shared.dirty.is_empty() && shared.commands.is_empty() {
            let to_minute = 60_000 - now.secs.rem_euclid(60) as u64 * 1000 - u64::from(now.millis);
            let mut pause = Duration::from_millis(to_minute.max(1));
            if let Some(first) = self.failed.iter().map(|f| f.retry).chain(self.purge).min() {
                pause = pause.min(first.saturating_duration_since(Instant::now()));
            }
            std::thread::park_timeout(pause);
        }
        shared.sleeping.store(false, Ordering::Relaxed);
    }

    /// Writes what waits for one file, at most about [`MAX_WAITING`] bytes; the rest gets another turn.
    fn turn(&mut self, file: LogFile, mut chunks: VecDeque<Bytes>, retried: bool) {
        let inner = &*file.0;
        // Cleared before the queue is looked at: a line pushed from now on schedules the file again.
        inner.scheduled.swap(false, Ordering::AcqRel);
        let mut budget = MAX_WAITING;
        loop {
            while chunks.len() < BATCH
                && let Some(chunk) = inner.queue.pop()
            {
                match chunk {
                    Chunk::Lines(lines) => chunks.push_back(lines),
                    Chunk::Packed(lines, level) => {
                        let packed = pack(&lines, level);
                        // What waits from here on are the packed ones; they may be longer, if there are few.
                        inner.waiting.fetch_add(packed.len(), Ordering::AcqRel);
                        inner.waiting.fetch_sub(lines.len(), Ordering::AcqRel);
                        chunks.push_back(packed);
                    }
                    Chunk::Named(to, lines) => {
                        self.write_named(inner, &to, &lines);
                        inner.waiting.fetch_sub(lines.len(), Ordering::AcqRel);
                        budget = budget.saturating_sub(lines.len());
                        if budget == 0 {
                            break;
                        }
                    }
                }
            }
            if !chunks.is_empty() {
                match sink::write_some(inner, &mut chunks, &mut self.memories) {
                    Written::Some(written) => {
                        inner.waiting.fetch_sub(written, Ordering::AcqRel);
                        budget = budget.saturating_sub(written);
                        inner.broken.store(false, Ordering::Relaxed);
                    }
                    Written::Dropped(bytes, error) => {
                        inner.waiting.fetch_sub(bytes, Ordering::AcqRel);
                        budget = budget.saturating_sub(bytes);
                        if !inner.broken.swap(true, Ordering::Relaxed) {
                            self.report(format_args!("send() to \"{}\" failed ({})", inner.name, Errno(&error)));
                        }
                    }
                    Written::Later(error, pause) => {
                        if Arc::strong_count(&file.0) == 1 {
                            return; // Nobody can log to it any more; nothing is gained by trying for ever.
                        }
                        if !retried && inner.sink == Sink::File {
                            self.report(format_args!("write() to \"{}\" failed ({})", inner.name, Errno(&error)));
                        }
                        inner.scheduled.store(true, Ordering::Release);
                        self.failed.push(Failed { file, chunks, retry: Instant::now() + pause });
                        return;
                    }
                }
            }
            if chunks.is_empty() && (budget == 0 || inner.queue.is_empty()) {
                if budget == 0 && !inner.scheduled.swap(true, Ordering::AcqRel) {
                    self.shared.dirty.push(file.clone());
                }
                break;
            }
        }
        // Nobody is told of a server that is gone, again and again, perhaps through that very server.
        if inner.broken.load(Ordering::Relaxed) {
            return;
        }
        let lost = inner.lost.swap(0, Ordering::AcqRel);
        if lost > 0 {
            let name = if inner.sink == Sink::Named { "files with variables in their paths" } else { &inner.name };
            self.report(format_args!(
                "{lost} lines for \"{name}\" were dropped, as it could not be written fast enough"
            ));
        }
    }

    fn write_named(&mut self, inner: &Inner, to: &super::Destination, lines: &[u8]) {
        let now = Instant::now();
        if let Err(error) = self.open.write(to, lines, now) {
            inner.lost_in_all.fetch_add(memchr::memchr_iter(b'\n', lines).count().max(1) as u64, Ordering::Relaxed);
            if self.named_reported.is_none_or(|last| now.saturating_duration_since(last) >= NAMED_REPORT) {
                self.named_reported = Some(now);
                if let Some(log) = &*self.shared.report.load() {
                    log.write(Level::Crit, None, format_args!("{error} while logging request"));
                }
            }
        } else if let Some(keep) = &to.keep {
            let purge = now + keep.inactive;
            self.purge = Some(self.purge.map_or(purge, |known| known.min(purge)));
        }
    }

    fn report(&self, message: std::fmt::Arguments<'_>) {
        if let Some(log) = &*self.shared.report.load() {
            log.write(Level::Alert, None, message);
        }
    }
}

/// One member of gzip (RFC 1952). Members stand one after the other in a file, and unpack as one text.
fn pack(lines: &[u8], level: u8) -> Bytes {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level.into()));
    // Writing to a vector does not fail.
    let _ = encoder.write_all(lines);
    encoder.finish().unwrap_or_default().into()
}
