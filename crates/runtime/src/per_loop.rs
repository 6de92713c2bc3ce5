//! Counters that every loop keeps for itself: a loop adds to its own numbers without locking them, and no other processor
//! waits for the memory that holds them. Whoever shows them adds them up.

use std::sync::OnceLock;
use std::time::Duration;

use crate::loops;
use crate::stats::{Counter, Histogram, HistogramSnapshot};

/// The most loops that have a part of their own; further ones share the part of threads that are no loops.
pub const MAX_PARTS: usize = 256;

/// Counters of type `T`, once for each loop that has counted something, and once for all other threads together.
#[derive(Debug)]
pub struct PerLoop<T> {
    /// The parts of the loops, by their numbers.
    own: OnceLock<Box<[OnceLock<Box<T>>]>>,
    /// Values of loops that were started later, when there are any.
    later: OnceLock<Box<[OnceLock<Box<T>>]>>,
    /// The part of threads that are no loops.
    others: OnceLock<Box<T>>,
}

impl<T> Default for PerLoop<T> {
    fn default() -> PerLoop<T> {
        PerLoop { own: OnceLock::new(), later: OnceLock::new(), others: OnceLock::new() }
    }
}

/// The counters that this thread adds to.
#[derive(Debug)]
pub struct OwnCounters<'p, T> {
    part: &'p T,
    /// Whether no other thread adds to these counters.
    alone: bool,
}

// Not derived, because that would demand it of the counters.
impl<T> Clone for OwnCounters<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OwnCounters<'_, T> {}

impl<'p, T> OwnCounters<'p, T> {
    /// The counters.
    pub fn part(self) -> &'p T {
        self.part
    }

    /// Adds to one of the counters.
    #[inline]
    pub fn add(self, counter: &Counter, n: u64) {
        if self.alone {
            counter.add_n_alone(n);
        } else {
            counter.add_n(n);
        }
    }

    /// Counts a duration in one of the histograms.
    #[inline]
    pub fn record(self, times: &Histogram, took: Duration) {
        if self.alone { times.record_alone(took) } else { times.record(took) }
    }
}

impl<T: Default> PerLoop<T> {
    /// The counters of this thread.
    #[inline]
    pub fn mine(&self) -> OwnCounters<'_, T> {
        let own = self.own.get_or_init(|| (0..loops::count().min(MAX_PARTS)).map(|_| OnceLock::new()).collect());
        match loops::index().and_then(|index| own.get(index)) {
            Some(part) => OwnCounters { part: part.get_or_init(Box::default), alone: true },
            None => self.mine_elsewhere(own.len()),
        }
    }

    /// The counters of a loop that was started after the first `own` ones, or of a thread that is no loop.
    #[cold]
    fn mine_elsewhere(&self, own: usize) -> OwnCounters<'_, T> {
        if let Some(place) = loops::index().and_then(|index| index.checked_sub(own)) {
            // Twice as many as there are now: there may be more soon.
            let number = || (2 * loops::count()).min(MAX_PARTS).saturating_sub(own);
            let later = self.later.get_or_init(|| (0..number()).map(|_| OnceLock::new()).collect());
            if let Some(part) = later.get(place) {
                return OwnCounters { part: part.get_or_init(Box::default), alone: true };
            }
        }
        OwnCounters { part: self.others.get_or_init(Box::default), alone: false }
    }

    /// The counters of all threads that have counted something.
    pub fn parts(&self) -> impl Iterator<Item = &T> {
        let loops = self.own.get().into_iter().chain(self.later.get()).flatten();
        loops.chain([&self.others]).filter_map(OnceLock::get).map(|part| &**part)
    }

    /// The sum of one of the counters.
    pub fn sum(&self, of: impl Fn(&T) -> &Counter) -> u64 {
        self.parts().map(|part| of(part).get()).fold(0, u64::wrapping_add)
    }

    /// A histogram with the durations of all threads.
    pub fn times(&self, of: impl Fn(&T) -> &Histogram) -> HistogramSnapshot {
        let mut all = Histogram::default().snapshot();
        self.parts().for_each(|part| all.add(&of(part).snapshot()));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::loops::LoopHandle;

    #[derive(Default)]
    struct Part {
        count: Counter,
        times: Histogram,
    }

    #[test]
    fn what_loops_and_other_threads_count_is_summed() {
        let all: Arc<PerLoop<Part>> = Arc::default();
        let count = |all: &PerLoop<Part>| {
            let mine = all.mine();
            mine.add(&mine.part().count, 2);
            mine.record(&mine.part().times, Duration::from_micros(3));
        };
        let loops: Vec<LoopHandle> = (0..3).map(|index| LoopHandle::start(index, None).unwrap()).collect();
        let (done, ended) = channel();
        for each in loops.iter().flat_map(|each| std::iter::repeat_n(each, 10)) {
            let (all, done) = (all.clone(), done.clone());
            each.tell(move || {
                count(&all);
                done.send(()).unwrap();
            });
        }
        (0..2).for_each(|_| count(&all));
        drop(done);
        assert_eq!(ended.iter().take(30).count(), 30);
        let times = all.times(|part| &part.times);
        assert_eq!((all.sum(|part| &part.count), times.count(), times.sum_us), (64, 32, 96));
        loops.into_iter().for_each(LoopHandle::stop);
    }

    #[test]
    fn loops_that_come_later_count_for_themselves_as_long_as_there_is_a_place() {
        // As if it had been used with one loop only.
        let all: Arc<PerLoop<Part>> = Arc::default();
        assert!(all.own.set([OnceLock::new()].into()).is_ok());
        let loops: Vec<LoopHandle> = (0..3).map(|index| LoopHandle::start(index, None).unwrap()).collect();
        let last = LoopHandle::start(MAX_PARTS, None).unwrap();
        let (done, ended) = channel();
        for (each, alone) in loops.iter().map(|each| (each, true)).chain([(&last, false)]) {
            let (all, done) = (all.clone(), done.clone());
            each.tell(move || {
                let mine = all.mine();
                mine.add(&mine.part().count, 1);
                done.send(mine.alone == alone).unwrap();
            });
        }
        drop(done);
        assert!(ended.iter().take(4).all(|as_expected| as_expected));
        assert_eq!((all.sum(|part| &part.count), all.parts().count()), (4, 4));
        loops.into_iter().chain([last]).for_each(LoopHandle::stop);
    }
}
