//! The state and the work of the log thread: each log that has lines gets its turn, again and again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::clock;
use super::errno::Errno;
use super::file::{Chunk, LogFile, MAX_WAITING};
use super::level::Level;
use super::sink::{self, BATCH, Memories, SYSLOG, Sink, WriteResult};
use super::variable_paths::{Destination, OpenFiles, WriteFailure};
use super::writer::{Command, WriterState};

/// The shortest interval between two reports that files which lines name cannot be written.
const NAMED_REPORT: Duration = Duration::from_secs(1);

/// A log that has its turn, with the items that were taken from its queue.
pub(super) struct Job {
    file: LogFile,
    chunks: VecDeque<Bytes>,
    /// The lines behind `chunks` are for the log's next descriptor.
    reopens: bool,
    /// The last write of the log failed.
    retried: bool,
    /// Number of bytes that the log may still write before the next log gets its turn.
    budget: usize,
}

/// A log whose last write failed.
struct FailedLog {
    job: Job,
    retry: Instant,
}

/// The result of a call during which another thread has taken over.
pub(super) enum HandedIn {
    /// The result of writing.
    Written(Job, WriteResult),
    /// The result of writing lines that name their file.
    Named(Job, OpenFiles, NamedLines),
    /// The result of closing files that lines have named: when to come back for the next ones, and the caller that
    /// waits for it.
    Closed(OpenFiles, Option<Instant>, Option<SyncSender<()>>),
}

/// Lines that name their file, and the result of writing them.
pub(super) struct NamedLines {
    to: Box<Destination>,
    lines: Bytes,
    result: Result<(), WriteFailure>,
}

/// The state that one thread at a time has; a thread that takes over continues with it.
pub(super) struct Keeper {
    failed: Vec<FailedLog>,
    /// Logs that other threads are held up with.
    held_up: Vec<LogFile>,
    memories: Memories,
    /// Files that lines name. `None`: another thread has them, and is held up with one of them.
    open: Option<OpenFiles>,
    /// Logs that get their turn when the files that lines name are available again.
    put_off: Vec<LogFile>,
    /// Moment at which files that are open but unused are to be closed.
    purge: Option<Instant>,
    /// The callers that wait until these are closed, which happens when they are available again.
    close: Vec<SyncSender<()>>,
    /// The callers that wait until everything is written.
    flush: Vec<SyncSender<()>>,
    stop: Option<SyncSender<()>>,
    /// Moment of the last report that a named file cannot be written.
    named_reported: Option<Instant>,
    /// The minute in which the local time was last asked for.
    minute: i64,
}

impl Default for Keeper {
    fn default() -> Keeper {
        Keeper {
            failed: Vec::new(),
            held_up: Vec::new(),
            memories: Memories::default(),
            open: Some(OpenFiles::default()),
            put_off: Vec::new(),
            purge: None,
            close: Vec::new(),
            flush: Vec::new(),
            stop: None,
            named_reported: None,
            minute: i64::MIN,
        }
    }
}

/// The result of a call that may wait, and the keeper, unless another thread has it.
type LentKeeper<R> = (Option<Box<Keeper>>, R);

