//! Problems that only a comparison with earlier counters shows: errors, refusals and losses of the last minute.

use super::baselines::{CounterChange, PartOfWhole};
use super::watched::{WatchedCounter, each_watched, loop_name};
use super::{FoundProblems, duration, percent};
use crate::content::status::figures::Figures;
use crate::content::status::problem::ProblemKind;

/// The share of answers with a status of 5xx from which on they are a problem.
const ERROR_SHARE: f64 = 0.01;

/// The share of refused requests from which on a limit is a problem.
const REFUSED_SHARE: f64 = 0.05;

/// The least number of earlier answers that makes their share worth saying.
const EARLIER_ANSWERS: u64 = 100;

/// Finds the problems.
pub(super) fn find(figures: &Figures, found: &mut FoundProblems<'_>) {
    let context = found.context;
    let span = match context.baselines.span(context.at) {
        Some(span) if span.as_secs() >= 55 => "in the last minute".to_owned(),
        Some(span) => format!("in the last {}", duration(span.as_secs().max(1).cast_signed())),
        None => "since the start".to_owned(),
    };
    each_watched(figures, &mut |watched: &WatchedCounter<'_>| {
        let Some(change) = context.baselines.change(watched.key(), watched.counts, false) else { return };
        if let Some(text) = text(watched, change, &span, figures) {
            found.add_in(watched.section, watched.kind, watched.subject, watched.part, text);
        }
    });
}

/// The problem that a change is, if it is one.
fn text(
    watched: &WatchedCounter<'_>,
    CounterChange { recent, earlier }: CounterChange,
    span: &str,
    figures: &Figures,
) -> Option<String> {
    let PartOfWhole { bad, all } = recent;
    if bad == 0 {
        return None;
    }
    let share = percent(recent.share());
    match watched.kind {
        ProblemKind::ServerErrors if recent.share() > ERROR_SHARE => {
            let before = (earlier.all >= EARLIER_ANSWERS).then(|| format!(", {} before", percent(earlier.share())));
            let before = before.unwrap_or_default();
            Some(format!("{share} of its answers {span} are 5xx ({bad} of {all}){before}."))
        }
        ProblemKind::Limit if recent.share() > REFUSED_SHARE => {
            Some(format!("The limit has refused {share} of its requests {span} ({bad} of {all})."))
        }
        ProblemKind::LogLoses => Some(format!("{} lost {span}.", were(bad, "line"))),
        ProblemKind::PoolFull => Some(format!("{} refused {span}, because the queue was full.", were(bad, "task"))),
        ProblemKind::CacheFull => Some(format!("There was no room for {} {span}.", number_of(bad, "object"))),
        ProblemKind::CacheUnstored => Some(format!("{} could not be stored {span}.", number_of(bad, "object"))),
        ProblemKind::LoopLate => {
            let last = last_stall(watched.subject, figures);
            let last = last.map(|last| format!(", the last time for {last}")).unwrap_or_default();
            Some(format!("It was held up {} {span}{last}.", number_of(bad, "time")))
        }
        _ => None,
    }
}

/// A number of things: `1 line`, `2 lines`.
fn number_of(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// A number of things, with the verb: `1 line was`, `2 lines were`.
fn were(count: u64, thing: &str) -> String {
    format!("{} {}", number_of(count, thing), if count == 1 { "was" } else { "were" })
}

/// The duration and the step of the last stall of a loop, as the error log has them: `12 ms in "sending a file"`.
fn last_stall(name: &str, figures: &Figures) -> Option<String> {
    let index = figures.loops.iter().find(|one| loop_name(one.index) == name)?.index;
    let begin = format!("event loop {index} stalled for ");
    figures.last_errors.iter().rev().find_map(|line| {
        let told = line.split_once(&begin)?.1;
        // Behind the step, further parts of the line say more of it.
        let end = told.match_indices('"').nth(1).map_or(told.len(), |(at, _)| at + 1);
        Some(told[..end].trim_end_matches('.').to_owned())
    })
}
