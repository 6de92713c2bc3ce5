//! The counters of HTTP/2 with clients.

use std::collections::BTreeMap;

use freerun_serve::loops::figures::http2::{FLOODS, Http2Figures};
use serde::Serialize;

use super::samples::Text;

/// The counters of HTTP/2 with clients.
#[derive(Debug, Serialize)]
pub struct Http2 {
    pub connections: u64,
    pub open: u64,
    pub streams: u64,
    pub reset_by_clients: u64,
    pub reset_here: u64,
    pub failed: u64,
    pub floods: BTreeMap<&'static str, u64>,
}

impl Http2 {
    /// The current values.
    pub fn of(figures: &Http2Figures) -> Http2 {
        Http2 {
            connections: figures.connections.get(),
            open: figures.open.get(),
            streams: figures.streams.get(),
            reset_by_clients: figures.reset_by_clients.get(),
            reset_here: figures.reset_here.get(),
            failed: figures.failed.get(),
            floods: FLOODS.into_iter().zip(figures.floods.iter().map(|counter| counter.get())).collect(),
        }
    }
}

/// Writes the counters for Prometheus.
pub(super) fn text(http2: &Http2, out: &mut Text) {
    out.single("freerun_http2_connections_total", "counter", "Connections of HTTP/2.", http2.connections);
    out.single("freerun_http2_connections_open", "gauge", "Open connections of HTTP/2.", http2.open);
    out.single("freerun_http2_streams_total", "counter", "Streams that became requests.", http2.streams);
    let name = "freerun_http2_resets_total";
    out.head(name, "counter", "Streams that were reset before their response was complete, by whom.");
    out.sample(name, &[("by", &"client")], http2.reset_by_clients);
    out.sample(name, &[("by", &"server")], http2.reset_here);
    let help = "Connections that were ended because the client broke a rule of HTTP/2.";
    out.single("freerun_http2_failed_total", "counter", help, http2.failed);
    let name = "freerun_http2_floods_total";
    out.head(name, "counter", "Of these, connections that caused too much work, by its kind.");
    for (kind, count) in &http2.floods {
        out.sample(name, &[("kind", kind)], *count);
    }
}
