//! QUIC connections as bytes and values (RFC 9000, RFC 9001): no sockets, and no clock of its own.
//!
//! `quinn-proto` knows the protocol. This crate adds the parts that a server with several loops needs
//! ([design page](../../../docs/design/0047-quic.md)):
//!
//! | module | holds |
//! |---|---|
//! | [`connection_id`] | connection IDs that name the loop and the place of their connection |
//! | [`packet`] | the part of a packet that every version of QUIC has, by which datagrams find their connection |
//! | [`hello`] | the ClientHello in a client's first packets, before there is a connection |
//! | [`keys`] | the keys of a server: for connection IDs, address tokens and stateless resets |
//! | `congestion` | congestion control, with a bound by the round trip |
//! | [`settings`] | the settings of connections |
//! | [`datagram`] | a datagram that was received |
//! | [`pending`] | a connection whose client has sent its first datagram |
//! | [`client`] | connections of this side to a server |
//! | [`connection`] | a connection: datagrams and time go in; datagrams, events and bytes of streams come out |
//! | [`send_window`] | the bytes that QUIC keeps for a peer, and their bound |
//! | [`http3`] | the streams of a connection and the machine of HTTP/3 above them |
//!
//! Each connection has an endpoint of its own of the library. So a connection is one value, which may go to another
//! thread for a long step of its handshake while the loop serves all others.

pub mod client;
mod congestion;
pub mod connection;
pub mod connection_id;
mod cubic;
pub mod datagram;
pub mod hello;
pub mod http3;
pub mod keys;
pub mod packet;
pub mod pending;
pub mod send_window;
pub mod settings;

pub use quinn_proto::{ConnectError, Dir, ServerConfig, StreamId, Transmit, VarInt};

#[cfg(test)]
mod tests;
