//! The way of a connection without a request from one loop to another.

use std::cell::OnceCell;
use std::rc::Rc;

use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::MovingConnection;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;

use super::Connection;
use super::facts::Extra;
use super::idle::Keep;
use super::poll_history::PollHistory;
use super::send_state::SendState;

/// A cell with this value, or an empty cell.
fn once<T>(value: Option<T>) -> OnceCell<T> {
    value.map(OnceCell::from).unwrap_or_default()
}

impl<C> Connection<C> {
    /// A connection without a request that another loop has had.
    pub fn moved_here(moving: MovingConnection, loop_state: Rc<LoopState>) -> Connection<C> {
        let MovingConnection { number, transport, tls, proxied, peer, listen, accepted, requests, nodelay, .. } =
            moving;
        debug_assert!(requests > 0, "a connection moves after a request");
        let mut connection = Connection::new(number, transport, peer, LoopLocal::new(listen), loop_state);
        connection.facts.origin.accepted = accepted;
        if tls.is_some() || proxied.is_some() {
            let (tls, proxied) = (once(tls), once(proxied));
            connection.facts.origin.extra = OnceCell::from(Box::new(Extra { tls, proxied, ..Extra::default() }));
        }
        connection.requests.set(requests);
        connection.sending = SendState::of_moved(nodelay);
        connection.polls = PollHistory::of_moved();
        connection
    }

    /// Whether another loop may have the connection while it has no request: nothing is kept with it but what
    /// [`Connection::moved_here`] takes over.
    pub fn may_move(&self) -> bool {
        let has_states = self.extra.get().is_some_and(|extra| extra.states.get().is_some());
        // A loop that it was taken over from, and that has not noticed yet, could not take it back.
        let is_shared = self.transport.is_shared();
        !has_states && !self.has_places() && !self.is_closing() && self.requests.get() > 0 && !is_shared
    }

    /// The loop that the connection goes to when its request is answered, if it is to go.
    #[inline]
    pub fn goes_to(&self) -> Option<usize> {
        self.loop_state.shedding.to()?;
        self.goes_somewhere()
    }

    #[cold]
    fn goes_somewhere(&self) -> Option<usize> {
        if self.may_move() { loop_listeners::destination(&self.loop_state) } else { None }
    }

    /// Takes the connection out for another loop, which keeps it so long without a request.
    pub fn moving(&mut self, Keep { most, least }: Keep) -> MovingConnection {
        debug_assert!(self.may_move(), "the connection cannot move");
        let extra = self.facts.origin.extra.take().map(|extra| *extra).unwrap_or_default();
        MovingConnection {
            number: self.number,
            transport: self.transport.taken(),
            tls: extra.tls.into_inner(),
            proxied: extra.proxied.into_inner(),
            peer: self.first_peer.clone(),
            listen: self.listen.shared(),
            accepted: self.accepted,
            requests: self.requests.get(),
            nodelay: self.sending.has_nodelay(),
            keep: most,
            least,
        }
    }
}
