//! TLS of listening sockets, for all services.

pub mod handshake;
pub mod server;
mod share;
