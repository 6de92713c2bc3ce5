//! Free ports for servers under test.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range that Linux takes for outgoing connections (32768 and up), so that no client's socket sits on the port between
/// this check and the server's bind.
const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// A port that is free on IPv4 and IPv6 loopback, and that no other caller in this process gets.
///
/// # Panics
/// When none of the range is free.
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id().wrapping_mul(977) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        let free = TcpListener::bind(("127.0.0.1", port)).is_ok();
        // A machine without IPv6 has nobody there to meet.
        let free6 =
            TcpListener::bind(("::1", port)).map_or_else(|e| e.kind() != std::io::ErrorKind::AddrInUse, |_| true);
        if free && free6 {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
