//! Client connections: their properties, the view that a request has of them, and the idle ones.

pub mod client;
pub mod file_out;
pub mod gone;
pub mod idle;
mod queues;
pub mod stream;
pub mod takeover;
pub mod tunnel_end;

use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::time::Instant;

use freerun_proto::ProxyHeader;
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::Address;
use freerun_serve::accept::loop_listeners;
use freerun_serve::accept::service::MovingConnection;
use freerun_serve::limits::ConnPlaces;
use freerun_serve::listen::ListenSpec;
use freerun_serve::loops::idle_since_accept::IdleSlot;
use freerun_serve::loops::local::LoopLocal;
use freerun_serve::loops::state::LoopState;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_serve::values::states::States;
use freerun_transport::Transport;

use self::idle::Keep;

/// A client connection: its transport, and the properties of it that requests ask for. It lives as long as the
/// connection.
///
/// The struct has two halves of about a hundred bytes each, because those fit the gaps that the allocator leaves behind
/// the runtime's allocations for a connection, which are aligned to 128 bytes. As one struct it cost an idle connection
/// 20 % more memory.
///
/// `C` is the part of the configuration that the connection keeps while it answers on it; the request path uses
/// [`ServedBy`](crate::request::generation::ServedBy).
pub struct Connection<C> {
    facts: Facts<C>,
    /// The byte stream to the client.
    pub transport: Transport,
    /// When the connection became idle the last time, in nanoseconds since the process began.
    pub idle_since: Cell<u64>,
    /// Whether a response is being written: no other bytes may be sent then.
    pub responding: Cell<bool>,
    /// Whether the connection has been polled at least once.
    pub was_polled: Cell<bool>,
    /// Whether the connection had nothing to read when it last waited for a request, so that an event announces the next
    /// one.
    pub rested: Cell<bool>,
    /// Whether its request has places in the counts of limits.
    counted: Cell<bool>,
    close_when_idle: Cell<bool>,
    /// See [`Connection::ends_softly`].
    ends_softly: Cell<bool>,
    nodelay: Cell<bool>,
    /// Set while another loop may take it over, and when one has done so: see [`Connection::offer`].
    offered: Cell<Option<IdleSlot>>,
}

/// A cell with this value, or one that can still be given one.
fn once<T>(value: Option<T>) -> OnceCell<T> {
    value.map(OnceCell::from).unwrap_or_default()
}

/// The properties of a connection that requests ask for, whatever protocol carries it.
pub struct Facts<C> {
    /// Serial number, `$connection`.
    pub number: u64,
    /// The loop that the connection belongs to.
    pub loop_state: Rc<LoopState>,
    origin: Box<ConnectionOrigin<C>>,
}

/// The origin of a connection and the state that it has reached; read through the [`Facts`].
pub struct ConnectionOrigin<C> {
    /// The address that the connection came from: the client's, or that of a proxy in front of this server. Code that
    /// wants the client's address uses [`Request::peer`](crate::request::Request::peer).
    pub peer: Address,
    /// The specification of the listening socket that accepted it.
    pub listen: LoopLocal<ListenSpec>,
    /// When it was accepted.
    pub accepted: Instant,
    /// Number of the request that is served, or was served last, from 1.
    pub requests: Cell<u64>,
    /// Data that few connections have.
    extra: OnceCell<Box<Extra>>,
    /// The part of the configuration that it keeps while that answers here.
    pub served_by: RefCell<Option<C>>,
}

/// Data that few connections have. Each of them has one or two of these, so what is large and made once stands in a box
/// of its own: an idle connection with TLS does not hold the room for all the others.
#[derive(Default)]
struct Extra {
    /// The PROXY protocol header before the first request (`listen … proxy_protocol`).
    proxied: OnceCell<Box<ProxyHeader>>,
    /// What is known of the client's TLS (`listen … ssl`).
    tls: OnceCell<Box<TlsFacts>>,
    /// The state that modules keep with the connection.
    states: OnceCell<Box<States>>,
    /// The places of its request in the counts of limits.
    places: Cell<ConnPlaces>,
    /// The bytes that another service has read before it passed the connection on, until they are served.
    received: Cell<Vec<u8>>,
    /// Whether another service has passed the connection on.
    was_passed_on: Cell<bool>,
}