impl Keeper {
    /// Does one round over all logs that have work. `None`: another thread has the keeper, or the writer has ended.
    pub(super) fn round(mut self: Box<Self>, shared: &Arc<WriterState>) -> Option<Box<Keeper>> {
        let now = clock::now();
        if now.secs.div_euclid(60) != self.minute {
            self.minute = now.secs.div_euclid(60);
            clock::refresh_offset();
        }
        while let Some(what) = shared.handed_in.pop() {
            self = self.take_back(shared, what)?;
        }
        // The command is taken before the files: a caller that asked for a flush has pushed its lines before.
        let command = shared.commands.pop();
        // The round covers only the files that had work when it began, so that a file that is written without end does
        // not keep the others (or a flush) waiting.
        for _ in 0..shared.dirty.len() {
            let Some(file) = shared.dirty.pop() else { break };
            let has_its_turn = self.failed.iter().map(|failed| &failed.job.file).chain(&self.held_up);
            if !has_its_turn.into_iter().any(|other| other.is(&file)) {
                self = self.turn(shared, Job::new(file))?;
            }
        }
        let hurry = command.is_some();
        let due = Instant::now();
        for FailedLog { mut job, retry } in std::mem::take(&mut self.failed) {
            let has_another = job.file.0.newest_descriptor();
            if hurry || has_another || retry <= due {
                (job.retried, job.budget) = (!has_another, MAX_WAITING);
                self = self.turn(shared, job)?;
            } else {
                self.failed.push(FailedLog { job, retry });
            }
        }
        if self.purge.is_some_and(|purge| purge <= due) {
            self = self.close_files(shared, None)?;
        }
        match command {
            Some(Command::Flush(done)) => self.flush.push(done),
            Some(Command::Stop(done)) => self.stop = Some(done),
            Some(Command::CloseNamed(done)) => self = self.close_files(shared, Some(done))?,
            None if self.is_done() => return self.answer(shared),
            None => {
                let retries = self.failed.iter().map(|failed| failed.retry);
                let first = retries.chain(self.purge).min();
                shared.idle(now, first.map(|first| first.saturating_duration_since(Instant::now())));
            }
        }
        if hurry && self.is_done() { self.answer(shared) } else { Some(self) }
    }

    /// Whether a caller waits until everything is written, and it is.
    fn is_done(&self) -> bool {
        self.held_up.is_empty() && self.put_off.is_empty() && (!self.flush.is_empty() || self.stop.is_some())
    }

    fn answer(mut self: Box<Self>, shared: &WriterState) -> Option<Box<Keeper>> {
        for done in self.flush.drain(..) {
            let _ = done.send(());
        }
        let Some(done) = self.stop.take() else { return Some(self) };
        shared.baton.end();
        let _ = done.send(());
        None
    }

    /// Runs a call that may wait. If it takes too long, another thread has the keeper when it ends.
    fn lend<R>(
        self: Box<Self>,
        shared: &WriterState,
        file: Option<&LogFile>,
        call: impl FnOnce() -> R,
    ) -> LentKeeper<R> {
        let ticket = shared.baton.lay_down(self, file, Instant::now());
        let result = call();
        (shared.baton.take_up(ticket), result)
    }

    /// Leaves out a log that a thread is held up with (`None`: with closing files that lines have named), so that the
    /// others go on.
    pub(super) fn leave_out(&mut self, shared: &WriterState, file: Option<LogFile>) {
        let Some(file) = file else { return };
        file.0.held_up.store(true, Ordering::Relaxed);
        shared.say(Level::Alert, format_args!("write() to \"{}\" takes long, other logs go on", file.shown()));
        self.held_up.push(file);
    }

    /// Takes back the result of a thread that was held up.
    fn take_back(mut self: Box<Self>, shared: &Arc<WriterState>, what: HandedIn) -> Option<Box<Keeper>> {
        let mut back = |job: &Job| {
            let file = &job.file;
            file.0.held_up.store(false, Ordering::Relaxed);
            self.held_up.retain(|other| !other.is(file));
            shared.say(Level::Notice, format_args!("write() to \"{}\" has come to its end", file.shown()));
        };
        match what {
            HandedIn::Written(job, written) => {
                back(&job);
                match self.settle(shared, job, written, 1) {
                    Some(job) => self.turn(shared, job),
                    None => Some(self),
                }
            }
            HandedIn::Named(mut job, open, named) => {
                back(&job);
                self.open = Some(open);
                self.settle_named(shared, &mut job, named);
                self.open_is_back(shared)?.turn(shared, job)
            }
            HandedIn::Closed(open, purge, done) => {
                self.open = Some(open);
                self.purge = purge;
                done.map(|done| done.send(()));
                self.open_is_back(shared)
            }
        }
    }

