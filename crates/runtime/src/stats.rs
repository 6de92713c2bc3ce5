//! Counters and histograms that requests write without a lock and the status handler reads without one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets of a [`Histogram`]: bucket 0 holds durations under 1 µs, bucket `i` those under `2^i` µs, the
/// last one everything longer (2^26 µs is 67 s).
pub const BUCKETS: usize = 28;

/// A counter that many threads may add to. Reading it is not synchronised with anything else.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Adds one to a counter that no other thread writes, which needs no locked instruction.
    pub fn add_alone(&self) {
        self.0.store(self.get().wrapping_add(1), Relaxed);
    }

    /// Subtracts one from a counter that no other thread writes.
    pub fn sub_alone(&self) {
        debug_assert!(self.get() > 0, "something has ended that was not counted");
        self.0.store(self.get().wrapping_sub(1), Relaxed);
    }

    /// Adds `n`.
    pub fn add_n(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds `n` to a counter that no other thread writes, which needs no locked instruction.
    pub fn add_n_alone(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Relaxed);
    }

    /// Replaces a part of a gauge, which was added before.
    pub fn change(&self, before: u64, now: u64) {
        self.0.fetch_add(now.wrapping_sub(before), Relaxed);
    }

    /// Subtracts one (for gauges such as open connections).
    pub fn sub(&self) {
        let before = self.0.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "something has ended that was not counted");
    }

    /// The present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Durations in power-of-two buckets of microseconds.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
    max_us: AtomicU64,
}

/// A duration in microseconds, at most the greatest number.
#[inline]
fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The bucket of a number of microseconds.
#[inline]
fn bucket_of(us: u64) -> usize {
    ((u64::BITS - us.leading_zeros()) as usize).min(BUCKETS - 1)
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_us: AtomicU64::new(0),
            max_us: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// The bucket that counts this duration.
    pub fn bucket_of(duration: Duration) -> usize {
        bucket_of(microseconds(duration))
    }

    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let us = microseconds(duration);
        self.buckets[bucket_of(us)].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
        if us > self.max_us.load(Relaxed) {
            self.max_us.fetch_max(us, Relaxed);
        }
    }

    /// Counts one duration in a histogram that no other thread adds to, which needs no locked instruction.
    pub fn record_alone(&self, duration: Duration) {
        let us = microseconds(duration);
        let bucket = &self.buckets[bucket_of(us)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.sum_us.store(self.sum_us.load(Relaxed).wrapping_add(us), Relaxed);
        if us > self.max_us.load(Relaxed) {
            self.max_us.store(us, Relaxed);
        }
    }

    /// A copy of the figures. Buckets are read one after the other, so a copy made under load may be off by the
    /// durations recorded meanwhile.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = [0; BUCKETS];
        for (copy, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *copy = bucket.load(Relaxed);
        }
        HistogramSnapshot { buckets, sum_us: self.sum_us.load(Relaxed), max_us: self.max_us.load(Relaxed) }
    }
}

/// The content of a [`Histogram`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Count of each bucket, see [`BUCKETS`].
    pub buckets: [u64; BUCKETS],
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
    /// The longest duration, in microseconds.
    pub max_us: u64,
}

impl Histogram {
    /// The sum of all durations, in microseconds: it begins again at 0 beyond the largest number.
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Relaxed)
    }
}

impl HistogramSnapshot {
    /// Adds the content of another histogram.
    pub fn add(&mut self, other: &HistogramSnapshot) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.wrapping_add(more);
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The exclusive upper bound of bucket `index`, in microseconds; `None` for the last one, which has none.
    pub fn upper_bound_us(index: usize) -> Option<u64> {
        (index < BUCKETS - 1).then(|| 1 << index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_goes_both_ways() {
        let counter = Counter::default();
        (0..3).for_each(|_| counter.add());
        (0..3).for_each(|_| counter.add_alone());
        counter.sub();
        counter.sub_alone();
        counter.add_n(5);
        counter.add_n_alone(6);
        assert_eq!(counter.get(), 15);
    }

    #[test]
    fn durations_land_in_the_bucket_whose_bound_is_above_them() {
        let (histogram, alone) = (Histogram::default(), Histogram::default());
        for us in [0, 1, 2, 3, 4, 1000, u64::MAX / 2] {
            histogram.record(Duration::from_micros(us));
            alone.record_alone(Duration::from_micros(us));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(alone.snapshot(), snapshot);
        assert_eq!(snapshot.buckets[..4], [1, 1, 2, 1]);
        assert_eq!(snapshot.buckets[10], 1);
        assert_eq!(snapshot.buckets[BUCKETS - 1], 1);
        assert_eq!(snapshot.count(), 7);
        assert_eq!(snapshot.max_us, u64::MAX / 2);
    }
}
