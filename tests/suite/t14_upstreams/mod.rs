//! Servers behind: groups and their balancing, kept connections, names, health, HTTP/2.

pub mod health;
pub mod resolver;
pub mod upstream_connections;
pub mod upstream_http2;
pub mod upstream_http3;
pub mod upstream_ntlm;
pub mod upstreams;
