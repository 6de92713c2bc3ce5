//! Requests that are passed on, and tunnels.

pub mod connection_fields;
pub mod interim_responses;
pub mod proxy_bodies;
pub mod proxy_engine;
pub mod proxy_heads;
pub mod proxy_parts;
pub mod proxy_protocol;
pub mod proxy_tries;
pub mod tunnel_access;
