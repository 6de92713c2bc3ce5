//! Connections of clients: where the server listens, who is there, how long it waits.

pub mod client_address;
pub mod connections;
pub mod listens;
pub mod timeouts;
