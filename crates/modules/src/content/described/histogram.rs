//! Histograms of durations, as both forms show them.

use std::time::UNIX_EPOCH;

use data_encoding::HEXLOWER;
use freerun_runtime::stats::{BUCKETS, HistogramSnapshot};
use freerun_serve::loops::figures::zones::Exemplar;

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

    /// A traced request that is an example of its duration.
    pub struct ZoneExemplar {
        /// Trace of the request.
        pub trace_id: String,
        /// Span of the request.
        pub span_id: String,
        /// Duration of the request in microseconds.
        pub took_us: u64,
        /// End of the request, in seconds since 1970.
        pub time: f64,
    }
}

impl ZoneExemplar {
    /// Whether the duration belongs to the bucket of this index, or to one before.
    pub fn is_below(&self, index: usize) -> bool {
        BOUNDS_US.get(index).is_none_or(|bound| self.took_us < *bound)
    }
}

impl From<Exemplar> for ZoneExemplar {
    fn from(exemplar: Exemplar) -> ZoneExemplar {
        let since = exemplar.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        ZoneExemplar {
            trace_id: HEXLOWER.encode(&exemplar.trace_id),
            span_id: HEXLOWER.encode(&exemplar.span_id),
            took_us: u64::try_from(exemplar.took.as_micros()).unwrap_or(u64::MAX),
            time: since.as_millis() as f64 / 1000.0,
        }
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
