//! TLS of listening sockets and of connections to upstream servers, for all services.

pub mod files;
pub mod handshake;
pub mod outgoing;
pub mod server;
pub mod unused;
pub mod values;
mod share;
