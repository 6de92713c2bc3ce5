//! Event loops: one thread each, with tasks of its own that never leave it, every poll of a task timed.
//!
//! A loop polls what is ready ([`tasks`]), asks the kernel for events ([`events`](crate::events)), and looks whose time
//! has come ([`deadline`](crate::deadline)): `loops/run.rs`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

pub use self::run::{UNASKED, after_events, block_on, wake_after_events};

use self::run::Running;
use crate::stats::{Counter, Histogram};
use crate::tasks;

mod run;

/// A poll of a task that takes longer than this is a stall: counted, and logged with what ran.
pub const STALL: Duration = Duration::from_millis(10);

/// What a loop is told from outside. Jobs run on the loop's thread, in order.
pub type Job = Box<dyn FnOnce() + Send>;

/// Figures of one loop. The loop writes them, anyone may read them; no lock is involved.
#[derive(Debug, Default)]
pub struct LoopStats {
    /// Connections accepted since the start.
    pub accepted: Counter,
    /// Connections open now.
    pub active: Counter,
    /// Of these, keep-alive connections without a request.
    pub idle: Counter,
    /// Of these, connections that have sent nothing yet.
    pub fresh: Counter,
    /// Of these, connections of whose next request's head a part has come.
    pub reading: Counter,
    /// Requests begun since the start.
    pub requests: Counter,
    /// Connections that another thread accepted from this loop's own socket because this loop was late.
    pub rescued: Counter,
    /// Wall-clock time of each poll of a task.
    pub polls: Histogram,
    /// Polls longer than [`STALL`].
    pub stalls: Counter,
    /// When the poll that is going on began, in nanoseconds since [`epoch`] plus one; 0 between polls.
    poll_started: AtomicU64,
}

impl LoopStats {
    /// For how long the loop has been in one and the same poll; zero between polls.
    pub fn in_poll_for(&self) -> Duration {
        match self.poll_started.load(Relaxed) {
            0 => Duration::ZERO,
            started => epoch().elapsed().saturating_sub(Duration::from_nanos(started - 1)),
        }
    }
}

/// The instant that the process counts its monotonic nanoseconds from.
pub fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// What runs in a poll, for the line that reports a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The connection's number, 0 for none.
    pub connection: u64,
    /// The step of the request, or the name of the task.
    pub step: &'static str,
}

/// Called on the loop's thread after a stall.
pub type StallReport = Box<dyn Fn(Duration, Activity)>;

struct Local {
    stats: Arc<LoopStats>,
    report: RefCell<Option<StallReport>>,
}

/// Start of the poll that is going on, or end of the last one: a clock good enough for anything that happens within it.
#[derive(Clone, Copy)]
struct Now {
    instant: Instant,
    /// The nanoseconds from [`epoch`] to `instant`.
    nanos: u64,
}

impl Now {
    fn look() -> Now {
        let instant = Instant::now();
        let now = Now { instant, nanos: since_epoch(instant) };
        NOW.set(Some(now));
        now
    }
}

/// One more than the highest number of a loop.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LOCAL: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
    /// The number of the same loop.
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
    /// What runs in the poll that is going on.
    static ACTIVITY: Cell<Activity> = const { Cell::new(Activity { connection: 0, step: "start" }) };
    /// Of the loop that runs on this thread.
    static NOW: Cell<Option<Now>> = const { Cell::new(None) };
}

fn local() -> Option<Rc<Local>> {
    LOCAL.with_borrow(Clone::clone)
}

/// The statistics of the loop that runs on this thread, if one does.
pub fn stats() -> Option<Arc<LoopStats>> {
    local().map(|local| local.stats.clone())
}

/// The number of the loop that runs on this thread, from 0.
pub fn index() -> Option<usize> {
    INDEX.get()
}

/// How many loops there are: those started in this process, one that has ended included.
pub fn count() -> usize {
    COUNT.load(Relaxed)
}

/// The start of the current poll: the time to the accuracy of one poll, without asking the kernel.
pub fn now() -> Instant {
    NOW.get().map_or_else(Instant::now, |now| now.instant)
}

/// [`now`] in nanoseconds since the process began.
pub fn nanos() -> u64 {
    NOW.get().map_or_else(|| since_epoch(Instant::now()), |now| now.nanos)
}

/// [`nanos`], on a loop's thread; `None` elsewhere.
pub fn nanos_here() -> Option<u64> {
    NOW.get().map(|now| now.nanos)
}

/// [`now`] in milliseconds since the process began: the clock of what counts in milliseconds.
pub fn millis() -> u64 {
    nanos() / 1_000_000
}

