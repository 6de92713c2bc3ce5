//! TLS of listening sockets and of connections to upstream servers, for all services.

pub mod agreed_session;
mod algorithms;
pub mod challenges;
pub mod client_facts;
pub mod computed;
pub mod ech;
mod facts;
pub mod files;
#[cfg(test)]
mod fixtures;
pub mod handshake;
pub mod inherited_pairs;
pub mod key_log;
pub mod live;
mod objects;
pub mod ocsp;
pub mod server;
pub mod sessions;
pub mod settings;
mod settings_cache;
pub mod upstream;
pub mod values;
mod words;
