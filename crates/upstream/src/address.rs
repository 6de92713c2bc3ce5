//! Where an upstream server is.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// The address of an upstream server. Printed as `$upstream_addr` has it: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpstreamAddress {
    /// IPv4 or IPv6.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(Arc<Path>),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Ip(address) => write!(formatter, "{address}"),
            UpstreamAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for UpstreamAddress {
    fn from(address: SocketAddr) -> UpstreamAddress {
        UpstreamAddress::Ip(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_printed_as_nginx_does() {
        for text in ["127.0.0.1:80", "[::1]:8080"] {
            assert_eq!(UpstreamAddress::Ip(text.parse().unwrap()).to_string(), text);
        }
        assert_eq!(UpstreamAddress::Unix(Path::new("/run/a.sock").into()).to_string(), "unix:/run/a.sock");
    }
}