impl<C> Deref for Connection<C> {
    type Target = Facts<C>;

    #[inline]
    fn deref(&self) -> &Facts<C> {
        &self.facts
    }
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
    pub fn new(number: u64, peer: Address, listen: LoopLocal<ListenSpec>, loop_state: Rc<LoopState>) -> Facts<C> {
        let accepted = loops::now();
        let (requests, extra) = Default::default();
        let served_by = RefCell::new(None);
        Facts {
            number,
            loop_state,
            origin: Box::new(ConnectionOrigin { peer, listen, accepted, requests, extra, served_by }),
        }
    }

    /// The level of the error log that the client has for itself.
    pub fn own_log_level(&self) -> Option<Level> {
        self.loop_state.shared.client_levels.of(&self.origin.peer)
    }

    /// Logs a message about the connection, where no request is available.
    pub fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        let generation = self.loop_state.generation();
        generation.error_log.write_about(level, self.own_log_level(), Some(self.number), message);
    }

    /// The PROXY protocol header, if there was one.
    pub fn proxied(&self) -> Option<&ProxyHeader> {
        self.extra.get()?.proxied.get().map(|header| &**header)
    }

    /// Stores the PROXY protocol header; the first one counts.
    pub fn set_proxied(&self, header: ProxyHeader) {
        let _ = self.extra.get_or_init(Box::default).proxied.set(Box::new(header));
    }

    /// What is known of the client's TLS, if a session was established.
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.extra.get()?.tls.get().map(|facts| &**facts)
    }

    /// Stores what is known of the client's TLS, once.
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

impl<C> Connection<C> {
    /// A connection that was just accepted.
    pub fn new(
        number: u64,
        transport: Transport,
        peer: Address,
        listen: LoopLocal<ListenSpec>,
        loop_state: Rc<LoopState>,
    ) -> Connection<C> {
        Connection {
            facts: Facts::new(number, peer, listen, loop_state),
            transport,
            idle_since: Cell::new(0),
            responding: Cell::new(false),
            was_polled: Cell::new(false),
            rested: Cell::new(false),
            counted: Cell::new(false),
            close_when_idle: Cell::new(false),
            ends_softly: Cell::new(false),
            nodelay: Cell::new(false),
            offered: Cell::new(None),
        }
    }

    /// A connection without a request that another loop has had.
    pub fn moved_here(moving: MovingConnection, loop_state: Rc<LoopState>) -> Connection<C> {
        let MovingConnection { number, transport, tls, proxied, peer, listen, accepted, requests, nodelay, .. } =
            moving;
        let mut connection = Connection::new(number, transport, peer, LoopLocal::new(listen), loop_state);
        connection.facts.origin.accepted = accepted;
        if tls.is_some() || proxied.is_some() {
            let (tls, proxied) = (once(tls), once(proxied));
            connection.facts.origin.extra = OnceCell::from(Box::new(Extra { tls, proxied, ..Extra::default() }));
        }
        connection.requests.set(requests);
        connection.nodelay.set(nodelay);
        connection.was_polled.set(true);
        connection
    }

    /// Lets another loop take the connection over should this one be late, as long as nothing has come from it: neither a byte,
    /// nor the session of a connection that another service has passed on.
    pub fn offer(&self) {
        debug_assert!(
            self.requests.get() == 0 && self.offered.get().is_none(),
            "a connection is offered once at a time"
        );
        if self.extra.get().is_none() {
            let fd = || self.transport.shared_fd();
            self.offered.set(self.loop_state.silent.enter(self.number, fd, &self.peer, &self.listen));
        }
    }

