//! Event loops: one thread each, with tasks of its own that never leave it, every poll of a task timed.
//!
//! A loop polls the tasks that are ready ([`tasks`]), asks the kernel for events ([`events`](crate::events)), and wakes
//! the tasks whose deadlines have passed ([`deadline`](crate::deadline)): `loops/run.rs`.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

pub use self::run::{UNASKED, after_events, block_on, wake_after_events};
pub use crate::clock::{epoch, millis, millis_of, nanos, nanos_here, nanos_of, now};
pub use crate::loop_stats::LoopStats;
pub use crate::stalls::{Activity, STALL, Stall, StallReport, note, set_stall_report, stats};
pub use crate::turn::{measured, spend};

use self::run::RunningLoop;
use crate::{tasks, turn};

mod run;

/// A job for a loop from outside. Jobs run on the loop's thread, in order.
pub type LoopJob = Box<dyn FnOnce() + Send>;

/// The highest number of a loop, plus one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of the loop that runs on this thread.
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of the loop that runs on this thread, from 0.
pub fn index() -> Option<usize> {
    INDEX.get()
}

/// The number of loops that were started in this process, including those that have ended.
pub fn count() -> usize {
    COUNT.load(Relaxed)
}

/// Starts a task of this loop. Its polls are timed.
///
/// # Panics
/// Outside a loop's thread.
pub fn spawn<F: Future<Output = ()> + 'static>(connection: u64, step: &'static str, future: F) {
    tasks::spawn(Activity { connection, step }, Box::pin(future));
}

/// Lets the other tasks that are ready have their turn. The loop asks the kernel for events when nothing is ready, and
/// after [`UNASKED`] at the latest.
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

/// Limits work that could go on without end, such as reading from a peer that is as fast as this loop. A task that has
/// used up its budget gives the others their turn.
pub async fn consume_budget() {
    poll_fn(poll_budget).await;
}

/// Polls the budget of [`consume_budget`]: pending when other tasks are to get their turn.
pub fn poll_budget(context: &mut Context<'_>) -> Poll<()> {
    if !turn::has_budget() && tasks::on_a_loop() {
        context.waker().wake_by_ref();
        return Poll::Pending;
    }
    turn::spend(turn::READ);
    Poll::Ready(())
}

/// A running loop, as its owner sees it. Dropping it does not end the loop: [`LoopHandle::stop`] does.
#[derive(Debug)]
pub struct LoopHandle {
    /// Number of the loop, from 0.
    pub index: usize,
    /// The loop's figures.
    pub stats: Arc<LoopStats>,
    jobs: mpsc::UnboundedSender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Job(LoopJob),
    Stop,
}

impl LoopHandle {
    /// Starts a loop thread. `cpus` are the processors it is bound to (`worker_cpu_affinity`).
    ///
    /// # Errors
    /// The thread or its epoll instance could not be made.
    pub fn start(index: usize, cpus: Option<rustix::thread::CpuSet>) -> io::Result<LoopHandle> {
        LoopHandle::start_with(index, cpus, Arc::default())
    }

    /// Starts a loop thread that goes on with the figures of a loop which has ended.
    ///
    /// # Errors
    /// The thread or its epoll instance could not be made.
    pub fn start_with(
        index: usize,
        cpus: Option<rustix::thread::CpuSet>,
        stats: Arc<LoopStats>,
    ) -> io::Result<LoopHandle> {
        epoch();
        COUNT.fetch_max(index + 1, Relaxed);
        let (jobs, inbox) = mpsc::unbounded_channel();
        let thread_stats = stats.clone();
        let (made, is_made) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
            if let Some(cpus) = cpus {
                // With a mask without a usable processor the thread stays as it was, as with nginx; the master has
                // warned.
                let _ = rustix::thread::sched_setaffinity(None, &cpus);
            }
            let running = match RunningLoop::new(thread_stats) {
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
    /// both bound their jobs.
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
    /// Has the loop run `job` on its thread, like [`LoopHandle::tell`].
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
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_loop_runs_jobs_in_order_times_polls_and_reports_stalls() {
        let handle = LoopHandle::start(3, None).unwrap();
        let (report, reports) = channel();
        let (done, finished) = channel();
        handle.tell(move || {
            assert_eq!(index(), Some(3));
            set_stall_report(Box::new(move |stall| report.send(*stall).unwrap()));
        });
        handle.tell(move || {
            spawn(9, "first step", async move {
                note(9, "hog");
                // This task holds the loop, as a blocking call would.
                let start = Instant::now();
                while start.elapsed() <= STALL {
                    std::hint::spin_loop();
                }
                yield_now().await;
                done.send(()).unwrap();
            });
        });
        finished.recv().unwrap();
        let stall = reports.recv().unwrap();
        assert!(stall.took > STALL && stall.without_processor <= stall.took);
        assert!(stall.ran + stall.without_processor >= stall.took / 2, "it was never blocked");
        assert_eq!(stall.activity, Activity { connection: 9, step: "hog" });
        let stats = handle.stats.clone();
        handle.stop();
        // On a busy machine the second poll may be a stall, too; each is reported once.
        assert_eq!(stats.stalls.get(), 1 + reports.try_iter().count() as u64);
        assert_eq!(stats.polls.snapshot().count(), 2);
        assert_eq!(stats.in_poll_for(), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_awaits_a_run_of_a_loop_that_sleeps_is_woken() {
        let handle = LoopHandle::start(0, None).unwrap();
        for _ in 0..100 {
            handle.stats.await_run();
            assert!(handle.tell(|| ()));
            let begun = Instant::now();
            // The loop may not have slept yet when it got the job: then it runs again for the next one.
            while handle.stats.is_awaited() && begun.elapsed() < Duration::from_secs(20) {
                std::thread::park_timeout(Duration::from_millis(1));
                handle.tell(|| ());
            }
            assert!(!handle.stats.is_awaited());
        }
        handle.stop();
    }

    #[test]
    fn reads_that_bring_much_work_are_fewer_in_a_turn() {
        // The number of reads in a row before other tasks get their turn.
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
        assert_eq!(in_a_row(turn::READ), 64);
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
            // The loop sleeps, is about to sleep, or has not yet begun to.
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
