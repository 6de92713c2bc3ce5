//! Addresses of the ends of a connection.

use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use std::sync::Arc;

/// The address of one end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// IPv4 or IPv6.
    Ip(SocketAddr),
    /// A Unix socket; nginx prints `unix:`, with the path on the server's side. It is empty if there is no client (a
    /// health check).
    Unix(Arc<str>),
}

impl Address {
    /// A number that stands for the address without its port, for sharing a thread pool fairly.
    pub fn key(&self) -> u64 {
        match self {
            Address::Ip(address) => BuildHasherDefault::<DefaultHasher>::default().hash_one(address.ip()),
            Address::Unix(_) => 0,
        }
    }
}

/// A client's address as the logs print it. A request that no client has sent, such as a health check, has an empty
/// one.
pub struct Peer<'a>(pub &'a Address);

impl fmt::Display for Peer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Address::Ip(address) => address.ip().fmt(formatter),
            Address::Unix(name) => formatter.write_str(if name.is_empty() { "" } else { "unix:" }),
        }
    }
}
