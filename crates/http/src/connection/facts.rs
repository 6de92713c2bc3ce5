//! The facts about a connection that requests ask for, whatever carries it: a byte stream, or datagrams.

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

use freerun_proto::ProxyHeader;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::Address;
use freerun_serve::limits::ConnPlaces;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::states::States;

/// The properties of a connection that requests ask for, whatever protocol carries it.
///
/// `C` is the part of the configuration that the connection keeps while it answers on it; the request path uses
/// [`ServedBy`](crate::request::generation::ServedBy).
pub struct Facts<C> {
    /// Serial number, `$connection`.
    pub number: u64,
    /// The loop that the connection belongs to.
    pub loop_state: Rc<LoopState>,
    pub(super) origin: Box<ConnectionOrigin<C>>,
}

/// The origin of a connection and the state that it has reached; read through the [`Facts`].
pub struct ConnectionOrigin<C> {
    /// The address that the connection came from first: the client's, or the address of a proxy in front of this server.
    /// Code that wants the client's address uses [`Request::peer`](crate::request::Request::peer).
    pub first_peer: Address,
    /// The specification of the listening socket that accepted it.
    pub listen: LoopLocal<ListenSpec>,
    /// The moment at which it was accepted.
    pub accepted: Instant,
    /// Number of the request that is served, or was served last, from 1.
    pub requests: Cell<u64>,
    /// Data that few connections have.
    pub(super) extra: OnceCell<Box<Extra>>,
    /// The part of the configuration that it keeps while that answers here.
    pub served_by: RefCell<Option<C>>,
}

/// Data that few connections have. Each of them has one or two of these, so what is large and made once stands in a box
/// of its own. An idle connection with TLS does not hold the room for all the others.
#[derive(Default)]
pub(super) struct Extra {
    /// The PROXY protocol header before the first request (`listen … proxy_protocol`).
    pub(super) proxied: OnceCell<Box<ProxyHeader>>,
    /// The address that a client of datagrams connected to, where the socket has several.
    pub(super) local: OnceCell<Box<Address>>,
    /// The facts about the client's TLS (`listen … ssl`).
    pub(super) tls: OnceCell<Box<TlsFacts>>,
    /// The state that modules keep with the connection.
    pub(super) states: OnceCell<Box<States>>,
    /// The places of its request in the counts of limits.
    pub(super) places: Cell<ConnPlaces>,
    /// The bytes that another service has read before it passed the connection on, until they are served.
    pub(super) received: Cell<Vec<u8>>,
    /// Whether another service has passed the connection on.
    pub(super) was_passed_on: Cell<bool>,
}

impl<C> Deref for Facts<C> {
    type Target = ConnectionOrigin<C>;

    #[inline]
    fn deref(&self) -> &ConnectionOrigin<C> {
        &self.origin
    }
}

impl<C> Facts<C> {
    /// The facts of a connection that was just accepted, or of a request that has no connection.
    pub fn new(number: u64, first_peer: Address, listen: LoopLocal<ListenSpec>, loop_state: Rc<LoopState>) -> Facts<C> {
        let accepted = loops::now();
        let (requests, extra) = Default::default();
        let served_by = RefCell::new(None);
        Facts {
            number,
            loop_state,
            origin: Box::new(ConnectionOrigin { first_peer, listen, accepted, requests, extra, served_by }),
        }
    }

    /// The level of the error log that the client has for itself.
    pub fn own_log_level(&self) -> Option<Level> {
        self.loop_state.shared.client_levels.of(&self.origin.first_peer)
    }

    /// Logs a message about the connection, where no request is available.
    pub fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        let generation = self.loop_state.generation();
        generation.error_log.write_about(level, self.own_log_level(), Some(self.number), message);
    }

    /// The address that the client connected to, where the facts know it: without a byte stream nobody else does.
    pub fn local(&self) -> Address {
        let known = self.extra.get().and_then(|extra| extra.local.get());
        known.map_or_else(|| self.listen.address(), |local| Address::clone(local))
    }

    /// Stores the address that the client connected to, where the socket has several; the first one counts.
    pub fn set_local(&self, local: Address) {
        let _ = self.extra.get_or_init(Box::default).local.set(Box::new(local));
    }

    /// The PROXY protocol header, if there was one.
    pub fn proxied(&self) -> Option<&ProxyHeader> {
        self.extra.get()?.proxied.get().map(|header| &**header)
    }

    /// Stores the PROXY protocol header; the first one counts.
    pub fn set_proxied(&self, header: ProxyHeader) {
        let _ = self.extra.get_or_init(Box::default).proxied.set(Box::new(header));
    }

    /// The facts about the client's TLS, once it has sent its ClientHello.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.extra.get()?.tls.get().map(|facts| &**facts)
    }

    /// Stores the facts about the client's TLS, once.
    pub fn set_tls(&self, facts: TlsFacts) {
        let _ = self.extra.get_or_init(Box::default).tls.set(Box::new(facts));
    }

    /// The state of type `T` that a module keeps with the connection, made at first use.
    pub fn state<T: Default + 'static>(&self) -> Rc<T> {
        self.extra.get_or_init(Box::default).states.get_or_init(Box::default).get()
    }

    /// The state of type `T` that a module keeps with the connection, if there is one.
    pub fn find_state<T: 'static>(&self) -> Option<Rc<T>> {
        self.extra.get()?.states.get()?.find()
    }
}
