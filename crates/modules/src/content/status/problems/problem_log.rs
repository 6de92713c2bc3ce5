//! The problems of the last quarter of an hour: when each began, and when it ended.

use std::collections::HashMap;
use std::sync::Arc;

use crate::content::status::problem::{ProblemKind, StatusProblem};

/// The time for which a problem that is over is shown, in seconds.
const PAST_SECONDS: i64 = 15 * 60;

/// The time within which a problem that comes back is the same one, in seconds.
const SAME_SECONDS: i64 = 60;

/// The most problems that are remembered after their end.
const MAX_PAST: usize = 100;

/// The problems that were noticed. It is made anew with each sample, and never changed.
#[derive(Debug, Clone, Default)]
pub struct ProblemLog {
    /// The beginnings of the problems of the last sample, by their keys.
    begun: Arc<HashMap<u64, i64>>,
    /// The problems that are over, the newest end first.
    past: Arc<Vec<StatusProblem>>,
    /// The problems of the last sample.
    last: Arc<Vec<StatusProblem>>,
}

impl ProblemLog {
    /// The log after a sample that has shown these problems at a time in seconds since 1970.
    pub fn with(&self, problems: &[StatusProblem], now: i64) -> ProblemLog {
        let told = problems.iter().filter(|problem| problem.kind != ProblemKind::More.word());
        let last: Vec<StatusProblem> = told.cloned().map(|problem| self.dated(problem)).collect();
        let begun: HashMap<u64, i64> = last.iter().map(|problem| (problem.key(), problem.since)).collect();
        let over = self.last.iter().filter(|problem| !begun.contains_key(&problem.key()));
        let over = over.map(|problem| StatusProblem { ended: Some(now), ..problem.clone() });
        let still = self.past.iter().filter(|problem| {
            let is_recent = problem.ended.is_some_and(|ended| now - ended < PAST_SECONDS);
            is_recent && !begun.contains_key(&problem.key())
        });
        let mut past: Vec<StatusProblem> = over.chain(still.cloned()).collect();
        past.truncate(MAX_PAST);
        ProblemLog { begun: begun.into(), past: past.into(), last: last.into() }
    }

    /// Whether the last sample has shown this problem.
    pub fn is_known(&self, key: u64) -> bool {
        self.begun.contains_key(&key)
    }

    /// A problem that is there now, with the time at which it was first noticed.
    pub fn dated(&self, problem: StatusProblem) -> StatusProblem {
        let key = problem.key();
        let begun = self.begun.get(&key).copied().or_else(|| {
            let ended = self.past.iter().find(|past| past.key() == key)?;
            (problem.since - ended.ended? <= SAME_SECONDS).then_some(ended.since)
        });
        StatusProblem { since: begun.unwrap_or(problem.since), ..problem }
    }

    /// The problems that are over, besides these, which are there now.
    pub fn past(&self, problems: &[StatusProblem], now: i64) -> Vec<StatusProblem> {
        let keys: Vec<u64> = problems.iter().map(StatusProblem::key).collect();
        let ended = self.last.iter().map(|problem| StatusProblem { ended: Some(now), ..problem.clone() });
        let all = ended.chain(self.past.iter().cloned());
        all.filter(|problem| !keys.contains(&problem.key())).take(MAX_PAST).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(part: &str, now: i64) -> StatusProblem {
        StatusProblem::new(ProblemKind::ServerOut, "app", part, format!("text of {now}"), now)
    }

    #[test]
    fn a_problem_has_its_first_time_until_it_is_over_and_is_remembered_then() {
        let log = ProblemLog::default().with(&[problem("a", 100)], 100).with(&[problem("a", 105)], 105);
        assert_eq!(log.dated(problem("a", 107)).since, 100);
        assert_eq!(log.dated(problem("b", 107)).since, 107);
        assert!(log.past(&[problem("a", 107)], 107).is_empty());
        let [over] = &log.past(&[], 107)[..] else { panic!("{log:?}") };
        assert_eq!((over.since, over.ended, over.text.as_str()), (100, Some(107), "text of 105"));
        let log = log.with(&[], 110);
        assert_eq!(log.past(&[], 112)[0].ended, Some(110));
        // It comes back soon, so that it is the same one.
        assert_eq!(log.dated(problem("a", 170)).since, 100);
        assert_eq!(log.dated(problem("a", 171)).since, 171);
        assert!(log.with(&[problem("a", 150)], 150).past(&[problem("a", 150)], 150).is_empty());
        assert_eq!(log.with(&[], 110 + PAST_SECONDS - 1).past(&[], 0).len(), 1);
        assert_eq!(log.with(&[], 110 + PAST_SECONDS).past(&[], 0).len(), 0);
    }

    #[test]
    fn past_problems_are_limited() {
        let many: Vec<_> = (0..300).map(|part| problem(&part.to_string(), 1)).collect();
        let log = ProblemLog::default().with(&many, 1);
        assert_eq!(log.past(&[], 2).len(), MAX_PAST);
        assert_eq!(log.with(&[], 2).past(&[], 2).len(), MAX_PAST);
    }
}
