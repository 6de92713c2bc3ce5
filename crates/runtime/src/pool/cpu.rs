//! The pools for steps that cost time on a processor rather than waiting: one for compressing and hashing passwords, one
//! for handshakes of TLS.
//!
//! They are built in: every generation has them, with as many threads as there are processors. They are not among the
//! pools that `thread_pool` names, because work that waits for a disk and work that needs a processor must not wait for
//! each other. A task for them should be a *piece* of at most a few milliseconds, so that the clients waiting for it are
//! served in turn. A large body is many pieces, each queued when the piece before is done.
//!
//! ```
//! # let pools = freerun_runtime::pool::Pools::new().generation(&[]).unwrap();
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! // In a handler: request.generation.pools.cpu(), request.client_key()
//! let sum = pools.cpu().run(7, || (1..1000u64).sum::<u64>()).await;
//! assert_eq!(sum.ok(), Some(499_500));
//! # });
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{MAX_THREADS, PoolError, PoolSpec, Tag, ThreadPool};

/// The pool's name in figures and logs. `thread_pool` refuses it.
pub const CPU_NAME: &str = "(cpu)";
/// Number of pieces that may wait for a thread of this pool.
pub const CPU_MAX_QUEUE: usize = 1024;
/// The name of the pool for handshakes in figures and logs. `thread_pool` refuses it.
pub const HANDSHAKES_NAME: &str = "(tls)";
/// Number of handshakes that may wait for each thread of their pool: at half a millisecond for each, that is a tenth of
/// a second.
pub const HANDSHAKES_FOR_EACH: usize = 256;
/// Distance of the handshake threads' priority below the priority of the process and its loops, see setpriority(2). A
/// loop that has something to do comes first.
const HANDSHAKES_NICE: i32 = 5;
/// Time that a task waits before it looks again whether a full queue has room: a full queue is seconds of work.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// A built-in pool for steps that need a processor. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CpuPool(Arc<ThreadPool>);

impl CpuPool {
    /// The pool for compressing and the like.
    pub(super) fn start() -> io::Result<CpuPool> {
        CpuPool::with_queue(CPU_NAME, |_| CPU_MAX_QUEUE, 0)
    }

    /// The pool for handshakes.
    pub(super) fn for_handshakes() -> io::Result<CpuPool> {
        CpuPool::with_queue(HANDSHAKES_NAME, |threads| threads * HANDSHAKES_FOR_EACH, HANDSHAKES_NICE)
    }

