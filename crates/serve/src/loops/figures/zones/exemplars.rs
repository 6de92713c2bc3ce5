//! Exemplars of a zone: for each bucket of its durations, the trace of the newest request in it.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use freerun_proto::trace_context::{SpanId, TraceId};
use freerun_runtime::stats::{BUCKETS, Histogram};

/// A traced request that stands for those that took as long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exemplar {
    /// The trace of the request.
    pub trace_id: TraceId,
    /// The span of the request.
    pub span_id: SpanId,
    /// The duration of the request.
    pub took: Duration,
    /// The time at which the request ended.
    pub at: SystemTime,
}

/// The newest exemplar of each bucket of a histogram. Nobody waits for the locks: an exemplar whose place is in use is
/// dropped, and a reader that finds a place in use passes over it.
#[derive(Debug)]
pub(super) struct Exemplars([Mutex<Option<Exemplar>>; BUCKETS]);

impl Default for Exemplars {
    fn default() -> Exemplars {
        Exemplars([const { Mutex::new(None) }; BUCKETS])
    }
}

impl Exemplars {
    /// Replaces the exemplar of the bucket.
    pub(super) fn put(&self, exemplar: Exemplar) {
        let bucket = self.0.get(Histogram::bucket_of(exemplar.took));
        if let Some(mut place) = bucket.and_then(|place| place.try_lock().ok()) {
            *place = Some(exemplar);
        }
    }

    /// The exemplars, from the shortest to the longest.
    pub(super) fn all(&self) -> Vec<Exemplar> {
        self.0.iter().filter_map(|place| place.try_lock().ok().and_then(|place| *place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_keeps_its_newest_exemplar() {
        let exemplars = Exemplars::default();
        for number in 1..=100u8 {
            let took = Duration::from_micros(if number.is_multiple_of(2) { 3 } else { 1 << number.min(62) });
            let (trace_id, span_id) = ([number; 16], [number; 8]);
            exemplars.put(Exemplar { trace_id, span_id, took, at: SystemTime::UNIX_EPOCH });
        }
        let all = exemplars.all();
        assert!(all.len() <= BUCKETS && all.is_sorted_by_key(|one| one.took), "{all:?}");
        // Two and three microseconds have a bucket together.
        assert_eq!((all[0].took, all[0].trace_id[0]), (Duration::from_micros(3), 100));
        assert_eq!(all.last().map(|one| one.trace_id[0]), Some(99), "the last bucket has no end");
        let busy = exemplars.0[0].lock().unwrap();
        exemplars.put(Exemplar { took: Duration::ZERO, ..all[0] });
        drop(busy);
        assert_eq!(exemplars.all(), all, "nobody waits");
    }
}
