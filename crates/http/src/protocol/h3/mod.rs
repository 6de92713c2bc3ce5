//! The driver of HTTP/3 (RFC 9114): the requests of a connection of datagrams at the same time, each as a task of its own.
//!
//! The crate `freerun-quic` knows QUIC, and the machine in [`freerun_proto::h3`] knows the protocol above it; here are the
//! datagrams, the time, and the requests.
//!
//! | file | has |
//! |---|---|
//! | `socket.rs` | a listening socket: which connection a datagram belongs to, and connections that begin |
//! | `handshake.rs` | the choice of a server by the ClientHello, and the server's part of the handshake |
//! | `budget.rs` | what QUIC keeps for clients, of all connections together |
//! | `client.rs` | a connection, as its task and the tasks of its requests share it |
//! | `task.rs` | the task of a connection: events, time, and when it ends |
//! | `receive.rs` | bytes of QUIC streams on their way to the machine, and what the machine makes of them |
//! | `streams.rs` | the streams of a connection, and their halves in QUIC |
//! | `stream.rs` | the stream of one request, as the request path sees it |
//! | `unread_rests.rs` | the rests of requests that were answered before they had come whole |
//! | `words.rs` | lines of the log |

mod budget;
mod client;
mod handshake;
mod receive;
mod socket;
mod stream;
mod streams;
mod task;
mod unread_rests;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use freerun_proto::h3::H3ErrorCode;
use freerun_quic::datagram::Datagram;
use freerun_quic::keys::QuicKeys;
use freerun_runtime::net::udp::ReceivedDatagrams;
use freerun_serve::accept::datagrams::DatagramListener;
use freerun_serve::loops::message_boxes::PassedPacket;

use crate::http_loop::HttpLoop;
use crate::protocol::h3::client::H3Client;
use crate::protocol::h3::socket::QuicSocket;
use crate::protocol::multiplexed::RequestRunners;
use crate::settings::http3::{HostKey, Http3Settings};

pub use task::H3Task;
#[cfg(debug_assertions)]
pub use task::OrderedFault;

/// Starts the task of a connection.
pub type StartConnection = Rc<dyn Fn(u64, H3Task)>;

/// The place where other loops find the driver of a loop.
#[derive(Default)]
struct DriverPlace(RefCell<Weak<H3Driver>>);

/// The state that the connections of HTTP/3 share on a loop.
pub struct H3Driver {
    http: Rc<HttpLoop>,
    /// The futures that serve requests.
    runners: Rc<RequestRunners>,
    start: StartConnection,
    /// The connections at the addresses of the loop's listening sockets, by each of these.
    sockets: RefCell<HashMap<*const DatagramListener, Rc<QuicSocket>>>,
    /// The buffer that all connections write datagrams into.
    output: RefCell<Vec<u8>>,
}

impl H3Driver {
    /// The driver of one loop, whose requests these runners serve. `start` starts the tasks of connections.
    pub fn new(http: Rc<HttpLoop>, runners: Rc<RequestRunners>, start: StartConnection) -> Rc<H3Driver> {
        let (sockets, output) = Default::default();
        let driver = Rc::new(H3Driver { http, runners, start, sockets, output });
        *driver.http.loop_state.modules.get::<DriverPlace>().0.borrow_mut() = Rc::downgrade(&driver);
        driver
    }