    /// A pool with as many threads as the process has processors.
    fn with_queue(name: &str, max_queue: impl FnOnce(usize) -> usize, nice: i32) -> io::Result<CpuPool> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let spec = PoolSpec { name: name.to_owned(), threads, max_queue: max_queue(threads) };
        // There are no caps: pieces end by themselves, so no client can take the threads for good, and with two threads
        // a cap would leave one of them idle.
        ThreadPool::start_uncapped(&spec, nice).map(CpuPool)
    }

    /// Runs `f` on a thread of the pool; waiting pieces of different clients are served in turn. `client` is
    /// [`Tag::client`]'s number.
    ///
    /// Dropping the future withdraws a piece that still waits; a piece that runs goes on, and its result is dropped.
    ///
    /// # Errors
    /// `Overflow` if the queue is full: the answer is 503 for work that must not be done on a loop (a slow hash). See
    /// [`PoolError`] for the others.
    pub async fn run<T, F>(&self, client: u64, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.0.run(Tag::client(client), f).await
    }

    /// Runs `f` like [`run`](Self::run), but waits for room if the queue is full, without holding up its loop. It is
    /// for pieces of work that is half-way through and cannot be refused any more. At most as many callers wait as
    /// there are connections, and each has one piece.
    ///
    /// # Errors
    /// `ShutDown`, `Panicked`.
    pub async fn run_or_wait<T, F>(&self, client: u64, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        while self.0.admit().is_err() {
            crate::timer::sleep(FULL_PAUSE).await;
        }
        self.0.run_admitted(Tag::client(client), None::<std::future::Pending<()>>, f).await
    }

    /// Runs `f` on a thread of the pool; waiting pieces of different lanes are served in turn, pieces of one lane in
    /// the order in which they came. If the queue is full, this waits for room. A piece that waits for room or for a
    /// thread is withdrawn when `gone` resolves.
    ///
    /// # Errors
    /// `ClientGone`, `ShutDown`, `Panicked`.
    pub async fn run_in_lane<T, F, G>(&self, lane: u64, gone: G, f: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
        G: Future<Output = ()>,
    {
        let mut gone = std::pin::pin!(gone);
        while self.0.admit().is_err() {
            tokio::select! {
                biased;
                () = &mut gone => return Err(PoolError::ClientGone),
                () = crate::timer::sleep(FULL_PAUSE) => {}
            }
        }
        self.0.run_admitted(Tag { mount: lane, ..Tag::default() }, Some(gone), f).await
    }

    /// Whether the queue is so long that no more pieces should be begun.
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }

    /// The thread pool behind it, for its figures.
    pub fn threads(&self) -> &Arc<ThreadPool> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pools;
    use std::sync::mpsc;
    use std::task::Poll;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn every_generation_has_the_same_one_beside_those_that_have_names() {
        let pools = Pools::new();
        let first = pools.generation(&[]).unwrap();
        let second = pools.generation(&[PoolSpec::named("disk")]).unwrap();
        assert!(Arc::ptr_eq(first.cpu().threads(), second.cpu().threads()));
        assert!(second.get(CPU_NAME).is_none(), "no `aio threads=` leads here");
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(first.cpu().threads().status().limit, processors);
        let names = |set: &crate::pool::PoolSet| set.iter().map(|pool| pool.name().to_string()).collect::<Vec<_>>();
        assert!(names(&first).contains(&CPU_NAME.to_owned()), "the figures have it");
    }

    #[test]
    fn threads_for_handshakes_have_a_lower_priority_than_the_process() {
        let process = rustix::process::getpid();
        let own = |of| rustix::process::getpriority_process(of).unwrap();
        // Of this process, only the thread that waits for the tests has this priority.
        rustix::process::setpriority_process(Some(process), (own(Some(process)) + 1).min(19)).unwrap();
        let spec = PoolSpec { name: HANDSHAKES_NAME.to_owned(), threads: 2, max_queue: 10 };
        let pool = CpuPool(ThreadPool::start_uncapped(&spec, HANDSHAKES_NICE).unwrap());
        let (tell, told) = mpsc::channel();
        // Two pieces that wait for each other need two threads, the second of which is started by the first one.
        let meeting = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (tell, meeting) = (tell.clone(), meeting.clone());
            let piece = move || {
                meeting.wait();
                tell.send(own(None)).unwrap();
            };
            assert!(pool.threads().spawn(Tag::default(), piece).is_ok());
        }
        let expected = (own(Some(process)) + HANDSHAKES_NICE).min(19);
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], [expected; 2]);
    }

    #[test]
    fn who_has_gone_does_not_wait_for_a_full_queue() {
        let spec = PoolSpec { name: HANDSHAKES_NAME.to_owned(), threads: 1, max_queue: 0 };
        let pool = CpuPool(ThreadPool::start_uncapped(&spec, 0).unwrap());
        let (open, gate) = mpsc::channel::<()>();
        let task = move || {
            let _ = gate.recv();
        };
        assert!(pool.threads().spawn(Tag::default(), task).is_ok());
        let outcome = block_on(async {
            let (leave, left) = tokio::sync::oneshot::channel::<()>();
            let gone = async { left.await.unwrap() };
            let mut waiting = std::pin::pin!(pool.run_in_lane(1, gone, || 1));
            assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
            leave.send(()).unwrap();
            std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await
        });
        drop(open);
        assert_eq!(outcome, Poll::Ready(Err(PoolError::ClientGone)));
    }

    #[test]
    fn one_client_may_use_all_threads_and_a_full_queue_is_told_or_waited_for() {
        let spec = PoolSpec { name: CPU_NAME.to_owned(), threads: 2, max_queue: 0 };
        let cpu = CpuPool(ThreadPool::start_uncapped(&spec, 0).unwrap());
        let (running, started) = mpsc::channel();
        let gates: Vec<_> = (0..2)
            .map(|_| {
                let (open, gate) = mpsc::channel::<()>();
                let running = running.clone();
                let task = move || {
                    running.send(()).unwrap();
                    let _ = gate.recv();
                };
                assert!(cpu.threads().spawn(Tag::client(1), task).is_ok());
                open
            })
            .collect();
        // Both pieces run at once, though they are from one client.
        for _ in 0..2 {
            started.recv().unwrap();
        }
        assert!(matches!(block_on(cpu.run(1, || 1)), Err(PoolError::Overflow { .. })));
        let waited = block_on(async {
            let mut late = std::pin::pin!(cpu.run_or_wait(1, || 1));
            assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(late.as_mut().poll(cx).is_pending())).await);
            drop(gates);
            late.await
        });
        assert_eq!(waited, Ok(1));
    }
}
