//! The system's own lookup: `/etc/hosts`, `/etc/resolv.conf` and other sources that it is configured to ask.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use super::MAX_ADDRESSES;

/// Looks a host up, on one of the lookup threads that belong to the thread `names`. It has to be called on that thread
/// ([`thread::run`](super::thread::run)), and takes as long as the system lets it.
///
/// # Errors
/// The host is not found, or no name server could be asked.
pub async fn lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = host.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut addresses: Vec<IpAddr> = Vec::new();
        for found in (host.as_str(), 0).to_socket_addrs()? {
            if addresses.len() < MAX_ADDRESSES && !addresses.contains(&found.ip()) {
                addresses.push(found.ip());
            }
        }
        Ok(addresses)
    })
    .await
    .map_err(io::Error::other)?
}
