//! Named, bounded pools of threads for work that may wait (nginx's `thread_pool`), shared by all loops of the worker.
//!
//! A loop never waits for a lock here: it queues work in a lock-free inbox and wakes a sleeping thread with a futex.
//! Only pool threads take the lock of the [`schedule`], the order of the tasks.
//!
//! A pool starts with one thread and keeps one more than are busy, up to its limit, so that the loops never have to
//! start one. Threads beyond that end when they were idle for a little longer than [`IDLE_TIME`].

mod cpu;
mod registry;
mod schedule;
#[cfg(test)]
mod tests;
mod threads;

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::stats::HistogramSnapshot;
pub use cpu::{CPU_MAX_QUEUE, CPU_NAME, CpuPool, HANDSHAKES_FOR_EACH, HANDSHAKES_NAME};
pub use registry::{PoolSet, Pools};
use schedule::Caps;
use threads::{Manner, PoolInner, PoolJob, PoolWork};

/// The pool that exists without being declared.
pub const DEFAULT_NAME: &str = "default";
/// Threads of a pool without `threads=` (nginx's `thread_pool` default).
pub const DEFAULT_THREADS: usize = 32;
/// Queue length of a pool without `max_queue=` (nginx's `thread_pool` default).
pub const DEFAULT_MAX_QUEUE: usize = 65_536;
/// The most threads one pool may have.
pub const MAX_THREADS: usize = 1024;
/// Time for which a thread beyond the necessary ones waits for work before it ends.
pub const IDLE_TIME: Duration = Duration::from_secs(60);

const _: () = assert!(DEFAULT_THREADS <= MAX_THREADS, "the default is allowed");

/// The parameters of a pool, as the directive `thread_pool name threads=N max_queue=N` gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// The pool's name.
    pub name: String,
    /// The most threads that the pool may have, 1 to [`MAX_THREADS`].
    pub threads: usize,
    /// Number of tasks that may wait for a thread; 0: none, and a task that no thread can take at once is refused.
    pub max_queue: usize,
}

impl PoolSpec {
    /// A pool of the default size.
    pub fn named(name: &str) -> PoolSpec {
        PoolSpec { name: name.to_owned(), threads: DEFAULT_THREADS, max_queue: DEFAULT_MAX_QUEUE }
    }
}

/// The owner of a task. Waiting tasks are served in turn by mount, client and file, and none of them may keep more than
/// three quarters of the threads busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The mount, as its device number: its tasks may all hang together.
    pub mount: u64,
    /// The client: one number for all connections of a client's address.
    pub client: u64,
    /// The file: an inode number, or a hash.
    pub file: u64,
}

impl Tag {
    /// The tag of work that belongs to no file.
    pub fn client(client: u64) -> Tag {
        Tag { client, ..Tag::default() }
    }
}

/// Reason why a task did not end properly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full. The text is nginx's, for the log; the request gets 503.
    #[error("thread pool \"{name}\" queue overflow: {waiting} tasks waiting")]
    Overflow {
        /// Name of the pool.
        name: Arc<str>,
        /// Length of its queue at that moment.
        waiting: usize,
    },
    /// The client went away while the task was waiting.
    #[error("client went away while its task was waiting for a thread")]
    ClientGone,
    /// The pool is ending and takes no more tasks.
    #[error("thread pool is shut down")]
    ShutDown,
    /// The task panicked.
    #[error("task in a thread pool panicked")]
    Panicked,
}

/// Figures of a pool, read one after the other while it works.
#[derive(Debug, Clone)]
pub struct PoolStatus {
    /// The pool's name.
    pub name: Arc<str>,
    /// The most threads that the pool may have.
    pub limit: usize,
    /// The most tasks that may wait.
    pub max_queue: usize,
    /// The number of threads.
    pub threads: usize,
    /// The number of running tasks.
    pub active: usize,
    /// The number of waiting tasks.
    pub waiting: usize,
    /// Tasks refused because the queue was full.
    pub refused: u64,
    /// Tasks that ran to their end.
    pub served: u64,
    /// Tasks withdrawn before they ran.
    pub cancelled: u64,
    /// Tasks that panicked.
    pub panicked: u64,
    /// The time that tasks waited for a thread.
    pub wait: HistogramSnapshot,
    /// The time that tasks ran.
    pub service: HistogramSnapshot,
}

