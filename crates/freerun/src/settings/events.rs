//! Directives of the `events` block.

use std::net::IpAddr;
use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Problem, Shape, Value, settings};

/// `use`: the method that waits for events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method;

impl Value for Method {
    const SHAPE: Shape = Shape::exactly(1, "method");

    fn parse(node: &Node, _: &mut Cx) -> Result<Method, Problem> {
        let word = &node.args[0];
        match word.text.as_str() {
            "epoll" => Ok(Method),
            other => Err(Problem::new(format!("invalid event type \"{other}\""))
                .at(word.place)
                .hint("freerun uses epoll; remove the directive or write \"use epoll;\"")),
        }
    }
}

/// `worker_connections`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections(pub u32);

impl Value for Connections {
    const SHAPE: Shape = Shape::exactly(1, "number");

    fn parse(node: &Node, _: &mut Cx) -> Result<Connections, Problem> {
        let word = &node.args[0];
        match word.text.parse() {
            Ok(0) => Err(Problem::new("0 worker_connections are not enough").at(word.place)),
            Ok(number) if word.text.bytes().all(|b| b.is_ascii_digit()) => Ok(Connections(number)),
            _ => Err(Problem::new(format!("invalid number \"{}\"", word.text)).at(word.place)),
        }
    }
}

/// Clients that `debug_connection` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugClient {
    /// A network: address and the length of its prefix.
    Net(IpAddr, u8),
    /// Clients of Unix sockets.
    Unix,
}

impl Value for DebugClient {
    const SHAPE: Shape = Shape::exactly(1, "address | CIDR | unix:");

    fn parse(node: &Node, _: &mut Cx) -> Result<DebugClient, Problem> {
        let word = &node.args[0];
        let unknown = || Problem::new(format!("host not found in debug_connection \"{}\"", word.text)).at(word.place);
        let text = match word.text.as_str() {
            "unix:" => return Ok(DebugClient::Unix),
            "localhost" => "127.0.0.1",
            text => text,
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| unknown())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(length) => length.parse().ok().filter(|length| *length <= most).ok_or_else(unknown)?,
        };
        Ok(DebugClient::Net(address, length))
    }
}

settings! {
    /// The acceptance of connections.
    #[module = "events"]
    pub struct EventSettings {
        /// Most connections that one event loop has open at once, to clients and to others.
        ///
        /// When all loops have this number, the client connection that has been idle longest is closed for a new one.
        /// If none is idle, new ones wait, for two seconds at most. Those that find no room then are closed and logged
        /// as "worker_connections are not enough". `stub_status` counts them as accepted but not handled, `status` and
        /// the `api` count them as `dropped`.
        worker_connections: Connections = "512", in EVENTS,
            fidelity = Differs("where no connection is idle, nginx closes a new one at once");
        /// The method that waits for events.
        #[name = "use"]
        method: Option<Method>, in EVENTS, fidelity = Differs("epoll is the only one");
        /// Whether a loop accepts all waiting connections at once, or one at a time.
        multi_accept: bool = "off", in EVENTS;
        /// Whether the event loops take turns in accepting from a shared socket.
        accept_mutex: bool = "off", in EVENTS;
        /// The longest time for which a loop waits for its turn to accept.
        accept_mutex_delay: Duration = "500ms", in EVENTS,
            fidelity = NoEffect("the turn is handed on without waiting");
        /// Clients whose connections are logged at the level `debug`, whatever `error_log` says.
        debug_connection: Many<DebugClient>, in EVENTS,
            fidelity = NoEffect("set the level of `error_log` to `debug` instead, or have the `api` do so for single clients");
        /// Number of events that a loop takes from the kernel at once.
        epoll_events: u32 = "512", in EVENTS,
            fidelity = NoEffect("a loop takes as many as it has room for");
        /// Number of kernel AIO operations of one worker that may be under way.
        worker_aio_requests: u32 = "32", in EVENTS,
            fidelity = NoEffect("the number follows from the thread pools");
    }
}