    /// Does the work that had to wait for the files that lines name.
    fn open_is_back(mut self: Box<Self>, shared: &Arc<WriterState>) -> Option<Box<Keeper>> {
        for done in std::mem::take(&mut self.close) {
            self = self.close_files(shared, Some(done))?;
        }
        for file in std::mem::take(&mut self.put_off) {
            self = self.turn(shared, Job::new(file))?;
        }
        Some(self)
    }

    /// Closes all files that lines have named if a caller waits for that, else those that are not used.
    fn close_files(
        mut self: Box<Self>,
        shared: &Arc<WriterState>,
        done: Option<SyncSender<()>>,
    ) -> Option<Box<Keeper>> {
        let Some(mut open) = self.open.take() else {
            self.close.extend(done);
            self.purge = None;
            return Some(self);
        };
        let all = done.is_some();
        let (keeper, purge) = self.lend(shared, None, || {
            if all {
                open.close_all();
                None
            } else {
                open.purge(Instant::now())
            }
        });
        let Some(mut keeper) = keeper else {
            shared.hand_in(HandedIn::Closed(open, purge, done));
            return None;
        };
        keeper.open = Some(open);
        keeper.purge = purge;
        if let Some(done) = done {
            let _ = done.send(());
        }
        Some(keeper)
    }

    /// Writes the items that wait for one log, at most about [`MAX_WAITING`] bytes; the rest gets another turn.
    fn turn(mut self: Box<Self>, shared: &Arc<WriterState>, mut job: Job) -> Option<Box<Keeper>> {
        let file = job.file.clone();
        let inner = &*file.0;
        if inner.output.sink == Sink::Named && self.open.is_none() {
            self.put_off.push(file);
            return Some(self);
        }
        // This is cleared before the queue is looked at: a line pushed from now on schedules the file again.
        inner.scheduled.swap(false, Ordering::AcqRel);
        loop {
            while job.chunks.len() < BATCH
                && !job.reopens
                && let Some(chunk) = inner.queue.pop()
            {
                match chunk {
                    Chunk::Lines(lines) => job.chunks.push_back(lines),
                    Chunk::Reopen => job.reopens = true,
                    Chunk::Gzip(lines, level) => {
                        let compressed = compress(&lines, level);
                        // From here on the compressed bytes are the waiting ones; they may be longer, if there are few.
                        inner.waiting.fetch_add(compressed.len(), Ordering::AcqRel);
                        inner.waiting.fetch_sub(lines.len(), Ordering::AcqRel);
                        job.chunks.push_back(compressed);
                    }
                    Chunk::Named(to, lines) => {
                        let mut open = self.open.take().unwrap_or_default();
                        let write = || open.write(&to, &lines, Instant::now());
                        let (keeper, result) = self.lend(shared, Some(&file), write);
                        let named = NamedLines { to, lines, result };
                        let Some(keeper) = keeper else {
                            shared.hand_in(HandedIn::Named(job, open, named));
                            return None;
                        };
                        self = keeper;
                        self.open = Some(open);
                        self.settle_named(shared, &mut job, named);
                        if job.budget == 0 {
                            break;
                        }
                    }
                }
            }
            if !job.chunks.is_empty() {
                let written = match inner.output.sink {
                    Sink::Memory(size) => self.memories.write(&inner.output, size, &mut job.chunks),
                    Sink::File | Sink::Named | Sink::Socket(_) => {
                        let (keeper, written) =
                            self.lend(shared, Some(&file), || sink::write_waiting(&inner.output, &mut job.chunks));
                        let Some(keeper) = keeper else {
                            shared.hand_in(HandedIn::Written(job, written));
                            return None;
                        };
                        self = keeper;
                        written
                    }
                };
                match self.settle(shared, job, written, 2) {
                    Some(left) => job = left,
                    None => return Some(self),
                }
            }
            if job.reopens && job.chunks.is_empty() {
                job.reopens = false;
                inner.next_descriptor();
            }
            if job.chunks.is_empty() && (job.budget == 0 || inner.queue.is_empty()) {
                if job.budget == 0 && !inner.scheduled.swap(true, Ordering::AcqRel) {
                    shared.dirty.push(file.clone());
                }
                break;
            }
        }
        // An absent server is reported once, not again and again, perhaps through that very server.
        if inner.broken.load(Ordering::Relaxed) {
            return Some(self);
        }
        let in_all = inner.lost_in_all.load(Ordering::Acquire);
        let lost = in_all.saturating_sub(inner.reported.swap(in_all, Ordering::AcqRel));
        if lost > 0 {
            let name = file.shown();
            shared.say(
                Level::Alert,
                format_args!("{lost} lines for \"{name}\" were dropped, as it could not be written fast enough"),
            );
        }
        Some(self)
    }

