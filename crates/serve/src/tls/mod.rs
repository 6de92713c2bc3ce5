//! TLS of listening sockets and of connections to upstream servers, for all services.

mod algorithms;
pub mod challenges;
pub mod computed;
mod facts;
pub mod figures;
pub mod files;
pub mod handshake;
pub mod live;
mod objects;
pub mod ocsp;
pub mod outgoing;
pub mod server;
mod share;
pub mod unused;
pub mod upstream;
pub mod values;
mod words;
