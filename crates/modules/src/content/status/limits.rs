//! Verdicts of the zones of `limit_req` and `limit_conn`, in both forms.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::limits::{ByName, LimitFigures, LimitOutcome, LimitZones};

use super::samples::{MetricRow, Text};
use crate::content::described::described;

described! {
    /// The counters of a zone.
    pub struct LimitZone {
        pub name: String,
        /// Requests, connections or sessions that passed at once.
        #[metric(counter "freerun_limit_total" by "result" is "passed",
            "What zones of limit_req and limit_conn have said, by result.")]
        #[api]
        pub passed: u64,
        /// Requests that were delayed.
        #[metric(counter "freerun_limit_total" by "result" is "delayed")]
        #[api]
        pub delayed: u64,
        /// Requests, connections or sessions that were rejected.
        #[metric(counter "freerun_limit_total" by "result" is "rejected")]
        #[api]
        pub rejected: u64,
        /// Requests that would have been delayed without `limit_req_dry_run`.
        #[metric(counter "freerun_limit_total" by "result" is "delayed_dry_run")]
        #[api]
        pub delayed_dry_run: u64,
        /// Requests or connections that would have been rejected without a dry run.
        #[metric(counter "freerun_limit_total" by "result" is "rejected_dry_run")]
        #[api]
        pub rejected_dry_run: u64,
    }
}

/// The zones of a configuration, by name.
#[derive(Debug, Default)]
pub struct Limits {
    /// Of `limit_req`.
    pub requests: Vec<LimitZone>,
    /// Of `limit_conn` in `http`.
    pub connections: Vec<LimitZone>,
    /// Of `limit_conn` in `stream`.
    pub sessions: Vec<LimitZone>,
}

/// Collects the counters of a generation's zones.
pub fn collect(generation: &Generation) -> Limits {
    let all = |zones: &ByName| zones.iter().map(|(name, figures)| LimitZone::of(name, figures)).collect();
    match generation.parts.get::<LimitZones>() {
        Some(zones) => Limits {
            requests: all(&zones.requests),
            connections: all(&zones.connections),
            sessions: all(&zones.sessions),
        },
        None => Limits::default(),
    }
}

impl LimitZone {
    /// The counters of a zone.
    pub fn of(name: &str, figures: &LimitFigures) -> LimitZone {
        LimitZone {
            name: name.to_owned(),
            passed: figures.get(LimitOutcome::Passed),
            delayed: figures.get(LimitOutcome::Delayed),
            rejected: figures.get(LimitOutcome::Rejected),
            delayed_dry_run: figures.get(LimitOutcome::DelayedDryRun),
            rejected_dry_run: figures.get(LimitOutcome::RejectedDryRun),
        }
    }
}

/// Writes the counters of requests, of connections, and of sessions of `stream` for Prometheus.
pub(super) fn text(kinds: [(&str, &[LimitZone]); 3], out: &mut Text) {
    let rows = kinds.iter().flat_map(|(kind, zones)| {
        zones.iter().map(move |zone| MetricRow { labels: vec![("kind", kind), ("zone", &zone.name)], object: zone })
    });
    out.objects(&rows.collect::<Vec<_>>());
}
