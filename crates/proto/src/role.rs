//! The sides of a connection of HTTP/2 or HTTP/3.

/// Which side of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The server, which answers requests.
    Server,
    /// The client, which sends requests.
    Client,
}
