//! The address of an upstream server.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use freerun_conf::text_of_os;

/// The address of an upstream server. It is printed as in `$upstream_addr`: `127.0.0.1:80`, `[::1]:80`, `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpstreamAddress {
    /// An IPv4 or IPv6 address with a port.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(Arc<Path>),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Ip(address) => write!(formatter, "{address}"),
            UpstreamAddress::Unix(path) => write!(formatter, "unix:{}", text_of_os(&**path)),
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
