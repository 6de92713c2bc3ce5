//! What is counted of each server; `status` shows it. All of it are atomics that any loop adds to.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::lease::Failure;

/// Upper bounds of the histogram's buckets, in microseconds; the last bucket has all that took longer.
pub const BOUNDS: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// How long something took: how often, in all, and in which range.
#[derive(Debug, Default)]
pub struct Times {
    total_micros: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

impl Times {
    /// Counts one.
    pub fn add(&self, took: Duration) {
        let micros = took.as_micros().min(u128::from(u64::MAX)) as u64;
        self.total_micros.fetch_add(micros, Relaxed);
        self.buckets[BOUNDS.partition_point(|&bound| bound < micros)].fetch_add(1, Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Microseconds of all of them.
    pub fn total_micros(&self) -> u64 {
        self.total_micros.load(Relaxed)
    }

    /// How many took at most [`BOUNDS`]`[i]` but longer than the bound before it; the last: longer than all bounds.
    pub fn buckets(&self) -> [u64; BOUNDS.len() + 1] {
        std::array::from_fn(|index| self.buckets[index].load(Relaxed))
    }
}

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
    /// Times that the server was chosen.
    pub requests: AtomicU64,
    /// Responses by class: 1xx, 2xx, 3xx, 4xx, 5xx.
    pub responses: [AtomicU64; 5],
    /// Failures, by [`Failure`].
    pub failures: [AtomicU64; Failure::ALL.len()],
    /// New connections made.
    pub connects: AtomicU64,
    /// Requests that went over a connection that was there already.
    pub reused: AtomicU64,
    /// Times that it became unavailable.
    pub unavailable: AtomicU64,
    /// Times that the outlier detection ejected it.
    pub ejected: AtomicU64,
    /// What checks have found.
    pub checks: Checks,
    /// Bytes sent to it.
    pub sent: AtomicU64,
    /// Bytes received from it.
    pub received: AtomicU64,
    /// Connecting, new connections only.
    pub connect_times: Times,
    /// From the beginning of the attempt to the response's head.
    pub header_times: Times,
    /// From the beginning of the attempt to the end of the response.
    pub response_times: Times,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_buckets() {
        let times = Times::default();
        for micros in [0, 100, 101, 31_000_000] {
            times.add(Duration::from_micros(micros));
        }
        let buckets = times.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[15]), (2, 1, 1));
        assert_eq!((times.count(), times.total_micros()), (4, 31_000_201));
    }
}
