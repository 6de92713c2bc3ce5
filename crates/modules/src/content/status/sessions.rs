//! The counters of the sessions of stream.

use std::collections::BTreeMap;

use freerun_serve::loops::figures::sessions::{STATUSES, SessionFigures};
use serde::Serialize;

use super::limits::LimitZone;
use super::samples::Text;
use super::upstreams::Upstream;
use super::zones::Zone;

/// The counters of the sessions of stream.
#[derive(Debug, Serialize)]
pub struct Sessions {
    pub sessions: u64,
    pub open: u64,
    pub ended: BTreeMap<u16, u64>,
    pub received: u64,
    pub sent: u64,
    pub lost_datagrams: LostDatagrams,
    pub server_zones: Vec<Zone>,
    pub limit_conns: Vec<LimitZone>,
    pub upstreams: Vec<Upstream>,
}

/// Datagrams that were lost here.
#[derive(Debug, Serialize)]
pub struct LostDatagrams {
    pub from_clients: u64,
    pub to_clients: u64,
}

impl Sessions {
    /// The current values, with the groups of servers.
    pub fn of(figures: &SessionFigures, upstreams: Vec<Upstream>) -> Sessions {
        Sessions {
            sessions: figures.sessions.get(),
            open: figures.open.get(),
            ended: STATUSES.into_iter().zip(figures.ended.iter().map(|counter| counter.get())).collect(),
            received: figures.received.get(),
            sent: figures.sent.get(),
            lost_datagrams: LostDatagrams {
                from_clients: figures.lost_from_clients.get(),
                to_clients: figures.lost_to_clients.get(),
            },
            server_zones: Vec::new(),
            limit_conns: Vec::new(),
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
    let name = "freerun_stream_lost_datagrams_total";
    out.head(name, "counter", "Datagrams that had no room, or could not be sent.");
    out.sample(name, &[("direction", &"from_clients")], stream.lost_datagrams.from_clients);
    out.sample(name, &[("direction", &"to_clients")], stream.lost_datagrams.to_clients);
}
