//! Limits of requests and connections.

pub mod limits;
