//! The client's side of a session of datagrams.

use std::net::SocketAddr;

/// The datagrams of one client at one listening socket. No listening socket takes datagrams yet, so there is none.
#[derive(Debug)]
pub enum DatagramSession {}

impl DatagramSession {
    /// The address that the client sends to.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match *self {}
    }
}
