//! Figures of HTTP/2 with clients, of all loops together.

use freerun_proto::h2::flood::Flood;
use freerun_runtime::stats::Counter;

/// Reasons that connections were ended for the work that their clients caused.
pub const FLOODS: [&str; 4] = ["frames", "resets", "unread", "fields"];

/// Figures of HTTP/2 with clients.
#[derive(Debug, Default)]
pub struct Http2Figures {
    /// Connections since the start.
    pub connections: Counter,
    /// Connections open now.
    pub open: Counter,
    /// Streams that became requests.
    pub streams: Counter,
    /// Streams that were reset before their response was complete, by clients.
    pub reset_by_clients: Counter,
    /// Streams that were reset here, because the client broke a rule.
    pub reset_here: Counter,
    /// Connections that were ended because the client broke a rule.
    pub failed: Counter,
    /// Of these, connections that caused too much work, in the order of [`FLOODS`].
    pub floods: [Counter; 4],
}

impl Http2Figures {
    /// Notes why a connection has failed.
    pub fn failed(&self, flood: Option<Flood>) {
        self.failed.add();
        if let Some(flood) = flood {
            self.floods[flood_index(flood)].add();
        }
    }
}

/// The place of a reason in [`FLOODS`].
pub(super) fn flood_index(flood: Flood) -> usize {
    match flood {
        Flood::Frames => 0,
        Flood::Resets => 1,
        Flood::Unread => 2,
        Flood::Fields => 3,
    }
}
