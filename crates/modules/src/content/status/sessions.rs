//! The counters of the sessions of stream.

use std::collections::BTreeMap;

use freerun_serve::session_figures::{STATUSES, SessionFigures};
use serde::Serialize;

use super::samples::Text;
use super::upstreams::Upstream;

/// The counters of the sessions of stream.
#[derive(Debug, Serialize)]
pub struct Sessions {
    pub sessions: u64,
    pub open: u64,
    pub ended: BTreeMap<u16, u64>,
    pub received: u64,
    pub sent: u64,
    pub lost: u64,
    pub upstreams: Vec<Upstream>,
}

impl Sessions {
    /// The current values, with those of the groups of servers.
    pub fn of(figures: &SessionFigures, upstreams: Vec<Upstream>) -> Sessions {
        Sessions {
            sessions: figures.sessions.get(),
            open: figures.open.get(),
            ended: STATUSES.into_iter().zip(figures.ended.iter().map(|counter| counter.get())).collect(),
            received: figures.received.get(),
            sent: figures.sent.get(),
            lost: figures.lost.get(),
            upstreams,
        }
    }
}

/// Writes the counters for Prometheus.
pub(super) fn text(stream: &Sessions, out: &mut Text) {
    out.single("freerun_stream_sessions_total", "counter", "Sessions of stream.", stream.sessions);
    out.single("freerun_stream_sessions_open", "gauge", "Sessions of stream that are there.", stream.open);
    let name = "freerun_stream_ended_total";
    out.head(name, "counter", "Sessions of stream that have ended, by their statuses.");
    for (status, count) in &stream.ended {
        out.sample(name, &[("status", status)], *count);
    }
    let name = "freerun_stream_bytes_total";
    out.head(name, "counter", "Bytes from and to clients, of sessions that have ended.");
    out.sample(name, &[("direction", &"received")], stream.received);
    out.sample(name, &[("direction", &"sent")], stream.sent);
    let help = "Datagrams lost on their way from one loop to another.";
    out.single("freerun_stream_lost_total", "counter", help, stream.lost);
}
