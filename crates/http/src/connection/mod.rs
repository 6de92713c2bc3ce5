//! Client connections: what is known of one, what a request sees of it, and those that are idle.

pub mod client;
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
use freerun_serve::listen::ListenSpec;
use freerun_serve::loop_local::LoopLocal;
use freerun_serve::loop_state::LoopState;
use freerun_transport::Transport;

use crate::message::states::States;

/// A client connection: its transport, and the facts of it that requests ask for. It lives as long as the connection.
///
/// In two halves of about a hundred bytes each, because that is what fits the gaps that the allocator leaves behind the
/// runtime's allocations for a connection, which are aligned to 128 bytes: as one struct it cost an idle connection 20 %
/// more memory.
///
/// `C` is what the connection keeps of the configuration that answers on it; the request path says what that is, in
/// [`ServedBy`](crate::request::generation::ServedBy).
pub struct Connection<C> {
    facts: Facts<C>,
    /// The byte stream to the client.
    pub transport: Transport,
    /// Since when it is idle, or was for the last time: nanoseconds since the process began.
    pub idle_since: Cell<u64>,
    /// Whether a response is being written: nothing else may be sent then.
    pub responding: Cell<bool>,
    /// Whether it was looked at for a first time.
    pub was_polled: Cell<bool>,
    close_when_idle: Cell<bool>,
    nodelay: Cell<bool>,
}

/// What requests ask of the connection that they came on, whatever carries it.
pub struct Facts<C> {
    /// Serial number, `$connection`.
    pub number: u64,
    /// The loop it lives on.
    pub loop_state: Rc<LoopState>,
    origin: Box<Origin<C>>,
}

/// Where a connection comes from and what it has come to; read through the [`Facts`].
pub struct Origin<C> {
    /// The address that the connection came from: the client's, or that of a proxy before us. What asks for the client
    /// asks [`Request::peer`](crate::request::Request::peer).
    pub peer: Address,
    /// How the listening socket that accepted it was made.
    pub listen: LoopLocal<ListenSpec>,
    /// When it was accepted.
    pub accepted: Instant,
    /// Number of the request that is served, or was served last, from 1.
    pub requests: Cell<u64>,
    /// What few connections have.
    extra: OnceCell<Box<Extra>>,
    /// What it keeps of the configuration that answers here.
    pub served_by: RefCell<Option<C>>,
}

/// What few connections have.
#[derive(Default)]
struct Extra {
    /// What the PROXY protocol header before the first request said (`listen … proxy_protocol`).
    proxied: OnceCell<ProxyHeader>,
    /// What modules keep with the connection.
    states: States,
}

impl<C> Deref for Connection<C> {
    type Target = Facts<C>;

    #[inline]
    fn deref(&self) -> &Facts<C> {
        &self.facts
    }
}

impl<C> Deref for Facts<C> {
    type Target = Origin<C>;

    #[inline]
    fn deref(&self) -> &Origin<C> {
        &self.origin
    }
}

impl<C> Facts<C> {
    /// The facts of a connection that was just accepted, or of what stands for one.
    pub fn new(number: u64, peer: Address, listen: LoopLocal<ListenSpec>, loop_state: Rc<LoopState>) -> Facts<C> {
        let accepted = loops::now();
        let (requests, extra) = Default::default();
        let served_by = RefCell::new(None);
        Facts { number, loop_state, origin: Box::new(Origin { peer, listen, accepted, requests, extra, served_by }) }
    }

    /// Logs a message about the connection, where no request is at hand.
    pub fn log(&self, level: Level, message: fmt::Arguments<'_>) {
        let generation = self.loop_state.generation();
        if generation.error_log.enabled(level) {
            generation.error_log.write(level, Some(self.number), message);
        }
    }

    /// What the PROXY protocol header said, where there was one.
    pub fn proxied(&self) -> Option<&ProxyHeader> {
        self.extra.get()?.proxied.get()
    }

    /// Keeps the PROXY protocol header; the first one counts.
    pub fn set_proxied(&self, header: ProxyHeader) {
        let _ = self.extra.get_or_init(Box::default).proxied.set(header);
    }

    /// What a module keeps with the connection, made at first use.
    pub fn state<T: Default + 'static>(&self) -> Rc<T> {
        self.extra.get_or_init(Box::default).states.get()
    }

    /// What a module keeps with the connection, if it does.
    pub fn find_state<T: 'static>(&self) -> Option<Rc<T>> {
        self.extra.get()?.states.find()
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
            close_when_idle: Cell::new(false),
            nodelay: Cell::new(false),
        }
    }

    /// The address the client connected to: the listening one, unless that is a wildcard.
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
    /// Ending the receiving side wakes its task as the end of the stream would; what has come already can still be read.
    pub fn close_when_idle(&self) {
        self.close_when_idle.set(true);
        self.transport.shutdown_read();
    }

    /// Whether it was asked to.
    pub fn is_closing(&self) -> bool {
        self.close_when_idle.get()
    }

    /// Sends small segments at once from now on (`tcp_nodelay`).
    pub fn set_nodelay(&self) {
        if !self.nodelay.replace(true) && self.listen.ip.is_some() {
            self.transport.set_nodelay();
        }
    }
}