/// Notes what the current poll is doing, for stall reports.
pub fn note(connection: u64, step: &'static str) {
    ACTIVITY.set(Activity { connection, step });
}

/// Sets what is called on this loop after a stall.
pub fn set_stall_report(report: StallReport) {
    if let Some(local) = local() {
        *local.report.borrow_mut() = Some(report);
    }
}

/// Starts a task of this loop. Its polls are timed.
///
/// # Panics
/// Outside a loop's thread.
pub fn spawn<F: Future<Output = ()> + 'static>(connection: u64, step: &'static str, future: F) {
    tasks::spawn(Activity { connection, step }, Box::pin(future));
}

/// Lets the other tasks that are ready have their turn. The kernel is asked for events when nothing is ready, and after
/// [`UNASKED`] at the latest.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How much a task may do in one poll that it could do without end: so many reads, see [`consume_budget`], or as much of what
/// [`spend`] counts.
const BUDGET: u32 = 128 * READ;

/// What a read counts for, in bytes of framing. With chunks of one byte each, so many of them take 20 µs to be looked at, as long as it
/// takes to read 32 KiB of a body as it is and to send them on.
const READ: u32 = 4096;

thread_local! {
    static BUDGET_LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// For what could go on without end, such as reading from a peer that is as fast as this loop: after so much of it that others
/// have waited long enough, they have their turn.
pub async fn consume_budget() {
    poll_fn(poll_budget).await;
}

/// As [`consume_budget`], in a poll.
pub fn poll_budget(context: &mut Context<'_>) -> Poll<()> {
    match BUDGET_LEFT.get() {
        0 if tasks::on_a_loop() => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
        left => {
            BUDGET_LEFT.set(left.saturating_sub(READ));
            Poll::Ready(())
        }
    }
}

/// Takes note that what came with a read was much work: so many bytes of it were framing, which is looked at byte by byte. Who is
/// sent chunks, or records, of one byte each finds as many of them in a read as it has bytes. It is the next
/// [`consume_budget`] that lets others have their turn.
pub fn spend(framing: usize) {
    let framing = u32::try_from(framing).unwrap_or(u32::MAX);
    BUDGET_LEFT.set(BUDGET_LEFT.get().saturating_sub(framing));
}

/// To be called before each poll of a task, or of several that are short.
pub(crate) fn fill_budget() {
    BUDGET_LEFT.set(BUDGET);
}

/// Whether those that follow in the same row may do anything.
pub(crate) fn has_budget() -> bool {
    BUDGET_LEFT.get() > 0
}

/// Polls one after the other with nothing in between: the end of one is the start of the next, so that each costs one look
/// at the clock.
pub(crate) struct Row<'l> {
    local: &'l Local,
    /// End of the last poll, in nanoseconds since [`epoch`].
    last: u64,
}

fn since_epoch(now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX - 1)
}

impl Row<'_> {
    /// Something else has happened since the last poll.
    fn look(&mut self) {
        self.last = Now::look().nanos;
    }

    /// One poll of a task.
    pub(crate) fn poll<T>(&mut self, activity: Activity, poll: impl FnOnce() -> T) -> T {
        let Row { local, last: start } = *self;
        ACTIVITY.set(activity);
        local.stats.poll_started.store(start + 1, Relaxed);
        let answer = poll();
        local.stats.poll_started.store(0, Relaxed);
        self.look();
        let took = Duration::from_nanos(self.last.saturating_sub(start));
        local.stats.polls.record_alone(took);
        if took > STALL {
            local.stats.stalls.add();
            if let Some(report) = &*local.report.borrow() {
                report(took, ACTIVITY.get());
            }
        }
        answer
    }
}

/// A running loop, as its owner sees it. Dropping it does not end the loop: [`LoopHandle::stop`] does.
#[derive(Debug)]
pub struct LoopHandle {
    /// Number of the loop, from 0.
    pub index: usize,
    /// Its figures.
    pub stats: Arc<LoopStats>,
    jobs: mpsc::UnboundedSender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Job(Job),
    Stop,
}

