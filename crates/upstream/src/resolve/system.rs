//! The system's own lookup: `/etc/hosts`, `/etc/resolv.conf` and other sources that it is configured to ask.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use tokio::sync::oneshot;

use super::{MAX_ADDRESSES, thread};

/// Looks a host up, on one of the lookup threads that belong to the thread `names`. It has to be called on that thread
/// ([`thread::run`]), and takes as long as the system lets it.
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

/// Looks a host up as [`lookup`] does, for any thread and any loop.
///
/// # Errors
/// The host is not found, no name server could be asked, or the lookup threads could not be started.
pub async fn lookup_elsewhere(host: &str) -> io::Result<Vec<IpAddr>> {
    let host = host.to_owned();
    let (sender, receiver) = oneshot::channel();
    thread::run(move || {
        tokio::task::spawn_local(async move {
            // Nobody waits any more if the answer took too long.
            let _ = sender.send(lookup(&host).await);
        });
    })?;
    receiver.await.map_err(io::Error::other)?
}
