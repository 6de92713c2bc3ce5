//! Free ports for servers under test.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// The first port, below the range that Linux takes for outgoing connections (32768 and up), so that no client's socket
/// uses the port between this check and the server's bind.
const FIRST: u16 = 10_000;
/// The number of ports that a process takes at a time: see [`claim`].
const BLOCK: u16 = 250;
const BLOCKS: u16 = 88;
/// The most blocks of one process, which leaves some for others that run meanwhile. When all of their ports were used,
/// they are used again from the first one on.
const MOST: usize = 8;

/// The blocks that this process has, and the next port.
#[derive(Debug, Default)]
struct PortBlocks {
    /// The first port of each block, and the socket that shows other processes that the block is taken.
    blocks: Vec<(u16, Option<UnixListener>)>,
    next: usize,
}

/// A port that is free on IPv4 and IPv6 loopback. No other caller gets it, in this process or in another process that
/// runs tests.
///
/// # Panics
/// There is no free port.
pub fn free() -> u16 {
    static CLAIMED: Mutex<PortBlocks> = Mutex::new(PortBlocks { blocks: Vec::new(), next: 0 });
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..usize::from(BLOCK) * MOST {
        let port = claimed.next();
        // Temporary folders have the process's number in their names: a test that looks for its port must not find it there.
        if u32::from(port) != std::process::id() && is_free(port) {
            return port;
        }
    }
    panic!("no free port in {:?}", claimed.blocks);
}

impl PortBlocks {
    fn next(&mut self) -> u16 {
        let block = self.next / usize::from(BLOCK);
        if block == self.blocks.len() {
            match claim(&self.blocks) {
                Some(claimed) => self.blocks.push(claimed),
                // With more processes than blocks, ports have to be shared.
                None if self.blocks.is_empty() => self.blocks.push((begin(own()), None)),
                None => self.next = 0,
            }
        }
        let (first, _) = self.blocks[self.next / usize::from(BLOCK)];
        let port = first + (self.next % usize::from(BLOCK)) as u16;
        self.next = (self.next + 1) % (usize::from(BLOCK) * MOST);
        port
    }
}

/// Takes a block that no process has. Otherwise, between the look at a port and the server's bind, another process that
/// runs the same tests could choose the same port.
fn claim(have: &[(u16, Option<UnixListener>)]) -> Option<(u16, Option<UnixListener>)> {
    (0..BLOCKS)
        .map(|step| (own() + step) % BLOCKS)
        .filter(|block| have.iter().all(|(first, _)| *first != begin(*block)))
        .find_map(|block| {
            // The name is in the kernel's abstract namespace: it goes with the process, and belongs to the network
            // namespace as ports do.
            let name = SocketAddr::from_abstract_name(format!("freerun-test-ports-{block}")).ok()?;
            Some((begin(block), Some(UnixListener::bind_addr(&name).ok()?)))
        })
}

/// The block at which this process begins to look.
fn own() -> u16 {
    (std::process::id().wrapping_mul(37) % u32::from(BLOCKS)) as u16
}

fn begin(block: u16) -> u16 {
    FIRST + block * BLOCK
}

fn is_free(port: u16) -> bool {
    // On a machine without IPv6 the port cannot be taken there.
    let taken = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    TcpListener::bind(("127.0.0.1", port)).is_ok()
        && TcpListener::bind(("::1", port)).map_or_else(|e| !taken(e), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_out_once_and_blocks_are_one_process_s() {
        let mut claimed = PortBlocks::default();
        let ports: Vec<u16> = (0..usize::from(BLOCK) * 2).map(|_| claimed.next()).collect();
        assert!(ports.iter().all(|port| (FIRST..FIRST + BLOCK * BLOCKS).contains(port)), "{ports:?}");
        let mut once = ports.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ports.len());
        // This is the view of another process.
        let mut other = PortBlocks::default();
        assert!(!ports.contains(&other.next()));
        let first = claimed.blocks[0].0;
        drop(claimed);
        let name = SocketAddr::from_abstract_name(format!("freerun-test-ports-{}", (first - FIRST) / BLOCK));
        assert!(UnixListener::bind_addr(&name.unwrap()).is_ok(), "it is free again");
    }

    #[test]
    fn one_process_does_not_take_them_all() {
        let mut claimed = PortBlocks::default();
        let first = claimed.next();
        let again = (0..usize::from(BLOCK) * MOST).map(|_| claimed.next()).last();
        assert_eq!((claimed.blocks.len() <= MOST, again), (true, Some(first)));
    }
}