    /// Gives datagrams that have come to a listening socket to their connections.
    pub fn take_datagrams<'r>(
        self: &Rc<Self>,
        listener: &Rc<DatagramListener>,
        received: &mut dyn Iterator<Item = ReceivedDatagrams<'r>>,
    ) {
        let Some(socket) = self.socket(listener) else { return };
        socket.begin_turn();
        received.for_each(|one| socket.take(self, one));
    }

    /// Takes a datagram that has come to another loop, for a connection at this address.
    fn take_passed_on(self: &Rc<Self>, name: &str, datagram: Datagram) {
        let socket = self.at(name);
        if let Some(socket) = socket {
            socket.begin_turn();
            socket.take_passed_on(self, datagram);
        }
    }

    /// Takes a packet that another process has read.
    pub fn take_packet(self: &Rc<Self>, packet: &PassedPacket<'_>) {
        match self.at(&packet.address) {
            Some(socket) => socket.take_packet(self, packet),
            None => self.http.loop_state.shared.quic.lost_from_clients.add(),
        }
    }

    /// The driver of a loop, if it has one.
    fn of(http: &HttpLoop) -> Option<Rc<H3Driver>> {
        http.loop_state.modules.get::<DriverPlace>().0.borrow().upgrade()
    }

    /// Ends the connections at the address of a listening socket, which is going to be closed.
    pub fn end_datagrams(&self, listener: &Rc<DatagramListener>) {
        let Some(socket) = self.at(&listener.spec().name) else { return };
        self.sockets.borrow_mut().retain(|_, other| !Rc::ptr_eq(other, &socket));
        socket.clients().iter().for_each(|client| client.close_now(H3ErrorCode::H3_NO_ERROR));
    }

    /// Asks the clients at addresses that the newest configuration does not listen at to begin no further streams.
    pub fn renew(&self) {
        let mut gone: Vec<Rc<QuicSocket>> = self.sockets.borrow().values().cloned().collect();
        gone.retain(|socket| !socket.is_listened_at(self));
        gone.iter().flat_map(|socket| socket.clients()).for_each(|client| client.announce_end());
    }

    /// The connections at the address with this name.
    fn at(&self, name: &str) -> Option<Rc<QuicSocket>> {
        self.sockets.borrow().values().find(|socket| socket.is(name)).cloned()
    }

    /// Asks the clients of all connections to begin no further streams, because the worker is shutting down.
    pub fn drain(&self) {
        self.clients().iter().for_each(|client| client.announce_end());
    }

    /// Sends all clients the number of the last stream of their connection that has begun.
    pub fn finish(&self) {
        self.clients().iter().for_each(|client| client.finish());
    }

    /// All connections.
    fn clients(&self) -> Vec<Rc<H3Client>> {
        let mut sockets: Vec<Rc<QuicSocket>> = self.sockets.borrow().values().cloned().collect();
        sockets.sort_by_key(Rc::as_ptr);
        sockets.dedup_by(|one, other| Rc::ptr_eq(one, other));
        sockets.iter().flat_map(|socket| socket.clients()).collect()
    }

    /// The connections at the address of a listening socket. `None` if there are no keys.
    fn socket(&self, listener: &Rc<DatagramListener>) -> Option<Rc<QuicSocket>> {
        if let Some(socket) = self.sockets.borrow().get(&Rc::as_ptr(listener)) {
            return Some(socket.clone());
        }
        let socket = match self.at(&listener.spec().name) {
            Some(known) => {
                known.add(listener);
                self.sockets.borrow_mut().retain(|listener, socket| socket.has(*listener));
                known
            }
            None => QuicSocket::new(listener.clone(), &self.http.loop_state, self.keys(listener)?)?,
        };
        self.sockets.borrow_mut().insert(Rc::as_ptr(listener), socket.clone());
        Some(socket)
    }

    /// The keys of a listening socket: of its default server's `quic_host_key`, or of the process's secret. They stay as long
    /// as the socket is listened at.
    fn keys(&self, listener: &DatagramListener) -> Option<QuicKeys> {
        let generation = self.http.generation();
        let servers = generation.http.listens.find(&listener.spec())?;
        let settings = servers.servers.default.entry.settings.get::<Http3Settings>();
        let own = settings.quic_host_key.as_ref().map(HostKey::secret);
        let secret = own.unwrap_or(&self.http.loop_state.shared.quic_secret);
        QuicKeys::of(secret.bytes(), &listener.spec().name)
    }
}
