//! Listening sockets: how one is made, and how loops accept from it.

pub mod accept;
pub mod rescue;
pub mod spec;

pub use spec::{Keepalive, ListenKey, ListenSpec, Protocol};
