//! The system's lookup of names, for hosts whose addresses a configuration needs before it can be used. It may wait, so
//! only the master calls it.

use std::net::{IpAddr, ToSocketAddrs as _};

/// The addresses of a host; none if it was not found.
pub fn lookup(host: &str) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for found in (host, 0).to_socket_addrs().into_iter().flatten() {
        if !addresses.contains(&found.ip()) {
            addresses.push(found.ip());
        }
    }
    addresses
}

/// Whether a host's name has an address.
pub fn has_address(host: &str) -> bool {
    !lookup(host).is_empty()
}
