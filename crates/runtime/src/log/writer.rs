//! The thread that writes the logs, and the thread that goes on while a write takes long.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use crossbeam_queue::SegQueue;

use super::clock;
use super::error::ErrorLog;
use super::file::{Inner, LogFile};
use super::keeper::{HandedIn, Keeper};
use super::level::Level;
use super::relief::{Baton, Look, PATIENCE};
use super::sink::{Output, Sink};

/// Makes [`LogFile`]s and owns the thread that writes them. Cheap to clone; the thread lives until
/// [`Writer::shutdown`] or the end of the process.
#[derive(Clone)]
pub struct Writer {
    /// `None`: a writer without a thread.
    shared: Option<Arc<WriterState>>,
    files: Arc<Mutex<HashMap<String, Weak<Inner>>>>,
}

/// The state that producers and the thread share. Loops touch only lock-free parts of it.
pub(super) struct WriterState {
    pub(super) dirty: SegQueue<LogFile>,
    pub(super) commands: SegQueue<Command>,
    /// The results of threads that were held up; as many as there are threads at most.
    pub(super) handed_in: SegQueue<HandedIn>,
    sleeping: AtomicBool,
    thread: ArcSwapOption<Thread>,
    pub(super) report: ArcSwapOption<ErrorLog>,
    pub(super) baton: Baton<Box<Keeper>>,
    /// Time that a write may take before another thread goes on with the other logs.
    patience: Duration,
}

pub(super) enum Command {
    /// Answer once everything queued before has been written, or has failed.
    Flush(SyncSender<()>),
    /// Answer once everything queued before has been written, or has failed; then end.
    Stop(SyncSender<()>),
    /// Answer once files that lines have named are closed.
    CloseNamed(SyncSender<()>),
}

impl WriterState {
    /// The number of threads that write logs, or are held up doing so, including the thread that stands by.
    pub(super) fn threads(&self) -> usize {
        self.baton.threads()
    }

    /// Hands in the result of a call whose end another thread did not wait for.
    pub(super) fn hand_in(&self, what: HandedIn) {
        self.handed_in.push(what);
        self.wake();
    }

    pub(super) fn schedule(&self, file: LogFile) {
        self.dirty.push(file);
        self.wake();
    }

    fn wake(&self) {
        // This pairs with the fence in `idle`: either the thread sees the pushed item, or this sees that the thread
        // sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && self.sleeping.swap(false, Ordering::AcqRel)
            && let Some(thread) = &*self.thread.load()
        {
            thread.unpark();
        }
    }
}

impl Writer {
    /// Starts the writing thread, and a thread that stands by. Fails only if no thread can be made.
    pub fn start() -> io::Result<Writer> {
        Writer::start_with(PATIENCE)
    }

    pub(super) fn start_with(patience: Duration) -> io::Result<Writer> {
        let shared = Arc::new(WriterState {
            dirty: SegQueue::new(),
            commands: SegQueue::new(),
            handed_in: SegQueue::new(),
            sleeping: AtomicBool::new(false),
            thread: ArcSwapOption::empty(),
            report: ArcSwapOption::empty(),
            baton: Baton::new(),
            patience,
        });
        clock::refresh_offset();
        let for_thread = shared.clone();
        let handle =
            std::thread::Builder::new().name("log".into()).spawn(move || work(&for_thread, Some(Box::default())))?;
        shared.thread.store(Some(Arc::new(handle.thread().clone())));
        shared.baton.announce();
        relieve(&shared);
        Ok(Writer { shared: Some(shared), files: Arc::default() })
    }

    /// A writer without a thread: each line is written where it is logged, before the call returns.
    pub fn direct() -> Writer {
        clock::refresh_offset();
        Writer { shared: None, files: Arc::default() }
    }

    /// The file called `name`, writing to `fd`. If a file of that name is in use already, that one is returned and its
    /// descriptor is replaced: all generations write to the same place.
    pub fn file(&self, name: &str, fd: OwnedFd) -> LogFile {
        let (file, fd) = self.file_or_known(name, fd);
        if let Some(fd) = fd {
            file.reopen(fd);
        }
        file
    }

