//! Counters of each server, which `status` shows.
//!
//! Counters that change with every request are kept for each loop separately ([`PerLoop`]). Counters that seldom change are
//! atomics that any loop adds to.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use freerun_runtime::per_loop::{self, PerLoop};
use freerun_runtime::stats::{Counter, Histogram, HistogramSnapshot};

use crate::clock::Millis;
use crate::failure::AttemptFailure;

/// The number of status classes: 1xx, 2xx, 3xx, 4xx, 5xx.
pub const CLASSES: usize = 5;

/// Number of bits of [`ServerFigures::last_failure`] that are the kind; the others are the time.
const KIND_BITS: u32 = 8;

/// The results of health checks.
#[derive(Debug, Default)]
pub struct Checks {
    /// Number of checks that ended.
    pub done: AtomicU64,
    /// Number of checks that failed.
    pub failed: AtomicU64,
    /// Number of times that a check made the server unhealthy.
    pub unhealthy: AtomicU64,
    /// Result of the last check: [`PASSED`] or [`FAILED`]; 0: there was none.
    pub(crate) last: AtomicU8,
}

/// The last check has passed.
pub(crate) const PASSED: u8 = 1;
/// The last check has failed.
pub(crate) const FAILED: u8 = 2;

impl Checks {
    /// Whether the last check has passed; `None`: there was none.
    pub fn last_passed(&self) -> Option<bool> {
        Some(self.last.load(Relaxed)).filter(|last| *last != 0).map(|last| last == PASSED)
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub struct ServerFigures {
    /// The counters of each loop.
    each: PerLoop<RequestCounters>,
    /// The number of failures of each kind, by [`AttemptFailure`].
    pub failures: [AtomicU64; AttemptFailure::ALL.len()],
    /// The last failure that counts against the server: its number plus one, and above [`KIND_BITS`] the time. 0: none.
    last_failure: AtomicU64,
    /// The number of new connections.
    pub connects: AtomicU64,
    /// Number of times that the server became unavailable.
    pub unavailable: AtomicU64,
    /// Number of times that the outlier detection ejected the server.
    pub ejected: AtomicU64,
    /// The results of health checks.
    pub checks: Checks,
}

/// The counters that change with every request.
#[derive(Debug, Default)]
struct RequestCounters {
    requests: Counter,
    responses: [Counter; CLASSES],
    reused: Counter,
    sent: Counter,
    received: Counter,
    connect_times: Histogram,
    header_times: Histogram,
    response_times: Histogram,
}

/// The counters that this thread adds to.
#[derive(Clone, Copy)]
pub(crate) struct ThreadCounters<'f>(per_loop::OwnCounters<'f, RequestCounters>);

impl ThreadCounters<'_> {
    /// Counts that the server was chosen.
    pub(crate) fn request(self) {
        self.0.add(&self.0.part().requests, 1);
    }

    /// Counts a new connection that took the given time to make.
    pub(crate) fn connected(self, took: Duration) {
        self.0.record(&self.0.part().connect_times, took);
    }

    /// Counts that an existing connection is used again.
    pub(crate) fn reused(self) {
        self.0.add(&self.0.part().reused, 1);
    }

    /// Counts a response head that has come the given time after the attempt began.
    pub(crate) fn header(self, status: u16, took: Duration) {
        let class = (usize::from(status) / 100).wrapping_sub(1);
        if let Some(counter) = self.0.part().responses.get(class) {
            self.0.add(counter, 1);
        }
        self.first_byte(took);
    }

    /// Counts the first byte of a session, which has come the given time after the attempt began, among the heads.
    pub(crate) fn first_byte(self, took: Duration) {
        self.0.record(&self.0.part().header_times, took);
    }

    /// Counts a response that has ended the given time after the attempt began.
    pub(crate) fn response(self, took: Duration) {
        self.0.record(&self.0.part().response_times, took);
    }

    /// Counts the bytes sent and received.
    pub(crate) fn bytes(self, sent: u64, received: u64) {
        self.0.add(&self.0.part().sent, sent);
        self.0.add(&self.0.part().received, received);
    }
}

impl ServerFigures {
    /// Counts a failure.
    pub(crate) fn failed(&self, failure: AttemptFailure, now: Millis) {
        self.failures[failure as usize].fetch_add(1, Relaxed);
        if failure != AttemptFailure::Stale {
            self.last_failure.store(now << KIND_BITS | (failure as u64 + 1), Relaxed);
        }
    }

    /// The last failure that counts against the server, and when it happened.
    pub fn last_failure(&self) -> Option<(AttemptFailure, Millis)> {
        let last = self.last_failure.load(Relaxed);
        let kind = (last & ((1 << KIND_BITS) - 1)).checked_sub(1)?;
        Some((*AttemptFailure::ALL.get(kind as usize)?, last >> KIND_BITS))
    }

    /// The counters of this thread.
    pub(crate) fn mine(&self) -> ThreadCounters<'_> {
        ThreadCounters(self.each.mine())
    }

    /// Number of times that the server was chosen.
    pub fn requests(&self) -> u64 {
        self.each.sum(|part| &part.requests)
    }

    /// The number of responses by class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub fn responses(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.each.sum(|part| &part.responses[class]))
    }

    /// The number of requests sent over a connection that existed already.
    pub fn reused(&self) -> u64 {
        self.each.sum(|part| &part.reused)
    }

    /// The number of bytes sent to the server.
    pub fn sent(&self) -> u64 {
        self.each.sum(|part| &part.sent)
    }

    /// The number of bytes received from the server.
    pub fn received(&self) -> u64 {
        self.each.sum(|part| &part.received)
    }

    /// The times that connecting took, for new connections only.
    pub fn connect_times(&self) -> HistogramSnapshot {
        self.each.times(|part| &part.connect_times)
    }

    /// The times from the beginning of an attempt to the response's head.
    pub fn header_times(&self) -> HistogramSnapshot {
        self.each.times(|part| &part.header_times)
    }

    /// The times from the beginning of an attempt to the end of the response.
    pub fn response_times(&self) -> HistogramSnapshot {
        self.each.times(|part| &part.response_times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_runtime::loops::LoopHandle;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn what_loops_and_other_threads_count_is_summed() {
        let figures = Arc::new(ServerFigures::default());
        let count = |figures: &ServerFigures| {
            let mine = figures.mine();
            mine.request();
            mine.reused();
            mine.header(204, Duration::from_micros(3));
            mine.header(999, Duration::ZERO);
            mine.response(Duration::from_micros(5));
            mine.bytes(7, 11);
        };
        let loops: Vec<LoopHandle> = (0..3).map(|index| LoopHandle::start(index, None).unwrap()).collect();
        let (done, all) = channel();
        for each in &loops {
            for _ in 0..10 {
                let (figures, done) = (figures.clone(), done.clone());
                each.tell(move || {
                    count(&figures);
                    done.send(()).unwrap();
                });
            }
        }
        (0..2).for_each(|_| count(&figures));
        drop(done);
        assert_eq!(all.iter().take(30).count(), 30);
        assert_eq!((figures.requests(), figures.reused()), (32, 32));
        assert_eq!(figures.responses(), [0, 32, 0, 0, 0]);
        assert_eq!((figures.sent(), figures.received()), (224, 352));
        let (header, response) = (figures.header_times(), figures.response_times());
        assert_eq!((header.count(), header.sum_us, header.max_us), (64, 96, 3));
        assert_eq!((response.count(), response.sum_us, response.max_us), (32, 160, 5));
        loops.into_iter().for_each(LoopHandle::stop);
    }
}
