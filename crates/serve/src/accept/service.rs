//! A service takes the connections of listening sockets on a loop, such as `http` or another protocol.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_proto::ProxyHeader;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_transport::Transport;

use crate::accept::datagrams::DatagramListener;
use crate::listen::ListenSpec;
use crate::listen::address::Address;
use crate::loops::local::LoopLocal;
use crate::loops::message_boxes::PassedPacket;
use crate::tls::client_facts::TlsFacts;

/// A connection that was just accepted, or that nothing was read from since.
pub struct AcceptedConnection {
    /// The serial number in the worker, `$connection`.
    pub number: u64,
    /// The byte stream. A TLS session may be established on it, if another service has passed it on.
    pub transport: Transport,
    /// The bytes that have been read from it already, which come first.
    pub received: Vec<u8>,
    /// Facts about its TLS, if a session is established.
    pub tls: Option<TlsFacts>,
    /// The address that the connection came from.
    pub peer: Address,
    /// The specification of the listening socket.
    pub listen: LoopLocal<ListenSpec>,
    /// Whether its first bytes may be served at once: it is accepted as the last step of a task's poll, or as one of
    /// several there. Otherwise its task runs soon.
    pub now: bool,
    /// Number of times that it was passed on from one listening socket to another one.
    pub passes: u8,
}

/// A connection without a request, on its way from one loop to another.
pub struct MovingConnection {
    /// The serial number in the worker, `$connection`.
    pub number: u64,
    /// The byte stream, with its session if it has TLS: nothing that came from it waits elsewhere, and nothing that is to be sent.
    pub transport: Transport,
    /// Facts about its TLS.
    pub tls: Option<Box<TlsFacts>>,
    /// The PROXY protocol header before the first request.
    pub proxied: Option<Box<ProxyHeader>>,
    /// The address that the connection came from.
    pub peer: Address,
    /// The specification of the listening socket.
    pub listen: Arc<ListenSpec>,
    /// The moment at which it was accepted.
    pub accepted: Instant,
    /// Number of its requests so far.
    pub requests: u64,
    /// Whether small segments are sent at once (`tcp_nodelay`).
    pub nodelay: bool,
    /// Time for which it is kept without a request.
    pub keep: Duration,
    /// Time for which it may not be asked to close (`keepalive_min_timeout`).
    pub least: Duration,
}

/// Connections that a service gives away.
pub struct GivenConnections {
    /// The connections.
    pub moving: Vec<MovingConnection>,
    /// Whether the last one of all was looked at: the next look begins with the first.
    pub is_round: bool,
}

/// The result of asking an idle connection to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseAnswer {
    /// A connection was asked.
    Asked,
    /// No connection was asked yet: one may be asked from this time on.
    NotBefore(Instant),
    /// No connection was asked, because none is idle.
    NoneIdle,
}

/// A service for connections on one loop. A listening socket names it by [`ListenSpec::service`].
pub trait Service {
    /// The name, as in [`ListenSpec::service`].
    fn name(&self) -> &'static str;

    /// Takes a connection over. It is counted in the loop's [`Admission`](crate::loops::state::admission::Admission)
    /// already; the service reports there when it has ended.
    fn accept(self: Rc<Self>, accepted: AcceptedConnection);

    /// Whether no connection should be accepted from this listening socket for now, because more has been begun than can be
    /// done (handshakes of TLS). Connections wait in the kernel's queue then.
    fn is_busy(&self, _listen: &ListenSpec) -> bool {
        false
    }

    /// Takes datagrams that have come to a listening socket. They are in memory that is lent, so the service copies those that
    /// have to stay; and other tasks have their turn only when it returns.
    fn datagrams<'r>(
        self: Rc<Self>,
        _listener: &Rc<DatagramListener>,
        _received: &mut dyn Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        debug_assert!(false, "{} listens for datagrams, which it does not take", self.name());
    }

    /// Takes a packet of QUIC that another process has read, for a connection of this loop.
    fn passed_packet(self: Rc<Self>, _packet: &PassedPacket<'_>) {}

    /// Notes that no datagrams come from this listening socket any more: its sessions end, so that it can be closed.
    fn end_datagrams(self: Rc<Self>, _listener: &Rc<DatagramListener>) {}

    /// Notes that no datagrams come from this listening socket any more, because the worker is shutting down. Sessions end as
    /// soon as they have the answers that are on their way.
    fn drain_datagrams(self: Rc<Self>, listener: &Rc<DatagramListener>) {
        self.end_datagrams(listener);
    }

    /// Notes that requests use another generation from now on.
    fn renew(self: Rc<Self>);

    /// Closes connections that wait for a further request, because the worker is shutting down. Running requests end, and
    /// the first request of a new connection is still answered.
    fn drain(self: Rc<Self>);

    /// Wakes the tasks of requests that go on, and that end then with their lines in the log. The time of a worker that is
    /// shutting down is up; the [loop's state](crate::loops::state::LoopState::is_cut) says so already.
    fn cut(self: Rc<Self>) {}

    /// Ends the tunnels of requests that began with this generation: their time is up (`worker_shutdown_timeout`).
    fn end_tunnels(self: Rc<Self>, _generation: u64) {}

    /// Since when the connection is idle that [`Service::close_oldest`] would ask, in nanoseconds since the process began.
    fn oldest_idle(&self) -> Option<u64>;

    /// Asks the connection that has been idle longest, of those that may be closed now, to close.
    fn close_oldest(&self) -> CloseAnswer;

    /// Gives away up to `most` connections without a request, of the next few of all: called again, it goes on with others.
    fn give_idle(self: Rc<Self>, _most: usize) -> GivenConnections {
        GivenConnections { moving: Vec::new(), is_round: true }
    }

    /// Takes a connection over from another loop. It is counted already.
    fn adopt(self: Rc<Self>, _moving: MovingConnection) {
        debug_assert!(false, "{} gives no connections away", self.name());
    }

    /// Ends this loop's part in connections that other loops have taken over ([`Silent`](crate::loops::idle_since_accept::Silent)).
    fn release(self: Rc<Self>) {}

    /// Frees memory and descriptors that are kept only for speed, because they have run short.
    fn give_back(&self);
}

/// The message of a panic in a task of a service, for the log.
pub fn words_of_panic(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Makes a service for the loop that it is called on.
pub type MakeService = fn(&Rc<crate::loops::state::LoopState>) -> Rc<dyn Service>;
