//! Figures of QUIC and HTTP/3 with clients, of all loops together.

use freerun_proto::h2::flood::Flood;
use freerun_runtime::stats::Counter;

use super::http2::flood_index;

/// Figures of QUIC with clients.
#[derive(Debug, Default)]
pub struct QuicFigures {
    /// Connections since the start. One begins with the first packet that is neither refused nor answered with Retry.
    pub connections: Counter,
    /// Connections open now.
    pub open: Counter,
    /// Handshakes that were completed.
    pub completed: Counter,
    /// Of these, handshakes that resumed an earlier session.
    pub resumed: Counter,
    /// Connections that ended before their handshake was complete.
    pub failed: Counter,
    /// Handshakes whose early data was taken.
    pub early_accepted: Counter,
    /// Handshakes whose early data was not taken.
    pub early_rejected: Counter,
    /// Clients that were asked to show that they receive packets at their address (Retry).
    pub retries: Counter,
    /// Connections that were refused, because there was no room for them.
    pub refused: Counter,
    /// Changes of a connection's path: its client has another address or port from then on.
    pub migrated: Counter,
    /// The most bytes of responses that are kept until clients have acknowledged them.
    pub unacknowledged: Counter,
    /// Stateless resets sent, for packets of connections that are not known.
    pub resets: Counter,
    /// Datagrams from clients that were lost, because there was no room for them.
    pub lost_from_clients: Counter,
    /// Datagrams to clients that were lost, because they could not be sent.
    pub lost_to_clients: Counter,
}

/// Figures of HTTP/3 with clients.
#[derive(Debug, Default)]
pub struct Http3Figures {
    /// Streams that became requests.
    pub streams: Counter,
    /// Streams that were reset before their response was complete, by clients.
    pub reset_by_clients: Counter,
    /// Streams that were reset here, because the client broke a rule.
    pub reset_here: Counter,
    /// Connections that were ended because the client broke a rule of HTTP/3.
    pub failed: Counter,
    /// Of these, connections that caused too much work, in the order of [`FLOODS`](super::http2::FLOODS).
    pub floods: [Counter; 4],
}

impl Http3Figures {
    /// Notes why a connection has failed.
    pub fn failed(&self, flood: Option<Flood>) {
        self.failed.add();
        if let Some(flood) = flood {
            self.floods[flood_index(flood)].add();
        }
    }
}
