//! Counters whose change may be a problem.

use super::baselines::PartOfWhole;
use crate::content::status::figures::Figures;
use crate::content::status::problem::{ProblemKind, problem_key};
use crate::content::status::upstreams::{Upstream, UpstreamServer};
use crate::content::status::zones::Zone;

/// The first bucket of a histogram for durations that count as slow: from 2^20 µs, about a second, on.
const SLOW_BUCKET: usize = 21;

/// A counter whose change may be a problem of this kind.
pub(super) struct WatchedCounter<'a> {
    pub(super) kind: ProblemKind,
    pub(super) subject: &'a str,
    pub(super) part: &'a str,
    pub(super) counts: PartOfWhole,
}

impl WatchedCounter<'_> {
    /// The key of the problem.
    pub(super) fn key(&self) -> u64 {
        problem_key(self.kind.word(), self.subject, self.part)
    }
}

/// The name of a loop as a subject of problems.
pub(super) fn loop_name(index: usize) -> String {
    format!("loop {index}")
}

/// The answers of a server that took long, among all that have come.
pub(super) fn slow_answers(server: &UpstreamServer) -> PartOfWhole {
    let slow = server.header.counts.iter().skip(SLOW_BUCKET).sum();
    PartOfWhole { bad: slow, all: server.header.count }
}

/// The answers of a zone with a status of 5xx.
pub(super) fn errors(zone: &Zone) -> PartOfWhole {
    PartOfWhole { bad: zone.responses.get("5xx").copied().unwrap_or(0), all: zone.responses.values().sum() }
}

/// The groups of servers, of all protocols.
pub(super) fn groups(figures: &Figures) -> impl Iterator<Item = &Upstream> {
    figures.upstreams.iter().chain(&figures.stream.upstreams)
}

/// Calls `visit` with each counter.
pub(super) fn each_watched(figures: &Figures, visit: &mut dyn FnMut(&WatchedCounter<'_>)) {
    let mut whole = |kind, subject: &str, bad, all| {
        visit(&WatchedCounter { kind, subject, part: "", counts: PartOfWhole { bad, all } });
    };
    for zone in figures.server_zones.iter().chain(&figures.stream.server_zones) {
        let PartOfWhole { bad, all } = errors(zone);
        whole(ProblemKind::ServerErrors, &zone.name, bad, all);
    }
    for log in &figures.logs {
        whole(ProblemKind::LogLoses, &log.name, log.lost_lines, 0);
    }
    for pool in &figures.pools {
        whole(ProblemKind::PoolFull, &pool.name, pool.refused, 0);
    }
    for cache in &figures.caches {
        let no_room = cache.disk.full + cache.refused;
        whole(ProblemKind::CacheFull, &cache.name, no_room, 0);
        whole(ProblemKind::CacheUnstored, &cache.name, cache.fills.unstored.saturating_sub(no_room), 0);
    }
    for one in &figures.loops {
        let own = one.stalls.saturating_sub(one.stalls_without_processor);
        whole(ProblemKind::LoopLate, &loop_name(one.index), own, 0);
    }
    for zone in figures.limit_reqs.iter().chain(&figures.limit_conns).chain(&figures.stream.limit_conns) {
        let all = zone.passed + zone.delayed + zone.rejected;
        whole(ProblemKind::Limit, &zone.name, zone.rejected, all);
    }
    for group in groups(figures) {
        for server in &group.servers {
            let (subject, part, counts) = (&*group.name, &*server.address, slow_answers(server));
            visit(&WatchedCounter { kind: ProblemKind::ServerSlow, subject, part, counts });
        }
    }
}
