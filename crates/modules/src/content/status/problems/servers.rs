//! Problems of upstream servers: those that take no requests, and those that have become slow.

use super::baselines::{CounterChange, PartOfWhole};
use super::watched::{WatchedGroup, slow_answers};
use super::{FoundProblems, duration, percent};
use crate::content::status::problem::ProblemKind;
use crate::content::status::upstreams::UpstreamServer;

/// Seconds after a failure of the only server of a group in which that is a problem: such a server is never left out.
const RECENT_SECONDS: f64 = 10.0;

/// The share of answers that take long from which on a server is slow, if it was not so before.
const SLOW_SHARE: f64 = 0.02;

/// The least number of slow answers that makes a server slow.
const SLOW_ANSWERS: u64 = 3;

/// The least number of answers with which others are compared.
const COMPARED_ANSWERS: u64 = 20;

/// A share of slow answers is called another one if this many times of it are still less.
const TIMES_SMALLER: f64 = 4.0;

/// Finds the problems of a group.
pub(super) fn find(watched: WatchedGroup<'_>, found: &mut FoundProblems<'_>) {
    let group = watched.figures;
    let all = group.servers.len();
    let out = group.servers.iter().filter(|server| is_out(server)).count();
    let able = group.servers.iter().filter(|server| matches!(server.state, "up" | "checking")).count();
    if out > 0 && able == 0 {
        let text = if all == 1 {
            "The only server cannot be asked.".into()
        } else {
            format!("None of {all} servers can be asked.")
        };
        found.add_of_group(ProblemKind::GroupOut, watched, "", text);
    }
    for server in group.servers.iter().filter(|server| is_out(server)) {
        let share = if able > 0 { format!(" Requests go to {able} of {all} servers.") } else { String::new() };
        let text = format!("{}{share}", reason(server));
        found.add_of_group(ProblemKind::ServerOut, watched, &server.address, text);
    }
    if let ([only], 0) = (&group.servers[..], out)
        && let Some(last) = only.last_failure.as_ref().filter(|last| last.seconds_ago < RECENT_SECONDS)
    {
        let text = format!("{}, the only server, has failed just now ({}).", name(only), last.kind);
        found.add_of_group(ProblemKind::ServerOut, watched, &only.address, text);
    }
    for name in &group.unresolved {
        let text = format!("The name {name} has no address.");
        found.add_of_group(ProblemKind::NameUnresolved, watched, name, text);
    }
    if group.waiting > 0 {
        let text = format!("{} requests wait for a server.", group.waiting);
        found.add_of_group(ProblemKind::RequestsWait, watched, "", text);
    }
    slow(watched, found);
}

/// A server that nobody has taken out takes no requests.
fn is_out(server: &UpstreamServer) -> bool {
    matches!(server.state, "unavail" | "unhealthy")
}

/// The server as the configuration names it, with the address that the name stands for.
fn name(server: &UpstreamServer) -> String {
    if server.server == server.address {
        server.address.clone()
    } else {
        format!("{} ({})", server.server, server.address)
    }
}

/// The reason why a server takes no requests.
fn reason(server: &UpstreamServer) -> String {
    let (name, checks) = (name(server), &server.checks);
    let last = server.last_failure.as_ref().map(|last| {
        let ago = duration(last.seconds_ago as i64);
        format!(" Its last failure ({}) was {ago} ago.", last.kind)
    });
    let last = last.unwrap_or_default();
    if server.state == "unhealthy" {
        format!("{name} fails its health checks ({} of {}).{last}", checks.failed, checks.done)
    } else {
        format!("{name} is left out after failures.{last}")
    }
}

/// Finds servers that take long now, and did not before, or do not in comparison with the others.
fn slow(watched: WatchedGroup<'_>, found: &mut FoundProblems<'_>) {
    let changes: Vec<(&UpstreamServer, u64, CounterChange)> = watched
        .figures
        .servers
        .iter()
        .filter_map(|server| {
            let key = watched.server_key(ProblemKind::ServerSlow, server);
            let change = found.context.baselines.change(key, slow_answers(server), true)?;
            Some((server, key, change))
        })
        .collect();
    for (server, key, change) in &changes {
        let CounterChange { recent, earlier } = *change;
        if recent.bad < SLOW_ANSWERS || recent.share() < SLOW_SHARE {
            continue;
        }
        let others = changes.iter().filter(|(_, other, _)| other != key).map(|(.., change)| change.recent);
        let others = others
            .fold(PartOfWhole::default(), |sum, one| PartOfWhole { bad: sum.bad + one.bad, all: sum.all + one.all });
        let is_unlike =
            |than: PartOfWhole| than.all >= COMPARED_ANSWERS && than.share() * TIMES_SMALLER < recent.share();
        let compared = if is_unlike(earlier) {
            format!(", {} before", percent(earlier.share()))
        } else if is_unlike(others) {
            format!(", and {} of those of the other servers", percent(others.share()))
        } else if found.context.log.is_known(*key) {
            String::new()
        } else {
            continue;
        };
        let share = percent(recent.share());
        let text = format!("{} is slow: {share} of its last answers took longer than 1 s{compared}.", name(server));
        found.add_of_group(ProblemKind::ServerSlow, watched, &server.address, text);
    }
}
