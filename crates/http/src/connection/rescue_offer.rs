//! The offer of a connection to the other loops, which take it over if its own loop is late.

use std::cell::Cell;

use freerun_serve::loops::idle_since_accept::IdleSlot;

use super::Connection;

/// The offer of a connection that has sent nothing yet. It stands while another loop may take the connection over, and when
/// one has done so.
#[derive(Debug, Default)]
pub(super) struct RescueOffer {
    slot: Cell<Option<IdleSlot>>,
}

impl<C> Connection<C> {
    /// Lets another loop take the connection over should this one be late. Nothing has come from it yet: neither a byte, nor
    /// the session of a connection that another service has passed on.
    pub fn offer(&self) {
        debug_assert!(self.requests.get() == 0, "the connection has had a request");
        debug_assert!(self.offer.slot.get().is_none(), "a connection is offered once at a time");
        if self.extra.get().is_none() {
            let fd = || self.transport.shared_fd();
            self.offer.slot.set(self.loop_state.silent.enter(self.number, fd, &self.first_peer, &self.listen));
        }
    }

    /// Keeps the connection on this loop from now on. False if another loop has taken it over.
    #[inline]
    pub fn stays(&self) -> bool {
        self.offer.slot.get().is_none_or(|slot| self.withdraw(slot))
    }

    fn withdraw(&self, slot: IdleSlot) -> bool {
        let stays = self.loop_state.silent.leave(slot, self.number);
        if stays {
            self.offer.slot.set(None);
        }
        stays
    }

    /// Whether another loop has taken the connection over.
    pub fn is_taken(&self) -> bool {
        self.offer.slot.get().is_some_and(|slot| self.loop_state.silent.is_taken(slot, self.number))
    }

    /// Leaves the connection to another loop that has taken it over.
    pub fn release(&self) {
        debug_assert!(self.requests.get() == 0, "another loop has a connection with requests");
        if let Some(slot) = self.offer.slot.take() {
            self.transport.disown();
            self.loop_state.silent.forget(slot, self.number);
        }
    }
}
