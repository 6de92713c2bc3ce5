//! The request to a connection to close as soon as it is idle.

use std::cell::Cell;

use super::Connection;

/// Whether a connection was asked to close as soon as it has no request. It cannot be taken back.
#[derive(Debug, Default)]
pub struct CloseRequest {
    is_made: Cell<bool>,
}

impl CloseRequest {
    /// Asks the connection to close.
    pub(super) fn make(&self) {
        self.is_made.set(true);
    }

    /// Whether the connection was asked to close.
    #[inline]
    pub fn is_made(&self) -> bool {
        self.is_made.get()
    }
}

/// The end of a connection that is a byte stream.
#[derive(Debug, Default)]
pub(super) struct CloseState {
    pub(super) request: CloseRequest,
    /// See [`Connection::ends_softly`].
    is_soft: Cell<bool>,
}

impl<C> Connection<C> {
    /// Notes that the protocol ends the connection in its own way, when it is asked to [close](Connection::is_closing): its
    /// task, which waits for bytes, is then woken without any.
    pub fn ends_softly(&self) {
        debug_assert!(!self.closing.is_soft.get(), "a connection has one protocol that ends it");
        self.closing.is_soft.set(true);
    }

    /// Whether the connection was asked to close.
    #[inline]
    pub fn is_closing(&self) -> bool {
        self.closing.request.is_made()
    }

    /// Wakes the connection's task, because the connection was asked to close.
    ///
    /// Shutting down the receiving side wakes the task as the end of the stream would; bytes that have come already can
    /// still be read. The task of a protocol that has to exchange something with the client before the end is only woken
    /// ([`Connection::ends_softly`]).
    pub(super) fn wake_for_close(&self) {
        if !self.stays() {
            // Its task ends here without that.
            return;
        }
        if self.closing.is_soft.get() { self.transport.wake_reader() } else { self.transport.shutdown_read() }
    }
}
