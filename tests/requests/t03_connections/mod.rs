//! Connections of clients: who is there, how long the server waits.

pub mod client_address;
pub mod timeouts;
