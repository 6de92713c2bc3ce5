//! Verdicts of the zones of `limit_req` and `limit_conn`, in both forms.

use freerun_serve::configuration::generation::Generation;
use freerun_serve::loops::figures::limits::{ByName, LimitFigures, LimitOutcome, LimitZones};
use serde::Serialize;

use super::samples::Text;

/// The counters of a zone.
#[derive(Debug, Serialize)]
pub struct LimitZone {
    pub name: String,
    pub passed: u64,
    pub delayed: u64,
    pub rejected: u64,
    pub delayed_dry_run: u64,
    pub rejected_dry_run: u64,
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
    let name = "freerun_limit_total";
    out.head(name, "counter", "What zones of limit_req and limit_conn have said, by result.");
    for (kind, zones) in kinds {
        for zone in zones {
            let results = [
                ("passed", zone.passed),
                ("delayed", zone.delayed),
                ("rejected", zone.rejected),
                ("delayed_dry_run", zone.delayed_dry_run),
                ("rejected_dry_run", zone.rejected_dry_run),
            ];
            for (result, count) in results {
                out.sample(name, &[("kind", &kind), ("zone", &zone.name), ("result", &result)], count);
            }
        }
    }
}
