//! TLS of listening sockets and of connections to upstream servers, for all services.

mod algorithms;
pub mod challenges;
pub mod client_facts;
pub mod computed;
pub mod ech;
mod facts;
pub mod figures;
pub mod files;
#[cfg(test)]
mod fixtures;
pub mod handshake;
pub mod inherited;
pub mod key_log;
pub mod live;
mod objects;
pub mod ocsp;
pub mod outgoing;
mod prepared;
pub mod server;
pub mod sessions;
pub mod settings;
mod share;
pub mod upstream;
pub mod values;
mod words;
