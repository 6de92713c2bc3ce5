//! Histograms of durations, as both forms show them.

use freerun_runtime::stats::{BUCKETS, HistogramSnapshot};

use crate::content::described::described;

described! {
    /// A histogram of durations.
    pub struct Histogram {
        pub bounds_us: &'static [u64],
        pub counts: [u64; BUCKETS],
        pub count: u64,
        pub sum_us: u64,
        pub max_us: u64,
    }
}

/// The upper bounds of all buckets but the last.
pub static BOUNDS_US: [u64; BUCKETS - 1] = {
    let mut bounds = [0; BUCKETS - 1];
    let mut index = 0;
    while index < bounds.len() {
        bounds[index] = 1 << index;
        index += 1;
    }
    bounds
};

impl From<HistogramSnapshot> for Histogram {
    fn from(snapshot: HistogramSnapshot) -> Histogram {
        Histogram {
            bounds_us: &BOUNDS_US,
            count: snapshot.count(),
            counts: snapshot.buckets,
            sum_us: snapshot.sum_us,
            max_us: snapshot.max_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_histogram() {
        for (index, bound) in BOUNDS_US.iter().enumerate() {
            assert_eq!(HistogramSnapshot::upper_bound_us(index), Some(*bound));
        }
        assert_eq!(HistogramSnapshot::upper_bound_us(BOUNDS_US.len()), None);
    }
}
