//! Counters whose change may be a problem.

use super::baselines::PartOfWhole;
use crate::content::status::figures::Figures;
use crate::content::status::problem::{HTTP_GROUPS, ProblemKind, STREAM_GROUPS, problem_key};
use crate::content::status::upstreams::{Upstream, UpstreamServer};
use crate::content::status::zones::Zone;

/// The first bucket of a histogram for durations that count as slow: from 2^20 µs, about a second, on.
const SLOW_BUCKET: usize = 21;

/// A group of servers and its protocol. One of `http` and one of `stream` may have the same name.
#[derive(Clone, Copy)]
pub(super) struct WatchedGroup<'a> {
    /// The block of the main level that has it: `http` or `stream`.
    pub(super) service: &'static str,
    /// The section of the page that shows it.
    pub(super) section: &'static str,
    pub(super) figures: &'a Upstream,
}

impl WatchedGroup<'_> {
    /// The key of a problem of this kind that one of its servers may have.
    pub(super) fn server_key(self, kind: ProblemKind, server: &UpstreamServer) -> u64 {
        problem_key(self.section, kind.word(), &self.figures.name, &server.address)
    }
}

/// A counter whose change may be a problem of this kind.
pub(super) struct WatchedCounter<'a> {
    pub(super) kind: ProblemKind,
    /// The section of the page that shows the subject.
    pub(super) section: &'static str,
    pub(super) subject: &'a str,
    pub(super) part: &'a str,
    pub(super) counts: PartOfWhole,
}

impl WatchedCounter<'_> {
    /// The key of the problem.
    pub(super) fn key(&self) -> u64 {
        problem_key(self.section, self.kind.word(), self.subject, self.part)
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
pub(super) fn groups(figures: &Figures) -> impl Iterator<Item = WatchedGroup<'_>> {
    let of_http = |figures| WatchedGroup { service: "http", section: HTTP_GROUPS, figures };
    let of_stream = |figures| WatchedGroup { service: "stream", section: STREAM_GROUPS, figures };
    figures.upstreams.iter().map(of_http).chain(figures.stream.upstreams.iter().map(of_stream))
}

/// Calls `visit` with each counter.
pub(super) fn each_watched(figures: &Figures, visit: &mut dyn FnMut(&WatchedCounter<'_>)) {
    let mut part = |kind: ProblemKind, subject: &str, part: &str, bad, all| {
        let (section, counts) = (kind.section(), PartOfWhole { bad, all });
        visit(&WatchedCounter { kind, section, subject, part, counts });
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
    for group in groups(figures) {
        for server in &group.figures.servers {
            let (subject, part) = (group.figures.name.as_str(), server.address.as_str());
            let (kind, section, counts) = (ProblemKind::ServerSlow, group.section, slow_answers(server));
            visit(&WatchedCounter { kind, section, subject, part, counts });
        }
    }
}
