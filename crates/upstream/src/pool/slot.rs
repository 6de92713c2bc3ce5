//! The right to have one exchange (a request and its response) on an upstream connection, which the pool hands out.
//!
//! A connection of HTTP/1, FastCGI and similar protocols carries one exchange at a time: its one slot is the connection
//! itself, as an [`Exclusive`]. A connection of a protocol with streams carries several, and has as many slots: each is
//! a [`SharedSlot`]. The connection stays in the pool, whether it is used or not.
//!
//! | | [`Exclusive`] | [`SharedSlot`] |
//! |---|---|---|
//! | made | [`Exclusive::new`], of a byte stream | [`Pool::share`](super::Pool::share), of a [`MultiplexedConnection`] connection |
//! | acquired | the connection leaves the pool | the connection has one slot less for others |
//! | released, when the exchange has ended cleanly | the connection is in the pool again | others may have the slot |
//! | dropped, however the exchange stands | the connection is closed | as released: the protocol decides about its stream |
//! | on another loop | moves there | is never handed out there: its driving task stays on its own loop |

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use freerun_runtime::loops;
use freerun_transport::Transport;

use super::keepalive::{KeepAlive, Scope};
use super::new_connection::{self, WaitingRequests};

/// The right to have one exchange on a connection.
#[derive(Debug)]
pub enum ExchangeSlot {
    /// The whole of a connection that carries one exchange at a time.
    Exclusive(Exclusive),
    /// A share of a connection that carries several exchanges at a time.
    Shared(SharedSlot),
}

impl ExchangeSlot {
    /// The connection, if the slot has it for itself. A caller that asks with the scope of a protocol that carries one
    /// exchange at a time always gets this kind.
    #[inline]
    pub fn exclusive(self) -> Option<Exclusive> {
        match self {
            ExchangeSlot::Exclusive(connection) => Some(connection),
            ExchangeSlot::Shared(_) => None,
        }
    }

    /// The slot as part of a shared connection, if it is one.
    pub fn shared(self) -> Option<SharedSlot> {
        match self {
            ExchangeSlot::Exclusive(_) => None,
            ExchangeSlot::Shared(part) => Some(part),
        }
    }
}

impl From<Exclusive> for ExchangeSlot {
    #[inline]
    fn from(connection: Exclusive) -> ExchangeSlot {
        ExchangeSlot::Exclusive(connection)
    }
}

impl From<SharedSlot> for ExchangeSlot {
    fn from(part: SharedSlot) -> ExchangeSlot {
        ExchangeSlot::Shared(part)
    }
}

/// A connection that carries one exchange at a time, and the right to that one.
#[derive(Debug)]
pub struct Exclusive {
    /// The byte stream to the server.
    pub transport: Transport,
    /// The scope in which the connection may be used again.
    pub scope: Scope,
    /// Moment at which the connection was made, in [`loops::nanos`].
    pub since: u64,
    /// Number of requests on the connection, the present one included.
    pub requests: u64,
}

impl Exclusive {
    /// A new connection, for its first request.
    pub fn new(transport: Transport, scope: Scope) -> Exclusive {
        Exclusive { transport, scope, since: loops::nanos(), requests: 1 }
    }
}

/// A connection that carries several exchanges at a time. Dropping it closes it; the pool does so when the connection
/// is over and no longer used.
///
/// It is used only on the loop that has shared it. Its methods must not wait, because a list is locked meanwhile.
pub trait MultiplexedConnection: Any + Send + Sync {
    /// The most exchanges that it carries at a time, as the server allows now. 0: it takes no new exchange any more,
    /// because the server is closing it, or it is broken.
    fn streams(&self) -> usize;
}