    /// Accounts for bytes that were written. `None`: the log has to rest. `handles` is the number of handles on the log
    /// that the caller has.
    fn settle(&mut self, shared: &WriterState, mut job: Job, written: WriteResult, handles: usize) -> Option<Job> {
        let inner = &*job.file.0;
        match written {
            WriteResult::Some(written) => {
                inner.waiting.fetch_sub(written, Ordering::AcqRel);
                job.budget = job.budget.saturating_sub(written);
                inner.broken.store(false, Ordering::Relaxed);
                inner.write_error.store(0, Ordering::Relaxed);
                Some(job)
            }
            WriteResult::Dropped { bytes, messages, error } => {
                inner.lost(messages as u64);
                inner.waiting.fetch_sub(bytes, Ordering::AcqRel);
                job.budget = job.budget.saturating_sub(bytes);
                if !inner.broken.swap(true, Ordering::Relaxed) {
                    let server = inner.output.name.strip_prefix(SYSLOG).unwrap_or(&inner.output.name);
                    shared.say(error.level(), format_args!("{error} while logging to syslog, server: {server}"));
                }
                Some(job)
            }
            WriteResult::Later(error, pause) => {
                if Arc::strong_count(&job.file.0) == handles {
                    return None; // Nobody can log to it any more; nothing is gained by trying for ever.
                }
                if !job.retried && inner.output.sink == Sink::File {
                    let said = format_args!("write() to \"{}\" failed ({})", inner.output.path(), Errno(&error));
                    shared.say(Level::Alert, said);
                }
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    inner.write_error.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
                }
                inner.scheduled.store(true, Ordering::Release);
                // A log that was reopened meanwhile has these lines in its new file.
                let pause = if inner.newest_descriptor() { Duration::ZERO } else { pause };
                self.failed.push(FailedLog { job, retry: Instant::now() + pause });
                None
            }
        }
    }

    /// Accounts for lines that name their file.
    fn settle_named(&mut self, shared: &WriterState, job: &mut Job, NamedLines { to, lines, result }: NamedLines) {
        let inner = &*job.file.0;
        let now = Instant::now();
        if let Err(error) = result {
            let lost = memchr::memchr_iter(b'\n', &lines).count().max(1) as u64;
            inner.lost(lost);
            inner.reported.fetch_add(lost, Ordering::AcqRel); // In other words.
            if self.named_reported.is_none_or(|last| now.saturating_duration_since(last) >= NAMED_REPORT) {
                self.named_reported = Some(now);
                shared.say(error.level(), format_args!("{error} while logging request{}", to.about));
            }
        } else if let Some(keep) = &to.keep {
            let purge = now + keep.inactive;
            self.purge = Some(self.purge.map_or(purge, |known| known.min(purge)));
        }
        inner.waiting.fetch_sub(lines.len(), Ordering::AcqRel);
        job.budget = job.budget.saturating_sub(lines.len());
    }
}

impl Job {
    fn new(file: LogFile) -> Job {
        Job { file, chunks: VecDeque::new(), reopens: false, retried: false, budget: MAX_WAITING }
    }
}

/// Compresses lines to one member of gzip (RFC 1952). Members stand one after the other in a file, and unpack as one
/// text.
fn compress(lines: &[u8], level: u8) -> Bytes {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level.into()));
    // Writing to a vector does not fail.
    let _ = encoder.write_all(lines);
    encoder.finish().unwrap_or_default().into()
}
