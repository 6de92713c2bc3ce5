//! Counters of earlier moments, with which the present ones are compared.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::watched::{WatchedCounter, each_watched};
use crate::content::status::figures::Figures;

/// The most counters of one moment. Those beyond are not compared, and cannot become problems.
const MAX_COUNTERS: usize = 4096;

/// The time over which answers of a server are compared with those before.
const SHORT: Duration = Duration::from_secs(5);

/// The time over which most changes are judged.
const MINUTE: Duration = Duration::from_secs(60);

/// The time for which samples are kept.
const WINDOW: Duration = Duration::from_secs(15 * 60);

/// The counters of one moment, by the keys of the problems that they would show. Counters at 0 are left out.
#[derive(Debug)]
pub struct CounterSample {
    pub(super) at: Instant,
    counts: HashMap<u64, PartOfWhole>,
    /// Whether there was no room for some counters.
    is_full: bool,
}

/// A counter of what may be a problem, and the counter of all that it is a part of; 0 if there is no whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartOfWhole {
    pub(super) bad: u64,
    pub(super) all: u64,
}

impl PartOfWhole {
    /// The counts since an earlier moment; `None`: they have begun again.
    pub(super) fn since(self, before: PartOfWhole) -> Option<PartOfWhole> {
        Some(PartOfWhole { bad: self.bad.checked_sub(before.bad)?, all: self.all.checked_sub(before.all)? })
    }

    /// The share of the bad ones, from 0 to 1.
    pub(super) fn share(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.bad as f64 / self.all as f64 }
    }
}

impl CounterSample {
    /// The counters of these figures.
    pub fn of(figures: &Figures, at: Instant) -> CounterSample {
        let mut sample = CounterSample { at, counts: HashMap::new(), is_full: false };
        each_watched(figures, &mut |watched: &WatchedCounter<'_>| {
            let counts = watched.counts;
            if counts == PartOfWhole::default() {
                return;
            }
            let key = watched.key();
            if let Some(known) = sample.counts.get_mut(&key) {
                // A group may have a server twice. Neither is compared until it has more than both had.
                *known = PartOfWhole { bad: known.bad + counts.bad, all: known.all + counts.all };
            } else if sample.counts.len() < MAX_COUNTERS {
                sample.counts.insert(key, counts);
            } else {
                sample.is_full = true;
            }
        });
        sample
    }

    /// The counters at the start of the worker.
    pub fn at_start(at: Instant) -> CounterSample {
        CounterSample { at, counts: HashMap::new(), is_full: false }
    }

    /// The counts of this key. `None`: it is not known whether they were 0.
    pub(super) fn get(&self, key: u64) -> Option<PartOfWhole> {
        self.counts.get(&key).copied().or((!self.is_full).then(PartOfWhole::default))
    }
}

/// The samples of the last quarter of an hour: each of the last minute, and one of each minute before.
#[derive(Debug, Default)]
pub struct CounterSamples {
    /// The oldest first.
    samples: VecDeque<Arc<CounterSample>>,
}

impl CounterSamples {
    /// Whether there is no sample yet.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Adds the newest sample, and gives the moments to compare with from now on.
    pub fn add(&mut self, sample: CounterSample) -> Baselines {
        let now = sample.at;
        self.samples.push_back(Arc::new(sample));
        while self.samples.front().is_some_and(|first| now.duration_since(first.at) > WINDOW) {
            self.samples.pop_front();
        }
        // Of samples that are older than a minute, one of each minute is enough.
        let mut kept: Option<Instant> = None;
        self.samples.retain(|one| {
            let is_recent = now.duration_since(one.at) <= MINUTE + SHORT;
            let stays = is_recent || kept.is_none_or(|last| one.at.duration_since(last) >= MINUTE);
            if stays {
                kept = Some(one.at);
            }
            stays
        });
        let before = |time: Duration| {
            let old_enough = self.samples.iter().rev().find(|one| now.duration_since(one.at) >= time);
            old_enough.or(self.samples.front()).cloned()
        };
        let oldest = self.samples.front().cloned();
        Baselines { short: before(SHORT), minute: before(MINUTE), oldest }
    }
}

/// The earlier moments with which the present counters are compared. `None`: there was none since the worker started,
/// and all counters began at 0.
#[derive(Debug, Clone, Default)]
pub struct Baselines {
    pub(super) short: Option<Arc<CounterSample>>,
    pub(super) minute: Option<Arc<CounterSample>>,
    pub(super) oldest: Option<Arc<CounterSample>>,
}

/// The counts of two spans of time: from an earlier moment to now, and before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CounterChange {
    pub(super) recent: PartOfWhole,
    pub(super) earlier: PartOfWhole,
}

impl Baselines {
    /// The change of a counter since the last minute, or since the shorter moment.
    pub(super) fn change(&self, key: u64, now: PartOfWhole, is_short: bool) -> Option<CounterChange> {
        let begin = if is_short { &self.short } else { &self.minute };
        let at = |sample: &Option<Arc<CounterSample>>| match sample {
            Some(sample) => sample.get(key),
            None => Some(PartOfWhole::default()),
        };
        let (begin, oldest) = (at(begin)?, at(&self.oldest)?);
        let earlier = begin.since(oldest).unwrap_or_default();
        Some(CounterChange { recent: now.since(begin)?, earlier })
    }

    /// The time from the earlier moment to now; `None`: since the worker started.
    pub(super) fn span(&self, now: Instant) -> Option<Duration> {
        self.minute.as_ref().map(|sample| now.duration_since(sample.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, bad: u64, all: u64) -> CounterSample {
        CounterSample { at, counts: HashMap::from([(1, PartOfWhole { bad, all })]), is_full: false }
    }

    #[test]
    fn a_quarter_of_an_hour_is_kept_and_of_old_samples_one_a_minute() {
        let begin = Instant::now();
        let mut samples = CounterSamples::default();
        let mut baselines = Baselines::default();
        for second in (0..1800).step_by(5) {
            let at = begin + Duration::from_secs(second);
            baselines = samples.add(sample(at, second / 100, second));
        }
        assert!(samples.samples.len() < 32, "{}", samples.samples.len());
        let [short, minute, oldest] = [&baselines.short, &baselines.minute, &baselines.oldest]
            .map(|one| one.as_ref().map(|one| one.at.duration_since(begin).as_secs()));
        assert_eq!((short, minute), (Some(1790), Some(1735)));
        assert!((895..=960).contains(&oldest.unwrap()), "{oldest:?}");
        let change = baselines.change(1, PartOfWhole { bad: 18, all: 1795 }, false).unwrap();
        assert_eq!(change.recent, PartOfWhole { bad: 1, all: 60 });
        assert!(change.earlier.all > 700, "{change:?}");
        assert_eq!(baselines.change(1, PartOfWhole { bad: 0, all: 0 }, false), None, "it has begun again");
        assert_eq!(
            baselines.change(2, PartOfWhole { bad: 3, all: 4 }, true).unwrap().recent,
            PartOfWhole { bad: 3, all: 4 }
        );
    }

    #[test]
    fn without_samples_all_counters_began_at_nothing() {
        let change = Baselines::default().change(1, PartOfWhole { bad: 2, all: 3 }, false).unwrap();
        assert_eq!(change, CounterChange { recent: PartOfWhole { bad: 2, all: 3 }, earlier: PartOfWhole::default() });
        let full = CounterSample { is_full: true, ..sample(Instant::now(), 1, 1) };
        assert_eq!((full.get(1), full.get(2)), (Some(PartOfWhole { bad: 1, all: 1 }), None));
    }
}
