//! Free ports for servers under test.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Below the range that Linux takes for outgoing connections (32768 and up), so that no client's socket sits on the port between
/// this check and the server's bind.
const FIRST: u16 = 10_000;
/// Ports that a process takes at a time: see [`claim`].
const BLOCK: u16 = 250;
const BLOCKS: u16 = 88;
/// Most blocks of one process, which leaves some for others that run meanwhile. When all of their ports were given out, the first
/// ones are again.
const MOST: usize = 8;

/// The blocks that are this process's, and which port comes next.
#[derive(Debug, Default)]
struct Claimed {
    /// The first port of each, and what shows other processes that it is taken.
    blocks: Vec<(u16, Option<UnixListener>)>,
    next: usize,
}

/// A port that is free on IPv4 and IPv6 loopback, and that no other caller gets, in this process or in another one that runs tests.
///
/// # Panics
/// When there is none.
pub fn free() -> u16 {
    static CLAIMED: Mutex<Claimed> = Mutex::new(Claimed { blocks: Vec::new(), next: 0 });
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

impl Claimed {
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

/// Takes a block that no process has. Between the look at a port and the server's bind nothing would keep another process, which
/// runs the same tests at the same time, from choosing the same one.
fn claim(have: &[(u16, Option<UnixListener>)]) -> Option<(u16, Option<UnixListener>)> {
    (0..BLOCKS)
        .map(|step| (own() + step) % BLOCKS)
        .filter(|block| have.iter().all(|(first, _)| *first != begin(*block)))
        .find_map(|block| {
            // In the kernel's abstract namespace: it goes with the process, and belongs to the network namespace as ports do.
            let name = SocketAddr::from_abstract_name(format!("freerun-test-ports-{block}")).ok()?;
            Some((begin(block), Some(UnixListener::bind_addr(&name).ok()?)))
        })
}

/// Where this process begins to look for blocks.
fn own() -> u16 {
    (std::process::id().wrapping_mul(37) % u32::from(BLOCKS)) as u16
}

fn begin(block: u16) -> u16 {
    FIRST + block * BLOCK
}

fn is_free(port: u16) -> bool {
    // A machine without IPv6 has nobody there to meet.
    let taken = |error: std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
    TcpListener::bind(("127.0.0.1", port)).is_ok()
        && TcpListener::bind(("::1", port)).map_or_else(|e| !taken(e), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_out_once_and_blocks_are_one_process_s() {
        let mut claimed = Claimed::default();
        let ports: Vec<u16> = (0..usize::from(BLOCK) * 2).map(|_| claimed.next()).collect();
        assert!(ports.iter().all(|port| (FIRST..FIRST + BLOCK * BLOCKS).contains(port)), "{ports:?}");
        let mut once = ports.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ports.len());
        // As another process would see it.
        let mut other = Claimed::default();
        assert!(!ports.contains(&other.next()));
        let first = claimed.blocks[0].0;
        drop(claimed);
        let name = SocketAddr::from_abstract_name(format!("freerun-test-ports-{}", (first - FIRST) / BLOCK));
        assert!(UnixListener::bind_addr(&name.unwrap()).is_ok(), "it is free again");
    }

    #[test]
    fn one_process_does_not_take_them_all() {
        let mut claimed = Claimed::default();
        let first = claimed.next();
        let again = (0..usize::from(BLOCK) * MOST).map(|_| claimed.next()).last();
        assert_eq!((claimed.blocks.len() <= MOST, again), (true, Some(first)));
    }
}
