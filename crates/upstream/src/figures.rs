//! Counters of each server, which `status` shows.
//!
//! Counters that change with every request are kept for each loop separately: a loop adds to its own numbers without
//! locking them, and no other processor waits for the memory that holds them. Counters that seldom change are atomics
//! that any loop adds to.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use freerun_runtime::loops;
use freerun_runtime::stats::{Histogram, HistogramSnapshot};

use crate::clock::Millis;
use crate::failure::Failure;
use crate::pool::MAX_LISTS;

/// The number of status classes: 1xx, 2xx, 3xx, 4xx, 5xx.
pub const CLASSES: usize = 5;

/// How many bits of [`Figures::last_failure`] are the kind; the others are the time.
const KIND_BITS: u32 = 8;

/// The results of health checks.
#[derive(Debug, Default)]
pub struct Checks {
    /// How many checks ended.
    pub done: AtomicU64,
    /// How many checks failed.
    pub failed: AtomicU64,
    /// How often a check made the server unhealthy.
    pub unhealthy: AtomicU64,
}

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Figures {
    /// The counters of each loop, by the loop's number.
    own: OnceLock<Box<[OnceLock<Box<Shard>>]>>,
    /// The counters of threads that are not loops.
    others: OnceLock<Box<Shard>>,
    /// The number of failures of each kind, by [`Failure`].
    pub failures: [AtomicU64; Failure::ALL.len()],
    /// The last failure that counts against the server: its number plus one, and above [`KIND_BITS`] the time. 0: none.
    last_failure: AtomicU64,
    /// The number of new connections.
    pub connects: AtomicU64,
    /// How often the server became unavailable.
    pub unavailable: AtomicU64,
    /// How often the outlier detection ejected the server.
    pub ejected: AtomicU64,
    /// The results of health checks.
    pub checks: Checks,
    /// The times that connecting took, for new connections only.
    pub connect_times: Histogram,
}

/// The counters that change with every request.
#[derive(Debug, Default)]
struct Shard {
    requests: AtomicU64,
    responses: [AtomicU64; CLASSES],
    reused: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    header_times: Histogram,
    response_times: Histogram,
}

/// The counters that this thread adds to.
#[derive(Clone, Copy)]
pub(crate) struct Mine<'f> {
    shard: &'f Shard,
    /// Whether no other thread adds to these counters.
    alone: bool,
}

impl Mine<'_> {
    fn add(self, counter: &AtomicU64, n: u64) {
        if self.alone {
            counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
        } else {
            counter.fetch_add(n, Relaxed);
        }
    }

    fn record(self, times: &Histogram, took: Duration) {
        if self.alone { times.record_alone(took) } else { times.record(took) }
    }

    /// Counts that the server was chosen.
    pub(crate) fn request(self) {
        self.add(&self.shard.requests, 1);
    }

    /// Counts that an existing connection is used again.
    pub(crate) fn reused(self) {
        self.add(&self.shard.reused, 1);
    }

    /// Counts a response head that has come the given time after the attempt began.
    pub(crate) fn header(self, status: u16, took: Duration) {
        let class = (usize::from(status) / 100).wrapping_sub(1);
        if let Some(counter) = self.shard.responses.get(class) {
            self.add(counter, 1);
        }
        self.record(&self.shard.header_times, took);
    }

    /// Counts the first byte of a session, which has come the given time after the attempt began, among the heads.
    pub(crate) fn first_byte(self, took: Duration) {
        self.record(&self.shard.header_times, took);
    }

    /// Counts a response that has ended the given time after the attempt began.
    pub(crate) fn response(self, took: Duration) {
        self.record(&self.shard.response_times, took);
    }

    /// Counts the bytes sent and received.
    pub(crate) fn bytes(self, sent: u64, received: u64) {
        self.add(&self.shard.sent, sent);
        self.add(&self.shard.received, received);
    }
}

impl Figures {
    /// Counts a failure.
    pub(crate) fn failed(&self, failure: Failure, now: Millis) {
        self.failures[failure as usize].fetch_add(1, Relaxed);
        if failure != Failure::Stale {
            self.last_failure.store(now << KIND_BITS | (failure as u64 + 1), Relaxed);
        }
    }

    /// The last failure that counts against the server, and when it happened.
    pub fn last_failure(&self) -> Option<(Failure, Millis)> {
        let last = self.last_failure.load(Relaxed);
        let kind = (last & ((1 << KIND_BITS) - 1)).checked_sub(1)?;
        Some((*Failure::ALL.get(kind as usize)?, last >> KIND_BITS))
    }

    /// The counters of this thread.
    pub(crate) fn mine(&self) -> Mine<'_> {
        let own = self.own.get_or_init(|| (0..loops::count().min(MAX_LISTS)).map(|_| OnceLock::new()).collect());
        match loops::index().and_then(|index| own.get(index)) {
            Some(shard) => Mine { shard: shard.get_or_init(Box::default), alone: true },
            None => Mine { shard: self.others.get_or_init(Box::default), alone: false },
        }
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        let own = self.own.get().into_iter().flatten();
        own.chain([&self.others]).filter_map(OnceLock::get).map(|shard| &**shard)
    }

    fn sum(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards().map(|shard| of(shard).load(Relaxed)).fold(0, u64::wrapping_add)
    }

    fn times(&self, of: impl Fn(&Shard) -> &Histogram) -> HistogramSnapshot {
        let mut all = Histogram::default().snapshot();
        self.shards().for_each(|shard| all.add(&of(shard).snapshot()));
        all
    }

    /// How often the server was chosen.
    pub fn requests(&self) -> u64 {
        self.sum(|shard| &shard.requests)
    }

    /// The number of responses by class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub fn responses(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.sum(|shard| &shard.responses[class]))
    }

    /// The number of requests sent over a connection that existed already.
    pub fn reused(&self) -> u64 {
        self.sum(|shard| &shard.reused)
    }

    /// The number of bytes sent to the server.
    pub fn sent(&self) -> u64 {
        self.sum(|shard| &shard.sent)
    }

    /// The number of bytes received from the server.
    pub fn received(&self) -> u64 {
        self.sum(|shard| &shard.received)
    }

    /// The times from the beginning of an attempt to the response's head.
    pub fn header_times(&self) -> HistogramSnapshot {
        self.times(|shard| &shard.header_times)
    }

    /// The times from the beginning of an attempt to the end of the response.
    pub fn response_times(&self) -> HistogramSnapshot {
        self.times(|shard| &shard.response_times)
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
        let figures = Arc::new(Figures::default());
        let count = |figures: &Figures| {
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
