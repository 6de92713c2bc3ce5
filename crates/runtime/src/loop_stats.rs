//! The figures of one loop.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::Thread;
use std::time::Duration;

use crate::clock::epoch;
use crate::stats::{Counter, Histogram};

/// Figures of one loop. The loop writes them, any thread may read them; no lock is involved.
#[derive(Debug, Default)]
pub struct LoopStats {
    /// Connections accepted since the start.
    pub accepted: Counter,
    /// Connections that were closed at once, since there was no room for them (`worker_connections`). They are not counted as
    /// accepted.
    pub dropped: Counter,
    /// Connections open now.
    pub active: Counter,
    /// Of these, keep-alive connections without a request.
    pub idle: Counter,
    /// Of these, connections that have sent nothing yet.
    pub fresh: Counter,
    /// Of these, connections that have sent a part of their next request's head.
    pub reading: Counter,
    /// Requests begun since the start.
    pub requests: Counter,
    /// Connections that other loops have for this one. Some were accepted for other loops because this loop was late, takes no new ones
    /// or has no room. Others were taken over from this loop, which had accepted them before it was late, because
    /// nothing had come from them.
    pub rescued: Counter,
    /// Connections without a request that other loops took over from this one.
    pub moved: Counter,
    /// Datagrams, or runs of them, that another thread read from this loop's own socket for other loops, because this loop was
    /// late.
    pub rescued_datagrams: Counter,
    /// Wall-clock time of each poll of a task.
    pub polls: Histogram,
    /// Polls longer than [`STALL`](crate::loops::STALL).
    pub stalls: Counter,
    /// Number of these polls in which the loop's thread had no processor for most of the time.
    pub stalls_without_processor: Counter,
    /// The longest of these polls, without the time for which the thread had no processor; in microseconds.
    pub longest_stall_of_its_own_us: AtomicU64,
    /// Begin of the current poll, in nanoseconds since [`epoch`] plus one; 0 between polls.
    poll_started: AtomicU64,
    /// Whether `watcher` is to be woken when the loop runs again.
    is_awaited: AtomicBool,
    /// The thread that watches the loop.
    watcher: OnceLock<Thread>,
}

impl LoopStats {
    /// For how long the loop has been in its current poll; zero between polls.
    pub fn in_poll_for(&self) -> Duration {
        match self.poll_started.load(Relaxed) {
            0 => Duration::ZERO,
            started => epoch().elapsed().saturating_sub(Duration::from_nanos(started - 1)),
        }
    }

    /// Has this thread unparked when the loop has slept and runs again. One thread may do so, for all of the loop's life.
    pub fn await_run(&self) {
        self.watcher.get_or_init(std::thread::current);
        self.is_awaited.store(true, SeqCst);
    }

    /// Whether the loop has not run since [`LoopStats::await_run`].
    pub fn is_awaited(&self) -> bool {
        self.is_awaited.load(SeqCst)
    }

    /// Notes that the loop has slept, and runs again.
    #[inline]
    pub(crate) fn runs_again(&self) {
        if self.is_awaited.load(Relaxed) {
            self.wake_watcher();
        }
    }

    #[cold]
    fn wake_watcher(&self) {
        self.is_awaited.store(false, SeqCst);
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    /// Notes that a poll has taken too long, and for how long of it the thread had no processor.
    pub(crate) fn stalled(&self, took: Duration, waited: Duration) {
        let own = took.saturating_sub(waited);
        self.stalls.add();
        if waited > own {
            self.stalls_without_processor.add();
        }
        self.longest_stall_of_its_own_us.fetch_max(own.as_micros() as u64, Relaxed);
    }

    /// Notes that a poll begins, in nanoseconds after [`epoch`].
    pub(crate) fn begin_poll(&self, at: u64) {
        self.poll_started.store(at + 1, Relaxed);
    }

    /// Notes that no poll is going on.
    pub(crate) fn end_poll(&self) {
        self.poll_started.store(0, Relaxed);
    }
}
