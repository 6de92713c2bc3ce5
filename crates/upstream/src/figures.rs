//! What is counted of each server; `status` shows it.
//!
//! What every request counts is kept for each loop by itself: a loop adds to its own numbers without locking them, and
//! no other processor waits for the memory that they stand in. What is seldom counted is an atomic that any loop adds to.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use freerun_runtime::loops;
use freerun_runtime::stats::{Histogram, HistogramSnapshot};

use crate::failure::Failure;
use crate::pool::MAX_LISTS;

/// Classes of statuses: 1xx, 2xx, 3xx, 4xx, 5xx.
pub const CLASSES: usize = 5;

/// What checks have found.
#[derive(Debug, Default)]
pub struct Checks {
    /// How many ended.
    pub done: AtomicU64,
    /// How many of them failed.
    pub failed: AtomicU64,
    /// How often one made the server unhealthy.
    pub unhealthy: AtomicU64,
}

/// What is counted of a server.
#[derive(Debug, Default)]
pub struct Figures {
    /// What each loop has counted, by its number.
    own: OnceLock<Box<[OnceLock<Box<Shard>>]>>,
    /// What was counted outside of loops.
    others: OnceLock<Box<Shard>>,
    /// Failures, by [`Failure`].
    pub failures: [AtomicU64; Failure::ALL.len()],
    /// New connections made.
    pub connects: AtomicU64,
    /// Times that it became unavailable.
    pub unavailable: AtomicU64,
    /// Times that the outlier detection ejected it.
    pub ejected: AtomicU64,
    /// What checks have found.
    pub checks: Checks,
    /// Connecting, new connections only.
    pub connect_times: Histogram,
}

/// What every request counts.
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

/// The numbers that this thread adds to.
#[derive(Clone, Copy)]
pub(crate) struct Mine<'f> {
    shard: &'f Shard,
    /// No other thread adds to them.
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

    /// The server was chosen.
    pub(crate) fn request(self) {
        self.add(&self.shard.requests, 1);
    }

    /// A connection that was there is used again.
    pub(crate) fn reused(self) {
        self.add(&self.shard.reused, 1);
    }

    /// A head has come, that long after the attempt began.
    pub(crate) fn header(self, status: u16, took: Duration) {
        let class = (usize::from(status) / 100).wrapping_sub(1);
        if let Some(counter) = self.shard.responses.get(class) {
            self.add(counter, 1);
        }
        self.record(&self.shard.header_times, took);
    }

    /// A response has ended, that long after the attempt began.
    pub(crate) fn response(self, took: Duration) {
        self.record(&self.shard.response_times, took);
    }

    /// So many bytes went both ways.
    pub(crate) fn bytes(self, sent: u64, received: u64) {
        self.add(&self.shard.sent, sent);
        self.add(&self.shard.received, received);
    }
}

impl Figures {
    /// Those of this thread.
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

    /// Times that the server was chosen.
    pub fn requests(&self) -> u64 {
        self.sum(|shard| &shard.requests)
    }

    /// Responses by class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub fn responses(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.sum(|shard| &shard.responses[class]))
    }

    /// Requests that went over a connection that was there already.
    pub fn reused(&self) -> u64 {
        self.sum(|shard| &shard.reused)
    }

    /// Bytes sent to it.
    pub fn sent(&self) -> u64 {
        self.sum(|shard| &shard.sent)
    }

    /// Bytes received from it.
    pub fn received(&self) -> u64 {
        self.sum(|shard| &shard.received)
    }

    /// From the beginning of the attempt to the response's head.
    pub fn header_times(&self) -> HistogramSnapshot {
        self.times(|shard| &shard.header_times)
    }

    /// From the beginning of the attempt to the end of the response.
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
