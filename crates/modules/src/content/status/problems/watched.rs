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
    let mut part = |kind, subject: &str, part: &str, bad, all| {
        visit(&WatchedCounter { kind, subject, part, counts: PartOfWhole { bad, all } });
    };
    for (protocol, zones) in [("", &figures.server_zones), ("stream", &figures.stream.server_zones)] {
        for zone in zones {
            let PartOfWhole { bad, all } = errors(zone);
            part(ProblemKind::ServerErrors, &zone.name, protocol, bad, all);
        }
    }
    let limits = [
        ("requests", &figures.limit_reqs),
        ("connections", &figures.limit_conns),
        ("sessions", &figures.stream.limit_conns),
    ];
    for (limited, zones) in limits {
        for zone in zones {
            let all = zone.passed + zone.delayed + zone.rejected;
            part(ProblemKind::Limit, &zone.name, limited, zone.rejected, all);
        }
    }
    for group in groups(figures) {
        for server in &group.servers {
            let PartOfWhole { bad, all } = slow_answers(server);
            part(ProblemKind::ServerSlow, &group.name, &server.address, bad, all);
        }
    }
    let mut whole = |kind, subject: &str, bad| part(kind, subject, "", bad, 0);
    for log in &figures.logs {
        whole(ProblemKind::LogLoses, &log.name, log.lost_lines);
    }
    for pool in &figures.pools {
        whole(ProblemKind::PoolFull, &pool.name, pool.refused);
    }
    for cache in &figures.caches {
        let no_room = cache.disk.full + cache.refused;
        whole(ProblemKind::CacheFull, &cache.name, no_room);
        whole(ProblemKind::CacheUnstored, &cache.name, cache.fills.unstored.saturating_sub(no_room));
    }
    for one in &figures.loops {
        let own = one.stalls.saturating_sub(one.stalls_without_processor);
        whole(ProblemKind::LoopLate, &loop_name(one.index), own);
    }
}
