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
        let index = match flood {
            Some(Flood::Frames) => 0,
            Some(Flood::Resets) => 1,
            Some(Flood::Unread) => 2,
            Some(Flood::Fields) => 3,
            None => return,
        };
        self.floods[index].add();
    }
}