/// A pool of threads. Dropping the last handle lets the tasks it has accepted run, then ends the threads.
pub struct ThreadPool {
    inner: Arc<PoolInner>,
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl ThreadPool {
    /// Makes a pool and its first thread.
    ///
    /// # Errors
    /// `InvalidInput` when the number of threads is 0 or over [`MAX_THREADS`]; else the reason why no thread can be made.
    pub fn start(spec: &PoolSpec) -> io::Result<Arc<ThreadPool>> {
        ThreadPool::start_with(spec, Manner { caps: Caps::of, nice: 0 })
    }

    /// Makes a pool in which one client, file or mount may use all threads, for tasks that do not wait.
    fn start_uncapped(spec: &PoolSpec, nice: i32) -> io::Result<Arc<ThreadPool>> {
        ThreadPool::start_with(spec, Manner { caps: Caps::none, nice })
    }

    fn start_with(spec: &PoolSpec, manner: Manner) -> io::Result<Arc<ThreadPool>> {
        if spec.threads == 0 || spec.threads > MAX_THREADS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "number of threads out of range"));
        }
        Ok(Arc::new(ThreadPool {
            inner: PoolInner::start(&spec.name, spec.threads, spec.max_queue, IDLE_TIME, manner)?,
        }))
    }

    /// The pool's name.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.name
    }

    /// Runs `f` on a thread of the pool. The task is handed over when the future is first polled.
    ///
    /// Dropping the future withdraws a waiting task and frees its place; a running task goes on, and its result is
    /// dropped.
    ///
    /// # Errors
    /// See [`PoolError`]; never `ClientGone`.
    pub async fn run<T, F>(&self, tag: Tag, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_unless(tag, None::<std::future::Pending<()>>, f).await
    }

    /// Runs `f` like [`run`](Self::run), but withdraws the task when `gone` resolves while the task still waits.
    ///
    /// # Errors
    /// See [`PoolError`].
    pub async fn run_unless<T, F, G>(&self, tag: Tag, gone: Option<G>, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
        G: Future<Output = ()>,
    {
        self.admit()?;
        self.run_admitted(tag, gone, f).await
    }

    /// The rest of [`run_unless`](Self::run_unless), for a task that is already counted.
    async fn run_admitted<T, F, G>(&self, tag: Tag, gone: Option<G>, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
        G: Future<Output = ()>,
    {
        let (reply, mut answer) = oneshot::channel();
        let task = Task { work: Some(f), outcome: None, reply };
        let job = self.inner.submit(tag, Box::new(task)).map_err(|_| PoolError::ShutDown)?;
        let ticket = Ticket { inner: &self.inner, job };
        let outcome = match gone {
            None => answer.await,
            Some(gone) => {
                tokio::select! {
                    biased;
                    outcome = &mut answer => outcome,
                    () = gone => {
                        if self.inner.cancel(&ticket.job) {
                            return Err(PoolError::ClientGone);
                        }
                        answer.await
                    }
                }
            }
        };
        match outcome {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(PoolError::Panicked),
            Err(_) => Err(PoolError::ShutDown),
        }
    }

    /// Queues a task whose result is not waited for.
    ///
    /// # Errors
    /// `Overflow` or `ShutDown`, with `f` given back.
    pub fn spawn<F: FnOnce() + Send + 'static>(&self, tag: Tag, f: F) -> Result<(), (PoolError, F)> {
        if self.inner.is_closed() {
            return Err((PoolError::ShutDown, f));
        }
        match self.admit() {
            Err(error) => Err((error, f)),
            // The pool was closed between the two looks: the task is dropped, as at any end of the pool.
            Ok(()) => {
                let _ = self.inner.submit(tag, Box::new(DetachedTask(Some(f))));
                Ok(())
            }
        }
    }

    /// Whether the next task would be refused, or nearly so.
    fn is_full(&self) -> bool {
        let PoolInner { limit, max_queue, accepted, .. } = &*self.inner;
        accepted.load(Relaxed) >= limit.load(Relaxed) + max_queue.load(Relaxed)
    }

    fn admit(&self) -> Result<(), PoolError> {
        self.inner.admit().map_err(|waiting| PoolError::Overflow { name: self.inner.name.clone(), waiting })
    }

    /// Takes over a new number of threads and length of the queue; waiting and running tasks are not touched.
    pub fn resize(&self, threads: usize, max_queue: usize) {
        self.inner.resize(threads.clamp(1, MAX_THREADS), max_queue);
    }

    /// Takes no more tasks; those accepted still run, then the threads end.
    pub fn shut_down(&self) {
        self.inner.close();
    }

    /// Waits until the threads of a pool that was shut down have ended.
    pub async fn drained(&self) {
        loop {
            let mut notified = std::pin::pin!(self.inner.drained.notified());
            notified.as_mut().enable();
            if self.inner.live() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// The figures of the pool. Takes no lock.
    pub fn status(&self) -> PoolStatus {
        let PoolInner { name, limit, max_queue, accepted, figures, .. } = &*self.inner;
        let active = figures.active.load(Relaxed);
        PoolStatus {
            name: name.clone(),
            limit: limit.load(Relaxed),
            max_queue: max_queue.load(Relaxed),
            threads: figures.threads.load(Relaxed),
            active,
            waiting: accepted.load(Relaxed).saturating_sub(active),
            refused: figures.refused.get(),
            served: figures.served.get(),
            cancelled: figures.cancelled.get(),
            panicked: figures.panicked.get(),
            wait: figures.wait.snapshot(),
            service: figures.service.snapshot(),
        }
    }
}

/// Withdraws the task when the future that waits for it is dropped.
struct Ticket<'a> {
    inner: &'a PoolInner,
    job: Arc<PoolJob>,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.inner.cancel(&self.job);
    }
}

/// A task whose result is waited for; the outcome is `None` if it panicked.
struct Task<F, T> {
    work: Option<F>,
    outcome: Option<T>,
    reply: oneshot::Sender<Option<T>>,
}

impl<T: Send, F: FnOnce() -> T + Send> PoolWork for Task<F, T> {
    fn execute(&mut self) -> bool {
        // Values that the task left half-done belong to the task alone; its owner gets an error instead of them.
        self.outcome = self.work.take().and_then(|work| catch_unwind(AssertUnwindSafe(work)).ok());
        self.outcome.is_some()
    }

    fn deliver(self: Box<Self>) {
        // If the receiver is gone, the result is dropped here, on the pool's thread.
        let _ = self.reply.send(self.outcome);
    }
}

struct DetachedTask<F>(Option<F>);

impl<F: FnOnce() + Send> PoolWork for DetachedTask<F> {
    fn execute(&mut self) -> bool {
        self.0.take().is_some_and(|work| catch_unwind(AssertUnwindSafe(work)).is_ok())
    }

    fn deliver(self: Box<Self>) {}
}
