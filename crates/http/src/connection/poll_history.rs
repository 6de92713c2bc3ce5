//! The polls of a connection's task so far, which say whether bytes may be expected.

use std::cell::Cell;

/// The polls of a connection's task so far.
#[derive(Debug, Default)]
pub struct PollHistory {
    /// Whether the connection has been polled at least once.
    was_polled: Cell<bool>,
    /// Whether the connection had nothing to read when it last waited for a request.
    rested: Cell<bool>,
}

impl PollHistory {
    /// The history of a connection that another loop has had: its first poll was there.
    pub(super) fn of_moved() -> PollHistory {
        PollHistory { was_polled: Cell::new(true), rested: Cell::new(false) }
    }

    /// Whether the connection has been polled at least once.
    #[inline]
    pub fn was_polled(&self) -> bool {
        self.was_polled.get()
    }

    /// Notes that the connection is polled. Returns whether this is the first time.
    #[inline]
    pub fn begin(&self) -> bool {
        !self.was_polled.replace(true)
    }

    /// Notes that the connection waits for a request and has nothing to read, so that an event announces the next one.
    #[inline]
    pub fn rest(&self) {
        debug_assert!(self.was_polled.get(), "the connection has not been polled");
        self.rested.set(true);
    }

    /// Whether an event has announced the first byte of a request: the connection had nothing to read before. Each rest
    /// counts once.
    #[inline]
    pub fn take_rest(&self) -> bool {
        self.rested.take()
    }
}
