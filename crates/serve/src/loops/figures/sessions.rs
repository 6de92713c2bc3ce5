//! Figures of the sessions of stream, of all loops together.

use freerun_runtime::stats::Counter;

/// The statuses that sessions end with.
pub const STATUSES: [u16; 6] = [200, 400, 403, 500, 502, 503];

/// Figures of the sessions of stream.
#[derive(Debug, Default)]
pub struct SessionFigures {
    /// Sessions since the start.
    pub sessions: Counter,
    /// Sessions that are there now.
    pub open: Counter,
    /// Sessions that have ended, by their statuses, in the order of [`STATUSES`].
    pub ended: [Counter; STATUSES.len()],
    /// Bytes from clients, of sessions that have ended.
    pub received: Counter,
    /// Bytes to clients, of sessions that have ended.
    pub sent: Counter,
    /// Datagrams from clients that were lost: there was no room for them, or they could not be passed on.
    pub lost_from_clients: Counter,
    /// Datagrams to clients that were lost: there was no room for them, or they could not be sent.
    pub lost_to_clients: Counter,
}

impl SessionFigures {
    /// Notes that a session has begun.
    pub fn begin(&self) {
        self.sessions.add();
        self.open.add();
    }

    /// Notes that a session has ended.
    pub fn end(&self, status: u16, received: u64, sent: u64) {
        self.open.sub();
        if let Some(place) = STATUSES.iter().position(|known| *known == status) {
            self.ended[place].add();
        }
        self.received.add_n(received);
        self.sent.add_n(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_by_their_ends() {
        let figures = SessionFigures::default();
        (0..3).for_each(|_| figures.begin());
        figures.end(200, 1, 2);
        figures.end(503, 0, 0);
        assert_eq!((figures.sessions.get(), figures.open.get()), (3, 1));
        assert_eq!(figures.ended.each_ref().map(Counter::get), [1, 0, 0, 0, 0, 1]);
        assert_eq!((figures.received.get(), figures.sent.get()), (1, 2));
    }
}
