//! The carriers of the toy protocol: a byte stream, and datagrams over a socket pair, as HTTP/3 has them.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use freerun_http::connection::idle::{AwaitedRequest, Keep, Key};
use freerun_http::connection::stream::Stream;
use freerun_http::connection::{CloseRequest, Facts, IdleConnection, IdleSince};
use freerun_http::http_loop::HttpLoop;
use freerun_http::request::generation::ServedBy;
use freerun_http::request::{Address, ClientConnection, ClientStream, ConnectionFacts};
use freerun_runtime::net::udp::{DatagramTarget, Datagrams, SendQueue};

/// The most bytes that a datagram carries here.
const LONGEST: usize = 16 * 1024;

/// The number of datagrams that are received at a time.
const AT_A_TIME: usize = 8;

/// A connection that carries the toy protocol.
pub enum Wire {
    /// A byte stream.
    Bytes(Rc<ClientConnection>),
    /// Datagrams, which are neither lost nor reordered here. An empty datagram ends the connection.
    Datagrams(Rc<DatagramConnection>, Box<Peer>),
}

/// A connection of datagrams, as the list of idle connections knows it.
pub struct DatagramConnection {
    facts: Rc<ConnectionFacts>,
    idle_since: IdleSince,
    close_request: CloseRequest,
    driver: RefCell<Option<Waker>>,
}

impl IdleConnection<ServedBy> for DatagramConnection {
    fn facts(&self) -> &Facts<ServedBy> {
        &self.facts
    }

    fn local(&self) -> Address {
        self.facts.listen.address()
    }

    fn idle_since(&self) -> &IdleSince {
        &self.idle_since
    }

    fn close_request(&self) -> &CloseRequest {
        &self.close_request
    }

    fn wake_to_close(&self) {
        self.driver.borrow().iter().for_each(Waker::wake_by_ref);
    }
}

/// The other end of the datagrams.
pub struct Peer {
    fd: Arc<OwnedFd>,
    socket: Datagrams,
    queue: SendQueue,
}

impl Wire {
    /// Takes over a connected socket of datagrams.
    pub fn of_datagrams(facts: ConnectionFacts, socket: OwnedFd) -> Wire {
        let fd = Arc::new(socket);
        let (facts, idle_since, close_request, driver) =
            (Rc::new(facts), <_>::default(), <_>::default(), <_>::default());
        let connection = DatagramConnection { facts, idle_since, close_request, driver };
        let socket = Datagrams::connected(fd.clone());
        Wire::Datagrams(Rc::new(connection), Box::new(Peer { fd, socket, queue: SendQueue::default() }))
    }

    /// The facts about the connection.
    pub fn facts(&self) -> &ConnectionFacts {
        match self {
            Wire::Bytes(connection) => connection,
            Wire::Datagrams(connection, _) => &connection.facts,
        }
    }

    /// Notes the task that drives the connection.
    pub fn set_driver(&self, context: &Context<'_>) {
        if let Wire::Datagrams(connection, _) = self {
            connection.driver.replace(Some(context.waker().clone()));
        }
    }

    /// Enters the connection among the idle ones.
    pub fn enter_idle(&self, http: &HttpLoop, waiting: AwaitedRequest, keep: Keep) -> Key {
        match self {
            Wire::Bytes(connection) => http.idle.enter(connection, waiting, keep),
            Wire::Datagrams(connection, _) => http.idle.enter(connection, waiting, keep),
        }
    }

    /// Whether the connection was asked to close.
    pub fn is_closing(&self) -> bool {
        match self {
            Wire::Bytes(connection) => connection.is_closing(),
            Wire::Datagrams(connection, _) => connection.close_request.is_made(),
        }
    }

    /// Ends the connection.
    pub fn end(&self) {
        match self {
            Wire::Bytes(connection) => connection.transport.end(),
            // The client may have gone.
            Wire::Datagrams(_, peer) => {
                let _ = rustix::net::send(&*peer.fd, b"", rustix::net::SendFlags::DONTWAIT);
            }
        }
    }

    /// The client of a request with this stream.
    pub fn client(&self, stream: Rc<dyn Stream>) -> ClientStream {
        match self {
            Wire::Bytes(connection) => ClientStream::of_stream(connection.clone(), stream),
            Wire::Datagrams(connection, _) => ClientStream::of_facts(connection.facts.clone(), stream),
        }
    }

    /// Sends the bytes as far as there is room, and removes them.
    pub fn poll_write(&mut self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        match self {
            Wire::Bytes(connection) => {
                while !out.is_empty() {
                    let sent = ready!(connection.transport.poll_write(context, out))?;
                    out.advance(sent);
                }
            }
            Wire::Datagrams(_, peer) => loop {
                while !out.is_empty() && !peer.queue.is_full() {
                    let datagram = out.split_to(out.len().min(LONGEST));
                    assert!(peer.queue.push(DatagramTarget::default(), &datagram, None));
                }
                let mut failed = None;
                let is_done = peer.queue.flush(&peer.socket, |unsent| failed = Some(unsent.error));
                if let Some(error) = failed {
                    return Poll::Ready(Err(error));
                }
                if !is_done {
                    ready!(peer.socket.poll_writable(context))?;
                } else if out.is_empty() {
                    break;
                }
            },
        }
        Poll::Ready(Ok(()))
    }

    /// Appends received bytes. False at the end of the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, input: &mut BytesMut) -> Poll<io::Result<bool>> {
        match self {
            Wire::Bytes(connection) => {
                input.reserve(4096);
                let read = ready!(connection.transport.poll_read_bytes(context, input, usize::MAX))?;
                Poll::Ready(Ok(read > 0))
            }
            Wire::Datagrams(_, peer) => peer.socket.poll_receive(context, AT_A_TIME, |received| {
                let mut goes_on = true;
                for datagram in received.iter() {
                    goes_on &= !datagram.bytes.is_empty();
                    input.extend_from_slice(datagram.bytes);
                }
                goes_on
            }),
        }
    }
}