impl LoopHandle {
    /// Starts a loop thread. `cpus` are the processors it is bound to (`worker_cpu_affinity`).
    ///
    /// # Errors
    /// The thread or its epoll instance could not be made.
    pub fn start(index: usize, cpus: Option<rustix::thread::CpuSet>) -> io::Result<LoopHandle> {
        epoch();
        COUNT.fetch_max(index + 1, Relaxed);
        let stats = Arc::new(LoopStats::default());
        let (jobs, inbox) = mpsc::unbounded_channel();
        let thread_stats = stats.clone();
        let (made, is_made) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            if let Some(cpus) = cpus {
                // A mask without a usable processor leaves the thread where it was, as with nginx; the master warned.
                let _ = rustix::thread::sched_setaffinity(None, &cpus);
            }
            let running = match Running::new(thread_stats) {
                Ok(running) => running,
                Err(error) => return drop(made.send(Err(error))),
            };
            INDEX.set(Some(index));
            drop(made.send(Ok(())));
            running.run(work(inbox));
        })?;
        is_made.blocking_recv().unwrap_or_else(|_| Err(io::Error::other("the loop's thread has ended")))?;
        Ok(LoopHandle { index, stats, jobs, thread: Some(thread) })
    }

    /// Has the loop run `job` on its thread. `false` when the loop has ended.
    ///
    /// The queue has no bound of its own: only the control thread (reloads) and the rescue of connections use it, and
    /// both are bounded themselves.
    pub fn tell(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.send(Message::Job(Box::new(job))).is_ok()
    }

    /// A sender of jobs for other threads.
    pub fn remote(&self) -> Remote {
        Remote { jobs: self.jobs.clone() }
    }

    /// Ends the loop and waits for its thread. Tasks that still run are dropped.
    pub fn stop(mut self) {
        let _ = self.jobs.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends jobs to a loop from any thread.
#[derive(Debug, Clone)]
pub struct Remote {
    jobs: mpsc::UnboundedSender<Message>,
}

impl Remote {
    /// As [`LoopHandle::tell`].
    pub fn tell(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.send(Message::Job(Box::new(job))).is_ok()
    }
}

async fn work(mut inbox: mpsc::UnboundedReceiver<Message>) {
    while let Some(Message::Job(job)) = inbox.recv().await {
        job();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_loop_runs_jobs_in_order_times_polls_and_reports_stalls() {
        let handle = LoopHandle::start(3, None).unwrap();
        let (report, reports) = channel();
        let (done, finished) = channel();
        handle.tell(move || {
            assert_eq!(index(), Some(3));
            set_stall_report(Box::new(move |took, activity| report.send((took, activity)).unwrap()));
        });
        handle.tell(move || {
            spawn(9, "first step", async move {
                note(9, "hog");
                // A task that holds the loop, as a blocking call would.
                let start = Instant::now();
                while start.elapsed() <= STALL {
                    std::hint::spin_loop();
                }
                yield_now().await;
                done.send(()).unwrap();
            });
        });
        finished.recv().unwrap();
        let (took, activity) = reports.recv().unwrap();
        assert!(took > STALL);
        assert_eq!(activity, Activity { connection: 9, step: "hog" });
        let stats = handle.stats.clone();
        handle.stop();
        // A machine that is busy with something else may make one of the second poll; each is told once.
        assert_eq!(stats.stalls.get(), 1 + reports.try_iter().count() as u64);
        assert_eq!(stats.polls.snapshot().count(), 2);
        assert_eq!(stats.in_poll_for(), Duration::ZERO);
    }

    #[test]
    fn reads_that_bring_much_work_are_fewer_in_a_turn() {
        // How many reads in a row there are before others have their turn.
        let in_a_row = |framing: usize| {
            block_on(async move {
                yield_now().await;
                let mut reads = 0;
                poll_fn(|context| {
                    while poll_budget(context).is_ready() {
                        spend(framing);
                        reads += 1;
                    }
                    Poll::Ready(())
                })
                .await;
                reads
            })
            .unwrap()
        };
        assert_eq!(in_a_row(0), 128);
        assert_eq!(in_a_row(6), 128, "a chunk of an ordinary body costs nothing");
        assert_eq!(in_a_row(READ as usize), 64);
        assert_eq!(in_a_row(256 * 1024), 2);
        assert_eq!(in_a_row(usize::MAX), 1);
    }

    #[test]
    fn no_call_of_another_thread_is_lost_however_it_meets_a_loop_that_falls_asleep() {
        const CALLS: u32 = 20_000;
        let handle = LoopHandle::start(0, None).unwrap();
        let (ask, mut asked) = mpsc::unbounded_channel();
        let (answer, answers) = channel();
        handle.tell(move || {
            spawn(0, "answering", async move {
                while let Some(number) = asked.recv().await {
                    answer.send(number).unwrap();
                }
            });
        });
        for number in 0..CALLS {
            ask.send(number).unwrap();
            // The loop sleeps, or is about to, or has not yet begun to.
            if number % 3 > 0 {
                assert_eq!(answers.recv_timeout(Duration::from_secs(20)), Ok(number - u32::from(number % 3 == 1)));
            }
            if number % 3 == 1 {
                assert_eq!(answers.recv_timeout(Duration::from_secs(20)), Ok(number));
            }
        }
        handle.stop();
    }
}
