//! The client's side of a session.

pub mod datagrams;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use freerun_transport::Transport;

use self::datagrams::DatagramSession;

/// The client's side of a session.
#[derive(Debug)]
pub enum ClientSide {
    /// A connected byte stream: TCP or a Unix socket, with TLS or without.
    Stream(Transport),
    /// The datagrams that one client sends to one listening socket, and those that it gets.
    Datagrams(Rc<DatagramSession>),
}

impl ClientSide {
    /// A connected, non-blocking socket whose bytes are not encrypted.
    pub fn plain(socket: OwnedFd) -> ClientSide {
        ClientSide::Stream(Transport::plain(socket))
    }

    /// The byte stream, if it is one.
    pub fn transport(&self) -> Option<&Transport> {
        match self {
            ClientSide::Stream(transport) => Some(transport),
            ClientSide::Datagrams(_) => None,
        }
    }

    /// The datagrams, if it consists of such.
    pub fn datagrams(&self) -> Option<&Rc<DatagramSession>> {
        match self {
            ClientSide::Stream(_) => None,
            ClientSide::Datagrams(datagrams) => Some(datagrams),
        }
    }

    /// The address that the client sends to, if it is an IP address.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match self {
            ClientSide::Stream(transport) => transport.local_address(),
            ClientSide::Datagrams(datagrams) => datagrams.local_address(),
        }
    }

    /// The name of the protocol: `$protocol`.
    pub fn protocol(&self) -> &'static str {
        match self {
            ClientSide::Stream(_) => "TCP",
            ClientSide::Datagrams(_) => "UDP",
        }
    }
}
