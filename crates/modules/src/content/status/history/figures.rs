//! The history as JSON shows it.

use crate::content::described::described;

described! {
    /// The figures of the last fifteen minutes. Each list has a value for each interval, the oldest first, and ends with
    /// the newest one. A list of something that is younger is shorter.
    #[schema = "History"]
    pub struct HistoryFigures {
        /// Length of an interval.
        pub interval_seconds: u64,
        /// End of the newest interval, in seconds since 1970; 0 if there is none yet.
        pub newest: i64,
        /// Number of servers and zones that have no history, because too many others have one.
        pub left_out: usize,
        /// All servers together.
        pub worker: WorkerHistory,
        /// Event loops, in their order.
        pub loops: Vec<LoopHistory>,
        /// Servers of http and zones of servers, of those that had requests, by name.
        pub server_zones: Vec<ZoneHistory>,
        /// The same of stream.
        pub stream_zones: Vec<ZoneHistory>,
        /// Servers of groups.
        pub upstreams: Vec<UpstreamHistory>,
        /// Caches, by name.
        pub caches: Vec<CacheHistory>,
    }

    /// The history of all servers together.
    pub struct WorkerHistory {
        /// Requests begun in the interval.
        pub requests: Vec<u32>,
        /// Responses of servers with a status of 5xx.
        pub errors: Vec<u32>,
        /// Microseconds below which 99 % of the requests that ended in the interval took; 0 if none ended.
        pub p99_us: Vec<u32>,
        /// Connections of clients at the end of the interval.
        pub connections: Vec<u32>,
    }

    /// The history of an event loop.
    pub struct LoopHistory {
        pub index: usize,
        /// Microseconds below which the longest turn of the interval took.
        pub longest_us: Vec<u32>,
        /// Turns of its own that took longer than 10 ms.
        pub stalls: Vec<u32>,
    }

    /// The history of a zone.
    pub struct ZoneHistory {
        pub name: String,
        /// Requests or sessions that have ended with a status.
        pub requests: Vec<u32>,
        /// Requests or sessions that have ended with a status of 5xx.
        pub errors: Vec<u32>,
        /// Microseconds below which 99 % of those that ended took; 0 if none ended.
        pub p99_us: Vec<u32>,
    }

    /// The history of a server of a group.
    pub struct UpstreamHistory {
        /// `http` or `stream`.
        pub protocol: &'static str,
        pub group: String,
        pub address: String,
        /// The number of the server among the servers of this address in the group, from 1.
        pub nth: usize,
        /// State at the end of the interval.
        pub state: Vec<&'static str>,
        /// Attempts to have a request answered.
        pub requests: Vec<u32>,
        /// Failures of all kinds.
        pub failures: Vec<u32>,
        /// Microseconds within which the heads of 99 % of the responses came; 0 if none came.
        pub p99_us: Vec<u32>,
    }

    /// The history of a cache.
    pub struct CacheHistory {
        pub name: String,
        /// Responses that were looked for in the cache.
        pub answers: Vec<u32>,
        /// Responses that were taken from it.
        pub hits: Vec<u32>,
    }
}
