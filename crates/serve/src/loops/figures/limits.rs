//! Figures of the zones of `limit_req` and `limit_conn`.

use std::collections::BTreeMap;
use std::sync::Arc;

use freerun_runtime::per_loop::PerLoop;
use freerun_runtime::stats::Counter;

/// The decision of a limit about a subject that has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOutcome {
    /// The subject is within the limit.
    Passed,
    /// The subject has to wait.
    Delayed,
    /// The subject is refused.
    Rejected,
    /// The subject would have to wait, but is only counted.
    DelayedDryRun,
    /// The subject would be refused, but is only counted.
    RejectedDryRun,
}

impl LimitOutcome {
    /// All values, with the words of nginx's API.
    pub const ALL: [(LimitOutcome, &'static str); 5] = [
        (LimitOutcome::Passed, "passed"),
        (LimitOutcome::Delayed, "delayed"),
        (LimitOutcome::Rejected, "rejected"),
        (LimitOutcome::DelayedDryRun, "delayed_dry_run"),
        (LimitOutcome::RejectedDryRun, "rejected_dry_run"),
    ];
}

/// Figures of a zone. Each loop has its own counters.
#[derive(Debug, Default)]
pub struct LimitFigures(PerLoop<[Counter; LimitOutcome::ALL.len()]>);

impl LimitFigures {
    /// Counts a subject.
    pub fn count(&self, judged: LimitOutcome) {
        let mine = self.0.mine();
        mine.add(&mine.part()[judged as usize], 1);
    }

    /// Number of subjects that were judged in this way.
    pub fn get(&self, judged: LimitOutcome) -> u64 {
        self.0.sum(|part| &part[judged as usize])
    }
}

/// Zones by their names.
pub type ByName = BTreeMap<Arc<str>, Arc<LimitFigures>>;

/// The zones of a configuration. It lives in its context, and is a part of its generation then.
#[derive(Debug, Clone, Default)]
pub struct LimitZones {
    /// Zones of `limit_req`.
    pub requests: ByName,
    /// Zones of `limit_conn` in `http`.
    pub connections: ByName,
    /// Zones of `limit_conn` in `stream`.
    pub sessions: ByName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_counted_by_itself() {
        let figures = LimitFigures::default();
        for (times, (judged, _)) in LimitOutcome::ALL.into_iter().enumerate() {
            (0..times).for_each(|_| figures.count(judged));
        }
        assert_eq!(LimitOutcome::ALL.map(|(judged, _)| figures.get(judged)), [0, 1, 2, 3, 4]);
    }
}
