//! Event loops: one thread each, tokio's current-thread runtime with local tasks, every poll of a task timed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};

use crate::stats::{Counter, Histogram};

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
    activity: Cell<Activity>,
    report: RefCell<Option<StallReport>>,
}

/// Start of the poll that is going on, or end of the last one: a clock good enough for anything that happens within it.
#[derive(Clone, Copy)]
struct Now {
    instant: Instant,
    /// The same in nanoseconds since [`epoch`].
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

/// The same on a loop's thread; `None` elsewhere.
pub fn nanos_here() -> Option<u64> {
    NOW.get().map(|now| now.nanos)
}

/// [`now`] in milliseconds since the process began: the clock of what counts in milliseconds.
pub fn millis() -> u64 {
    nanos() / 1_000_000
}

/// Notes what the current poll is doing, for stall reports.
pub fn note(connection: u64, step: &'static str) {
    LOCAL.with_borrow(|local| {
        if let Some(local) = local {
            local.activity.set(Activity { connection, step });
        }
    });
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
    let local = local().expect("loops::spawn is called on a loop's thread");
    tokio::task::spawn_local(Timed { local, activity: Activity { connection, step }, future });
}

pin_project_lite::pin_project! {
    struct Timed<F> {
        local: Rc<Local>,
        activity: Activity,
        #[pin]
        future: F,
    }
}

impl<F: Future<Output = ()>> Future for Timed<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let local = &**this.local;
        Row::begin(local).poll(*this.activity, || this.future.poll(context))
    }
}

/// Lets the other tasks that are ready have their turn. Unlike tokio's, which also asks the kernel for events each time,
/// this leaves that to the runtime: it does so when nothing is ready, and after 61 polls at the latest.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls one after the other with nothing in between: the end of one is the start of the next, so that each costs one look
/// at the clock.
pub(crate) struct Row<'l> {
    local: &'l Local,
    /// End of the last poll, in nanoseconds since [`epoch`].
    last: u64,
}

/// Runs `polls`, which makes each of its polls through the row.
///
/// # Panics
/// Outside a loop's thread.
pub(crate) fn timed_in_a_row(polls: impl FnOnce(&mut Row<'_>)) {
    let local = local().expect("tasks run on a loop's thread");
    polls(&mut Row::begin(&local));
}

fn since_epoch(now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX - 1)
}

impl<'l> Row<'l> {
    fn begin(local: &'l Local) -> Row<'l> {
        Row { local, last: Now::look().nanos }
    }

    /// When the last poll ended, in nanoseconds since the process began.
    pub(crate) fn now(&self) -> u64 {
        self.last
    }

    /// One poll of a task.
    pub(crate) fn poll<T>(&mut self, activity: Activity, poll: impl FnOnce() -> T) -> T {
        let Row { local, last: start } = *self;
        local.activity.set(activity);
        local.stats.poll_started.store(start + 1, Relaxed);
        let answer = poll();
        local.stats.poll_started.store(0, Relaxed);
        self.last = Now::look().nanos;
        let took = Duration::from_nanos(self.last.saturating_sub(start));
        local.stats.polls.record_alone(took);
        if took > STALL {
            local.stats.stalls.add();
            if let Some(report) = &*local.report.borrow() {
                report(took, local.activity.get());
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
            let local = Rc::new(Local {
                stats: thread_stats,
                activity: Cell::new(Activity { connection: 0, step: "start" }),
                report: RefCell::new(None),
            });
            LOCAL.set(Some(local));
            INDEX.set(Some(index));
            Now::look();
            // Its tasks are local ones: a set of them of its own would take turns with it each time the loop wakes up.
            let built = Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
            let runtime = match built {
                Ok(runtime) => runtime,
                Err(error) => return drop(made.send(Err(error))),
            };
            drop(made.send(Ok(())));
            let end = Rc::new(End::default());
            let ends = end.clone();
            runtime.spawn_local(async move {
                let _ends = Ends(ends);
                run(inbox).await;
            });
            runtime.block_on(poll_fn(|context| end.poll(context)));
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

/// Whether the loop has to end. This is asked whenever the loop has looked at its events, so it has to cost nothing.
#[derive(Default)]
struct End {
    has_come: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl End {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        if self.has_come.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Says that the loop has to end, also by a panic.
struct Ends(Rc<End>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.has_come.set(true);
        let waker = self.0.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

async fn run(mut inbox: mpsc::UnboundedReceiver<Message>) {
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
                tokio::task::yield_now().await;
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
}
