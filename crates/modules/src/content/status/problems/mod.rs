//! The problems that an operator should look at first, each as a sentence: found in the figures of one moment, and in how
//! they differ from earlier ones.

pub mod baselines;
mod changes;
mod origins;
pub mod problem_log;
mod servers;
mod states;
mod watched;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use freerun_serve::configuration::object_places::ObjectPlaces;

use self::baselines::Baselines;
use self::problem_log::ProblemLog;
use self::watched::WatchedGroup;
use super::figures::Figures;
use super::problem::{ProblemKind, StatusProblem};

/// The most problems that are told. With more, the last one says how many there are.
const MAX_PROBLEMS: usize = 100;

/// The knowledge that figures are judged by.
#[derive(Debug, Clone)]
pub struct ProblemContext {
    /// The time in seconds since 1970.
    pub now: i64,
    /// The same moment, to compare with the times of samples.
    pub at: Instant,
    /// The counters of earlier moments.
    pub baselines: Baselines,
    /// The problems that were known before.
    pub log: ProblemLog,
    /// The places of objects in the configuration.
    pub places: Arc<ObjectPlaces>,
}

impl ProblemContext {
    /// The context of a server that has no history, at a time in seconds since 1970.
    pub fn new(now: i64) -> ProblemContext {
        let (baselines, log, places) = Default::default();
        ProblemContext { now, at: Instant::now(), baselines, log, places }
    }
}

/// Problems while they are collected.
struct FoundProblems<'a> {
    context: &'a ProblemContext,
    all: Vec<(ProblemKind, StatusProblem)>,
    keys: HashSet<u64>,
}

impl FoundProblems<'_> {
    /// Adds a problem of a whole subject.
    fn add(&mut self, kind: ProblemKind, subject: &str, text: String) {
        self.add_part(kind, subject, "", text);
    }

    /// Adds a problem of a part of a subject.
    fn add_part(&mut self, kind: ProblemKind, subject: &str, part: &str, text: String) {
        self.add_in(kind.section(), kind, subject, part, text);
    }

    /// Adds a problem of a group of servers, or of a part of it.
    fn add_of_group(&mut self, kind: ProblemKind, group: WatchedGroup<'_>, part: &str, text: String) {
        self.add_in(group.section, kind, &group.figures.name, part, text);
    }

    /// Adds a problem whose details are in this section of the page. A second one with the same key is left out: a group may
    /// have a server twice.
    fn add_in(&mut self, section: &'static str, kind: ProblemKind, subject: &str, part: &str, text: String) {
        let problem = StatusProblem { section, ..StatusProblem::new(kind, subject, part, text, self.context.now) };
        if self.keys.insert(problem.key()) {
            self.all.push((kind, self.context.log.dated(problem)));
        }
    }

    /// The first ones, with where to look for them; a last one counts the others.
    fn limited(mut self, figures: &Figures) -> Vec<StatusProblem> {
        self.all.sort_by_key(|(kind, _)| *kind);
        let more = self.all.len().saturating_sub(MAX_PROBLEMS);
        self.all.truncate(MAX_PROBLEMS);
        for (kind, problem) in &mut self.all {
            origins::add(*kind, problem, figures, &self.context.places);
        }
        let mut told: Vec<StatusProblem> = self.all.into_iter().map(|(_, problem)| problem).collect();
        if more > 0 {
            let text = format!("There are {more} more problems.");
            let last = StatusProblem::new(ProblemKind::More, "", "", text, self.context.now);
            let section = told.last().map_or(last.section, |told| told.section);
            told.push(StatusProblem { section, ..last });
        }
        told
    }
}

/// The problems that these figures show; those that concern most requests first.
pub fn of(figures: &Figures, context: &ProblemContext) -> Vec<StatusProblem> {
    let mut found = FoundProblems { context, all: Vec::new(), keys: HashSet::new() };
    for group in watched::groups(figures) {
        servers::find(group, &mut found);
    }
    states::find(figures, &mut found);
    changes::find(figures, &mut found);
    found.limited(figures)
}

/// A duration in the largest unit that it has two of.
fn duration(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} d", seconds / 86_400),
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

/// A share as a percentage, with as many decimals as it needs to differ from 0.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 || percent >= 10.0 {
        format!("{percent:.0} %")
    } else if percent >= 0.1 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.3} %")
    }
}