    /// The file called `name`, writing to `fd`. If a file of that name is in use already, it is returned as it is, with
    /// `fd`. The caller [reopens](LogFile::reopen) it when nobody holds lines for the old one any more.
    pub fn file_or_known(&self, name: &str, fd: OwnedFd) -> (LogFile, Option<OwnedFd>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = files.get(name).and_then(Weak::upgrade) {
            return (LogFile(inner), Some(fd));
        }
        files.retain(|_, inner| inner.strong_count() > 0);
        let inner = Arc::new(Inner {
            output: Output { name: name.to_owned(), sink: Sink::of(name), fd: ArcSwap::from_pointee(fd) },
            queue: SegQueue::new(),
            reopened: SegQueue::new(),
            waiting: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            lost_in_all: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            held_up: AtomicBool::new(false),
            write_error: AtomicI32::new(0),
            scheduled: AtomicBool::new(false),
            shared: self.shared.clone(),
        });
        files.insert(name.to_owned(), Arc::downgrade(&inner));
        (LogFile(inner), None)
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

    /// The number of threads that write logs, or are held up doing so, including the thread that stands by.
    pub fn threads(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.threads())
    }

    /// Sets the log to which the writer reports its own errors: failed writes, dropped lines.
    pub fn report_to(&self, log: ErrorLog) {
        if let Some(shared) = &self.shared {
            shared.report.store(Some(Arc::new(log)));
        }
    }

    /// Waits until the lines that were queued before are written, at most for `limit`. `false`: time ran out. Not for
    /// loops.
    pub fn flush(&self, limit: Duration) -> bool {
        self.ask(Command::Flush, limit)
    }

    /// Writes the waiting lines, at most for `limit`, and ends the thread. Lines that are logged later are lost.
    pub fn shutdown(&self, limit: Duration) -> bool {
        self.ask(Command::Stop, limit)
    }

    /// Closes the files that lines have named, so that they are opened anew. Waits like [`Writer::flush`].
    pub fn close_named(&self, limit: Duration) -> bool {
        self.ask(Command::CloseNamed, limit)
    }

    /// Has the files closed that lines have named, when the lines that were queued before are written. Never blocks.
    pub fn close_named_later(&self) {
        if let Some(shared) = &self.shared {
            // Nobody waits for the answer.
            shared.commands.push(Command::CloseNamed(sync_channel(1).0));
            shared.wake();
        }
    }

    fn ask(&self, command: fn(SyncSender<()>) -> Command, limit: Duration) -> bool {
        let Some(shared) = &self.shared else { return true };
        let (done, wait) = sync_channel(1);
        shared.commands.push(command(done));
        shared.wake();
        wait.recv_timeout(limit).is_ok()
    }
}

/// Starts a thread that stands by; it is counted already.
fn relieve(shared: &Arc<WriterState>) {
    let for_thread = shared.clone();
    if std::thread::Builder::new().name("log".into()).spawn(move || work(&for_thread, None)).is_err() {
        shared.baton.not_started();
    }
}

/// The body of the threads: write logs or stand by, until the thread is not needed any more.
fn work(shared: &Arc<WriterState>, mut keeper: Option<Box<Keeper>>) {
    loop {
        let Some(mut kept) = keeper.take().or_else(|| stand_by(shared)) else { return };
        shared.thread.store(Some(Arc::new(std::thread::current())));
        while let Some(back) = kept.round(shared) {
            kept = back;
        }
        if !shared.baton.is_vacant() {
            return;
        }
    }
}

/// Stands by until a write takes too long. `None`: the writer has ended.
fn stand_by(shared: &Arc<WriterState>) -> Option<Box<Keeper>> {
    loop {
        match shared.baton.look(shared.patience, Instant::now()) {
            Look::After(time) => std::thread::sleep(time),
            Look::Sleep => {
                std::thread::park();
                // A load that was laid down just now gets all of its time.
                std::thread::sleep(shared.patience);
            }
            Look::TakeOver(mut keeper, file, more) => {
                if more {
                    relieve(shared);
                }
                keeper.leave_out(shared, file);
                return Some(keeper);
            }
            Look::End => return None,
        }
    }
}

impl WriterState {
    /// Sleeps until there is work, or for `pause`, or the minute ends.
    pub(super) fn idle(&self, now: clock::Moment, pause: Option<Duration>) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.dirty.is_empty() && self.commands.is_empty() && self.handed_in.is_empty() {
            let to_minute = 60_000 - now.secs.rem_euclid(60) as u64 * 1000 - u64::from(now.millis);
            let to_minute = Duration::from_millis(to_minute.max(1));
            std::thread::park_timeout(pause.map_or(to_minute, |pause| pause.min(to_minute)));
        }
        self.sleeping.store(false, Ordering::Relaxed);
    }

    pub(super) fn say(&self, level: Level, message: std::fmt::Arguments<'_>) {
        if let Some(log) = &*self.report.load() {
            log.write(level, None, message);
        }
    }
}
