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

/// The addresses of a host that this machine knows without asking another one: in its file of hosts. A host that it does not
/// know has the address of a documentation network (RFC 5737), so that a configuration with its name can be looked at.
pub fn known_here(host: &str) -> Vec<IpAddr> {
    let text = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let found = addresses_in(&text, host);
    if found.is_empty() { vec![IpAddr::from([192, 0, 2, 1])] } else { found }
}

/// The addresses that a file of hosts has for a name.
fn addresses_in(text: &str, host: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    };
    text.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_hosts_has_names_behind_addresses() {
        let text = "127.0.0.1 localhost a # b\n::1\tLOCALHOST\n#192.0.2.7 a\nx a\n";
        let expected: Vec<IpAddr> = vec!["127.0.0.1".parse().expect("an address"), "::1".parse().expect("an address")];
        assert_eq!(addresses_in(text, "localhost"), expected);
        assert_eq!(addresses_in(text, "a").len(), 1);
        assert!(addresses_in(text, "b").is_empty() && addresses_in(text, "127.0.0.1").is_empty());
    }
}
