//! The state of a connection's sending side.

use std::cell::Cell;

use super::Connection;

/// The part of a request's response that the client has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendStage {
    /// Nothing.
    #[default]
    Nothing,
    /// The response has begun: no other bytes may be sent until its end.
    Begun,
    /// The response has ended: what follows would be taken for the next one.
    Ended,
}

/// The state of a connection's sending side.
#[derive(Debug, Default)]
pub struct SendState {
    stage: Cell<SendStage>,
    /// Whether small segments are sent at once (`tcp_nodelay`).
    has_nodelay: Cell<bool>,
}

impl SendState {
    /// The state of a connection that another loop has had.
    pub(super) fn of_moved(nodelay: bool) -> SendState {
        SendState { stage: Cell::default(), has_nodelay: Cell::new(nodelay) }
    }

    /// Notes that another request begins.
    #[inline]
    pub fn expect_response(&self) {
        self.stage.set(SendStage::Nothing);
    }

    /// Notes that its response is being written from now on.
    #[inline]
    pub fn begin_response(&self) {
        self.stage.set(SendStage::Begun);
    }

    /// Notes that the response has ended.
    #[inline]
    pub fn end_response(&self) {
        self.stage.set(SendStage::Ended);
    }

    /// The part of the response that the client has got.
    pub fn stage(&self) -> SendStage {
        self.stage.get()
    }

    /// Whether small segments are sent at once.
    pub(super) fn has_nodelay(&self) -> bool {
        self.has_nodelay.get()
    }
}

impl<C> Connection<C> {
    /// Sends small segments at once from now on (`tcp_nodelay`).
    pub fn set_nodelay(&self) {
        if !self.sending.has_nodelay.replace(true) && self.listen.ip.is_some() {
            self.transport.set_nodelay();
        }
    }
}
