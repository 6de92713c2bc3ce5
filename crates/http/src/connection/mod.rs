//! Client connections: their properties, the view that a request has of them, and the idle ones.
//!
//! [`Facts`] are what requests ask for. A [`Connection`] is a byte stream with facts, and with a small state for each of
//! the concerns of its driver. The file of a concern has the state and its rules.

pub mod client;
pub mod client_gone;
mod close_request;
mod facts;
pub mod file_out;
pub mod idle;
mod idle_connection;
mod limit_places;
mod migration;
mod poll_history;
mod queues;
mod rescue_offer;
pub(crate) mod send_state;
pub mod stream;
pub mod takeover;
pub mod tunnel_end;

use std::ops::Deref;
use std::rc::Rc;

use freerun_serve::Address;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_transport::Transport;

pub use self::close_request::CloseRequest;
pub use self::facts::{ConnectionOrigin, Facts};
pub use self::idle_connection::{IdleConnection, IdleSince};
pub use self::poll_history::PollHistory;
pub use self::send_state::SendState;

use self::close_request::CloseState;
use self::limit_places::HeldPlaces;
use self::rescue_offer::RescueOffer;

/// A client connection that is a byte stream: its transport, the facts that requests ask for, and the state that its driver
/// keeps. It lives as long as the connection.
///
/// The struct has two halves of about a hundred bytes each. The runtime's allocations for a connection are aligned to 128
/// bytes, and the halves fit the gaps that the allocator leaves behind them. As one struct it cost an idle connection
/// 20 % more memory.
///
/// `C` is the part of the configuration that the connection keeps while it answers on it; the request path uses
/// [`ServedBy`](crate::request::generation::ServedBy).
pub struct Connection<C> {
    facts: Facts<C>,
    /// The byte stream to the client.
    pub transport: Transport,
    /// The moment at which the connection became idle the last time.
    pub idle_since: IdleSince,
    /// The responses that are sent.
    pub sending: SendState,
    /// The polls of its task.
    pub polls: PollHistory,
    places: HeldPlaces,
    closing: CloseState,
    offer: RescueOffer,
}

impl<C> Deref for Connection<C> {
    type Target = Facts<C>;

    #[inline]
    fn deref(&self) -> &Facts<C> {
        &self.facts
    }
}

impl<C> Connection<C> {
    /// A connection that was just accepted.
    pub fn new(
        number: u64,
        transport: Transport,
        peer: Address,
        listen: LoopLocal<ListenSpec>,
        loop_state: Rc<LoopState>,
    ) -> Connection<C> {
        let facts = Facts::new(number, peer, listen, loop_state);
        let (idle_since, sending, polls, places, closing, offer) = Default::default();
        Connection { facts, transport, idle_since, sending, polls, places, closing, offer }
    }

    /// Notes that another service has passed the connection on, with the bytes that it had read. `tls` are the facts about
    /// its TLS, if it has established a session.
    pub fn passed_on(&self, received: Vec<u8>, tls: Option<TlsFacts>) {
        debug_assert!(!self.polls.was_polled(), "the connection is passed on before its task begins");
        let extra = self.extra.get_or_init(Box::default);
        extra.was_passed_on.set(true);
        extra.received.set(received);
        if let Some(tls) = tls {
            self.set_tls(tls);
        }
    }

    /// Whether another service has passed the connection on.
    pub fn was_passed_on(&self) -> bool {
        self.extra.get().is_some_and(|extra| extra.was_passed_on.get())
    }

    /// Takes the bytes that another service has read.
    pub fn take_received(&self) -> Vec<u8> {
        self.extra.get().map(|extra| extra.received.take()).unwrap_or_default()
    }

    /// The address that the client connected to: the listening address, unless that is a wildcard.
    pub fn local(&self) -> Address {
        self.listen.local(|| self.transport.local_address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each idle connection has both halves: a larger one falls out of the gaps of the allocator.
    #[test]
    fn both_halves_of_a_connection_stay_small() {
        // With the two counts of an `Rc`.
        let stream = size_of::<Connection<()>>() + 2 * size_of::<usize>();
        assert!(stream <= 112, "{stream}");
        // The request path keeps a generation and the servers of it.
        let origin = size_of::<ConnectionOrigin<(Rc<()>, Rc<()>)>>();
        assert!(origin <= 112, "{origin}");
    }
}
