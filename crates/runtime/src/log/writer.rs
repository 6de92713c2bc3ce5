//! The thread that writes the logs.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::{Buf, Bytes};
use crossbeam_queue::SegQueue;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::clock;
use super::error::{Errno, ErrorLog, Level};
use super::file::{Inner, LogFile, MAX_WAITING};

/// How long a file that failed (ENOSPC, EIO, EPIPE …) rests before the next try.
const RETRY: Duration = Duration::from_secs(1);

/// Buffers given to one `writev`; well below IOV_MAX.
const BATCH: usize = 128;

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
            fd: ArcSwap::from_pointee(fd),
            queue: SegQueue::new(),
            waiting: AtomicUsize::new(0),
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

fn run(shared: &Shared) {
    let mut failed: Vec<Failed> = Vec::new();
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
            if !failed.iter().any(|f| Arc::ptr_eq(&f.file.0, &file.0)) {
                turn(shared, file, VecDeque::new(), false, &mut failed);
            }
        }
        let hurry = command.is_some();
        let due = Instant::now();
        for entry in std::mem::take(&mut failed) {
            if hurry || entry.retry <= due {
                turn(shared, entry.file, entry.chunks, true, &mut failed);
            } else {
                failed.push(entry);
            }
        }
        match command {
            Some(Command::Flush(done)) => {
                let _ = done.send(());
            }
            Some(Command::Stop(done)) => {
                let _ = done.send(());
                return;
            }
            None => idle(shared, &failed, now),
        }
    }
}

/// Sleeps until there is work, a failed file is due, or the minute ends.
fn idle(shared: &Shared, failed: &[Failed], now: clock::Moment) {
    shared.sleeping.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if shared.dirty.is_empty() && shared.commands.is_empty() {
        let to_minute = 60_000 - now.secs.rem_euclid(60) as u64 * 1000 - u64::from(now.millis);
        let mut pause = Duration::from_millis(to_minute.max(1));
        if let Some(first) = failed.iter().map(|f| f.retry).min() {
            pause = pause.min(first.saturating_duration_since(Instant::now()));
        }
        std::thread::park_timeout(pause);
    }
    shared.sleeping.store(false, Ordering::Relaxed);
}

/// Writes what waits for one file, at most about [`MAX_WAITING`] bytes; the rest gets another turn.
fn turn(shared: &Shared, file: LogFile, mut chunks: VecDeque<Bytes>, retried: bool, failed: &mut Vec<Failed>) {
    let inner = &*file.0;
    // Cleared before the queue is looked at: a line pushed from now on schedules the file again.
    inner.scheduled.swap(false, Ordering::AcqRel);
    let mut budget = MAX_WAITING;
    loop {
        while chunks.len() < BATCH
            && let Some(chunk) = inner.queue.pop()
        {
            chunks.push_back(chunk);
        }
        if chunks.is_empty() {
            break;
        }
        match write_some(inner, &mut chunks) {
            Ok(written) => {
                inner.waiting.fetch_sub(written, Ordering::AcqRel);
                budget = budget.saturating_sub(written);
            }
            Err(error) => {
                if Arc::strong_count(&file.0) == 1 {
                    return; // Nobody can log to it any more; nothing is gained by trying for ever.
                }
                if !retried {
                    report(shared, format_args!("write() to \"{}\" failed ({})", inner.name, Errno(&error)));
                }
                inner.scheduled.store(true, Ordering::Release);
                failed.push(Failed { file, chunks, retry: Instant::now() + RETRY });
                return;
            }
        }
        if budget == 0 && chunks.is_empty() {
            if !inner.scheduled.swap(true, Ordering::AcqRel) {
                shared.dirty.push(file.clone());
            }
            break;
        }
    }
    let lost = inner.lost.swap(0, Ordering::AcqRel);
    if lost > 0 {
        report(
            shared,
            format_args!("{lost} lines for \"{}\" were dropped, as it could not be written fast enough", inner.name),
        );
    }
}

fn report(shared: &Shared, message: std::fmt::Arguments<'_>) {
    if let Some(log) = &*shared.report.load() {
        log.write(Level::Alert, None, message);
    }
}

/// One `writev`; takes what was written off the front of `chunks`.
fn write_some(inner: &Inner, chunks: &mut VecDeque<Bytes>) -> io::Result<usize> {
    let fd = inner.fd.load();
    let slices: Vec<IoSlice<'_>> = chunks.iter().take(BATCH).map(|chunk| IoSlice::new(chunk)).collect();
    let mut waited = false;
    let written = loop {
        match rustix::io::writev(&**fd, &slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => break written,
            Err(rustix::io::Errno::INTR) => {}
            // Somebody else's end of a pipe may have made it non-blocking.
            Err(rustix::io::Errno::AGAIN) if !waited => {
                waited = true;
                let mut poll = [PollFd::new(&**fd, PollFlags::OUT)];
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let _ = rustix::event::poll(&mut poll, Some(&second));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let mut left = written;
    while left > 0 {
        let Some(front) = chunks.front_mut() else { break };
        if front.len() <= left {
            left -= front.len();
            chunks.pop_front();
        } else {
            front.advance(left);
            left = 0;
        }
    }
    Ok(written)
}
