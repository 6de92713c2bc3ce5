//! The counters of the sessions of stream.

use std::collections::BTreeMap;

use freerun_serve::loops::figures::sessions::{STATUSES, SessionFigures};

use super::limits::LimitZone;
use super::upstreams::Upstream;
use super::zones::Zone;
use crate::content::described::described;

described! {
    /// The counters of the sessions of stream.
    pub struct Sessions {
        /// Sessions of stream.
        #[metric(counter "freerun_stream_sessions_total")]
        pub sessions: u64,
        /// Sessions of stream that are there.
        #[metric(gauge "freerun_stream_sessions_open")]
        pub open: u64,
        /// Sessions of stream that have ended, by their statuses.
        #[metric(counter "freerun_stream_ended_total" by "status")]
        pub ended: BTreeMap<u16, u64>,
        /// Bytes from clients, of sessions that have ended.
        #[metric(counter "freerun_stream_bytes_total" by "direction" is "received",
            "Bytes from and to clients, of sessions that have ended.")]
        pub received: u64,
        /// Bytes to clients, of sessions that have ended.
        #[metric(counter "freerun_stream_bytes_total" by "direction" is "sent")]
        pub sent: u64,
        /// Datagrams that had no room, or could not be sent.
        #[metric(inside)]
        pub lost_datagrams: LostDatagrams,
        /// Zones of servers of stream.
        pub server_zones: Vec<Zone>,
        /// Zones of `limit_conn` in stream.
        pub limit_conns: Vec<LimitZone>,
        /// Groups of servers of stream.
        pub upstreams: Vec<Upstream>,
    }

    /// Datagrams that had no room, or could not be sent.
    pub struct LostDatagrams {
        /// Datagrams of clients.
        #[metric(counter "freerun_stream_lost_datagrams_total" by "direction" is "from_clients",
            "Datagrams that had no room, or could not be sent.")]
        pub from_clients: u64,
        /// Datagrams to clients.
        #[metric(counter "freerun_stream_lost_datagrams_total" by "direction" is "to_clients")]
        pub to_clients: u64,
    }
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
