//! Limits of requests and connections.

pub mod request_limits;
