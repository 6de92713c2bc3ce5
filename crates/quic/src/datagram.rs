//! A datagram that was received.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint, Endpoint};

/// A datagram that was received.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// The bytes.
    pub bytes: BytesMut,
    /// The sender.
    pub from: SocketAddr,
    /// The address of this machine that it was sent to, if the socket has several.
    pub to: Option<IpAddr>,
    /// The ECN bits of its IP header.
    pub ecn: u8,
}

impl Datagram {
    /// Gives the datagram to an endpoint.
    pub(crate) fn give(self, endpoint: &mut Endpoint, now: Instant, output: &mut Vec<u8>) -> Option<DatagramEvent> {
        endpoint.handle(now, self.from, self.to, EcnCodepoint::from_bits(self.ecn), self.bytes, output)
    }
}
