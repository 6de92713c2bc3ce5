//! The counters of HTTP/2 with clients.

use std::collections::BTreeMap;

use freerun_serve::loops::figures::http2::{FLOODS, Http2Figures};

use crate::content::described::described;

described! {
    /// The counters of HTTP/2 with clients.
    pub struct Http2 {
        /// Connections of HTTP/2.
        #[metric(counter "freerun_http2_connections_total")]
        pub connections: u64,
        /// Open connections of HTTP/2.
        #[metric(gauge "freerun_http2_connections_open")]
        pub open: u64,
        /// Streams that became requests.
        #[metric(counter "freerun_http2_streams_total")]
        pub streams: u64,
        /// Streams that clients reset before their response was complete.
        #[metric(counter "freerun_http2_resets_total" by "by" is "client",
            "Streams that were reset before their response was complete, by whom.")]
        pub reset_by_clients: u64,
        /// Streams that were reset because the client broke a rule.
        #[metric(counter "freerun_http2_resets_total" by "by" is "server")]
        pub reset_here: u64,
        /// Connections that were ended because the client broke a rule of HTTP/2.
        #[metric(counter "freerun_http2_failed_total")]
        pub failed: u64,
        /// Of these, connections that caused too much work, by its kind.
        #[metric(counter "freerun_http2_floods_total" by "kind")]
        pub floods: BTreeMap<&'static str, u64>,
    }
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