    /// Keeps the connection on this loop from now on. False if another loop has taken it over.
    #[inline]
    pub fn stays(&self) -> bool {
        self.offered.get().is_none_or(|slot| self.withdraw(slot))
    }

    fn withdraw(&self, slot: IdleSlot) -> bool {
        let stays = self.loop_state.silent.leave(slot, self.number);
        if stays {
            self.offered.set(None);
        }
        stays
    }

    /// Whether another loop has taken the connection over.
    pub fn is_taken(&self) -> bool {
        self.offered.get().is_some_and(|slot| self.loop_state.silent.is_taken(slot, self.number))
    }

    /// Leaves the connection to another loop that has taken it over.
    pub fn release(&self) {
        if let Some(slot) = self.offered.take() {
            self.transport.disown();
            self.loop_state.silent.forget(slot, self.number);
        }
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
        let extra = self.facts.origin.extra.take().map(|extra| *extra).unwrap_or_default();
        MovingConnection {
            number: self.number,
            transport: self.transport.taken(),
            tls: extra.tls.into_inner(),
            proxied: extra.proxied.into_inner(),
            peer: self.peer.clone(),
            listen: self.listen.shared(),
            accepted: self.accepted,
            requests: self.requests.get(),
            nodelay: self.nodelay.get(),
            keep: most,
            least,
        }
    }

    /// Notes that another service has passed the connection on, with the bytes that it had read. `tls` is what is known of
    /// its TLS, if it has established a session.
    pub fn passed_on(&self, received: Vec<u8>, tls: Option<TlsFacts>) {
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
        match self.listen.address() {
            Address::Ip(address) if address.ip().is_unspecified() => {
                self.transport.local_address().map_or(Address::Ip(address), Address::Ip)
            }
            address => address,
        }
    }

    /// Asks the connection to close as soon as it has no request.
    ///
    /// Shutting down the receiving side wakes the connection's task as the end of the stream would; bytes that have
    /// come already can still be read. The task of a protocol that has to exchange something with the client before the
    /// end is only woken ([`Connection::ends_softly`]).
    pub fn close_when_idle(&self) {
        self.close_when_idle.set(true);
        if !self.stays() {
            // Its task ends here without that.
            return;
        }
        match self.ends_softly.get() {
            true => self.transport.wake_reader(),
            false => self.transport.shutdown_read(),
        }
    }

    /// Notes that the protocol ends the connection in its own way, when it is asked to [close](Connection::is_closing): its
    /// task, which waits for bytes, is then woken without any.
    pub fn ends_softly(&self) {
        self.ends_softly.set(true);
    }

    /// Whether the connection was asked to close.
    pub fn is_closing(&self) -> bool {
        self.close_when_idle.get()
    }

    /// Keeps the places that the connection's request has in the counts of limits, until [`Connection::free_places`].
    pub fn keep_places(&self, places: ConnPlaces) {
        self.counted.set(true);
        self.extra.get_or_init(Box::default).places.set(places);
    }

    /// Takes the places back that [`Connection::keep_places`] was given.
    pub fn take_places(&self) -> ConnPlaces {
        self.counted.set(false);
        self.extra.get().map_or_else(ConnPlaces::default, |extra| extra.places.take())
    }

    /// Whether the connection's request has places in the counts of limits.
    #[inline]
    pub fn has_places(&self) -> bool {
        self.counted.get()
    }

    /// Frees the places of the connection's request in the counts of limits, if there are any.
    #[inline]
    pub fn free_places(&self) {
        if self.has_places() {
            drop(self.take_places());
        }
    }

    /// Sends small segments at once from now on (`tcp_nodelay`).
    pub fn set_nodelay(&self) {
        if !self.nodelay.replace(true) && self.listen.ip.is_some() {
            self.transport.set_nodelay();
        }
    }
}
