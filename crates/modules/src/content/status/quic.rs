//! The counters of QUIC and HTTP/3, with clients and with upstream servers.

use std::collections::BTreeMap;

use freerun_serve::loops::figures::http2::FLOODS;
use freerun_serve::loops::figures::quic::{Http3Figures, QuicFigures};
use freerun_upstream::http3::memory::ConnectionMemory;

use crate::content::described::described;

described! {
    /// The counters of QUIC with clients.
    pub struct Quic {
        /// Connections of QUIC.
        #[metric(counter "freerun_quic_connections_total")]
        pub connections: u64,
        /// Open connections of QUIC.
        #[metric(gauge "freerun_quic_connections_open")]
        pub open: u64,
        /// Handshakes that were completed.
        #[metric(counter "freerun_quic_handshakes_total" by "result" is "completed", "Handshakes of QUIC, by their result.")]
        pub completed: u64,
        /// Connections that ended before their handshake was complete.
        #[metric(counter "freerun_quic_handshakes_total" by "result" is "failed")]
        pub failed: u64,
        /// Handshakes that resumed an earlier session.
        #[metric(counter "freerun_quic_resumed_total")]
        pub resumed: u64,
        /// Handshakes whose early data was taken.
        #[metric(counter "freerun_quic_early_data_total" by "taken" is "yes", "Handshakes with early data, by whether it was taken.")]
        pub early_accepted: u64,
        /// Handshakes whose early data was not taken.
        #[metric(counter "freerun_quic_early_data_total" by "taken" is "no")]
        pub early_rejected: u64,
        /// Clients that had to show that they receive packets at their address.
        #[metric(counter "freerun_quic_retries_total")]
        pub retries: u64,
        /// Connections that were refused, because there was no room for them.
        #[metric(counter "freerun_quic_refused_total")]
        pub refused: u64,
        /// Changes of the address or the port of a connection's client.
        #[metric(counter "freerun_quic_migrations_total")]
        pub migrated: u64,
        /// The most bytes of responses that are kept until clients have acknowledged them.
        #[metric(gauge "freerun_quic_unacknowledged_bytes")]
        pub unacknowledged: u64,
        /// Resets sent for packets of unknown connections.
        #[metric(counter "freerun_quic_stateless_resets_total")]
        pub resets: u64,
        /// Datagrams from clients that were lost, because there was no room for them.
        #[metric(counter "freerun_quic_datagrams_lost_total" by "from" is "client",
            "Datagrams of QUIC that were lost, because there was no room for them, by their sender.")]
        pub lost_from_clients: u64,
        /// Datagrams to clients that could not be sent.
        #[metric(counter "freerun_quic_datagrams_lost_total" by "from" is "server")]
        pub lost_to_clients: u64,
    }

    /// The counters of HTTP/3 with clients.
    pub struct Http3 {
        /// Streams that became requests.
        #[metric(counter "freerun_http3_streams_total")]
        pub streams: u64,
        /// Streams that clients reset before their response was complete.
        #[metric(counter "freerun_http3_resets_total" by "by" is "client",
            "Streams that were reset before their response was complete, by whom.")]
        pub reset_by_clients: u64,
        /// Streams that were reset because the client broke a rule.
        #[metric(counter "freerun_http3_resets_total" by "by" is "server")]
        pub reset_here: u64,
        /// Connections that were ended because the client broke a rule of HTTP/3.
        #[metric(counter "freerun_http3_failed_total")]
        pub failed: u64,
        /// Of these, connections that caused too much work, by its kind.
        #[metric(counter "freerun_http3_floods_total" by "kind")]
        pub floods: BTreeMap<&'static str, u64>,
    }
}

described! {
    /// The connections of HTTP/3 to upstream servers.
    pub struct Http3Upstreams {
        /// Open connections of HTTP/3 to upstream servers.
        #[metric(gauge "freerun_http3_upstreams_open")]
        pub open: u64,
        /// Bytes that upstream servers may send over HTTP/3 before they are read.
        #[metric(gauge "freerun_http3_upstreams_window_bytes")]
        pub window_bytes: u64,
        /// The most bytes of requests that are kept until upstream servers have acknowledged them.
        #[metric(gauge "freerun_http3_upstreams_unacknowledged_bytes")]
        pub unacknowledged: u64,
    }
}

impl Http3Upstreams {
    /// The current values.
    pub fn now() -> Http3Upstreams {
        let ConnectionMemory { connections: open, window_bytes, unacknowledged } = ConnectionMemory::now();
        Http3Upstreams { open, window_bytes, unacknowledged }
    }
}

impl Quic {
    /// The current values.
    pub fn of(figures: &QuicFigures) -> Quic {
        Quic {
            connections: figures.connections.get(),
            open: figures.open.get(),
            completed: figures.completed.get(),
            failed: figures.failed.get(),
            resumed: figures.resumed.get(),
            early_accepted: figures.early_accepted.get(),
            early_rejected: figures.early_rejected.get(),
            retries: figures.retries.get(),
            refused: figures.refused.get(),
            migrated: figures.migrated.get(),
            unacknowledged: figures.unacknowledged.get(),
            resets: figures.resets.get(),
            lost_from_clients: figures.lost_from_clients.get(),
            lost_to_clients: figures.lost_to_clients.get(),
        }
    }
}

impl Http3 {
    /// The current values.
    pub fn of(figures: &Http3Figures) -> Http3 {
        Http3 {
            streams: figures.streams.get(),
            reset_by_clients: figures.reset_by_clients.get(),
            reset_here: figures.reset_here.get(),
            failed: figures.failed.get(),
            floods: FLOODS.into_iter().zip(figures.floods.iter().map(|counter| counter.get())).collect(),
        }
    }
}
