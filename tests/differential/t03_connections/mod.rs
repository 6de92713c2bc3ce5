//! Connections of clients: where the server listens, who is there, how long it waits.

pub mod incomplete_requests;
pub mod keepalive;
pub mod realip;
