//! Connections of clients: where the server listens.

pub mod connections;
pub mod listens;
pub mod quic;