/// A shared connection as the pool holds it.
pub(super) struct Carrier {
    connection: Box<dyn MultiplexedConnection>,
    /// Queue of the requests that find no slot here.
    place: WaitingRequests,
    /// The number of the loop that uses the connection; `None`: it was shared on a thread that is no loop.
    loop_index: Option<usize>,
    /// The time of its end, how long it may be unused, and how many requests it may serve: from [`KeepAlive`].
    end: u64,
    timeout: u64,
    most_requests: u64,
    /// Number of unused connections of its group that the loop keeps.
    most_unused: usize,
    /// Number of exchanges that the connection carries now.
    used: AtomicUsize,
    /// Number of exchanges that the connection has carried in all.
    requests: AtomicU64,
    /// Moment at which the last exchange ended.
    unused_since: AtomicU64,
}

impl Carrier {
    /// Makes a carrier for a connection, with its first slot.
    pub(super) fn new(
        connection: impl MultiplexedConnection,
        place: WaitingRequests,
        settings: &KeepAlive,
    ) -> (Arc<Carrier>, SharedSlot) {
        let now = loops::nanos();
        let carrier = Arc::new(Carrier {
            connection: Box::new(connection),
            place,
            loop_index: loops::index(),
            end: now.saturating_add(loops::nanos_of(settings.time)),
            timeout: loops::nanos_of(settings.timeout),
            most_requests: settings.requests,
            most_unused: settings.connections,
            used: AtomicUsize::new(1),
            requests: AtomicU64::new(1),
            unused_since: AtomicU64::new(now),
        });
        let first = SharedSlot(carrier.clone());
        (carrier, first)
    }

    /// Whether a request of this scope on this loop would find a slot here, or find that the connection is over.
    pub(super) fn offers(&self, scope: Scope) -> bool {
        self.place.scope == scope && self.loop_index == loops::index() && {
            let streams = self.connection.streams();
            streams == 0 || self.used.load(Relaxed) < streams
        }
    }

    /// Number of slots that a request of this scope on this loop would find here.
    pub(super) fn free(&self, scope: Scope) -> usize {
        if self.offers(scope) { self.connection.streams().saturating_sub(self.used.load(Relaxed)) } else { 0 }
    }

    /// Acquires a slot, if one is free.
    pub(super) fn acquire(self: &Arc<Carrier>, now: u64) -> Option<SharedSlot> {
        if self.is_over(now) || self.used.load(Relaxed) >= self.connection.streams() {
            return None;
        }
        debug_assert!(self.loop_index == loops::index(), "a connection is used on another loop");
        self.used.fetch_add(1, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        Some(SharedSlot(self.clone()))
    }

    /// Whether the connection is used.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Relaxed) > 0
    }

    /// Number of unused connections of its group that the loop keeps.
    pub(super) fn most_unused(&self) -> usize {
        self.most_unused
    }

    /// Moment at which the connection was used last.
    pub(super) fn unused_since(&self) -> u64 {
        self.unused_since.load(Relaxed)
    }

    /// Whether the pool should drop the connection. Exchanges that run on it go on.
    pub(super) fn is_over(&self, now: u64) -> bool {
        self.connection.streams() == 0
            || now >= self.end
            || self.requests.load(Relaxed) >= self.most_requests
            || (!self.is_used() && now.saturating_sub(self.unused_since()) >= self.timeout)
    }
}

/// A share of a connection that carries several exchanges at a time. Dropping it releases the slot.
pub struct SharedSlot(Arc<Carrier>);

impl SharedSlot {
    /// The scope of the connection.
    pub(super) fn scope(&self) -> Scope {
        self.0.place.scope
    }

    /// The connection, if it is of this type: the caller knows that from the scope.
    pub fn connection<C: MultiplexedConnection>(&self) -> Option<&C> {
        let connection: &dyn Any = &*self.0.connection;
        connection.downcast_ref()
    }
}

impl fmt::Debug for SharedSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Shared({} of {})", self.0.used.load(Relaxed), self.0.connection.streams())
    }
}

impl Drop for SharedSlot {
    fn drop(&mut self) {
        self.0.unused_since.store(loops::nanos(), Relaxed);
        let before = self.0.used.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a slot is released twice");
        new_connection::freed(&self.0.place);
    }
}
