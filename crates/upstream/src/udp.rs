//! Whether a server can be reached by UDP, as far as connections of HTTP/3 have found out.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clock::Millis;

/// The time for which a server is not asked by UDP after it could not be reached for the first time, in milliseconds. It doubles
/// with each further time, this often at most.
const FIRST: Millis = 10_000;
const DOUBLINGS: u32 = 5;

/// Whether a server can be reached by UDP. All loops use it.
#[derive(Debug, Default)]
pub struct UdpReachability {
    /// The moment until which it cannot; 0: it can, or nobody has tried.
    until: AtomicU64,
    /// Number of times in a row that it could not be reached.
    times: AtomicU32,
    /// By TCP, the server speaks HTTP/1.1 alone.
    is_sequential: AtomicBool,
}

impl UdpReachability {
    /// Whether the server is not to be asked by UDP now.
    pub fn is_closed(&self, now: Millis) -> bool {
        now < self.until.load(Relaxed)
    }

    /// Notes that the server could not be reached.
    pub fn close(&self, now: Millis) {
        let until = self.until.load(Relaxed);
        if now < until {
            // Others have noted it.
            return;
        }
        let times = self.times.load(Relaxed);
        let next = now.saturating_add(FIRST << times.min(DOUBLINGS));
        if self.until.compare_exchange(until, next, Relaxed, Relaxed).is_ok() {
            self.times.store(times.saturating_add(1), Relaxed);
        }
    }

    /// Notes that the server was reached.
    pub fn open(&self) {
        if self.until.load(Relaxed) != 0 {
            self.until.store(0, Relaxed);
            self.times.store(0, Relaxed);
        }
    }

    /// Whether the server speaks HTTP/1.1 alone by TCP.
    pub fn is_sequential(&self) -> bool {
        self.is_sequential.load(Relaxed)
    }

    /// Notes whether the server speaks HTTP/1.1 alone by TCP.
    pub fn set_sequential(&self, is_sequential: bool) {
        self.is_sequential.store(is_sequential, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_left_alone_for_longer_each_time_until_it_is_reached() {
        let udp = UdpReachability::default();
        let mut now = 1000;
        for seconds in [10, 20, 40, 80, 160, 320, 320] {
            assert!(!udp.is_closed(now));
            udp.close(now);
            udp.close(now);
            now += seconds * 1000;
            assert!(udp.is_closed(now - 1) && !udp.is_closed(now), "{seconds}");
        }
        udp.open();
        udp.close(now);
        assert!(udp.is_closed(now + 9_999) && !udp.is_closed(now + 10_000));
    }
}
