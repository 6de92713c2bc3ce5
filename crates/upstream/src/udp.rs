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
    /// The number of connections of HTTP/3 for requests.
    connects: AtomicU64,
    /// The number of connections over TCP for requests that would have had HTTP/3.
    fallbacks: AtomicU64,
}

impl UdpReachability {
    /// Whether the server is not to be asked by UDP now.
    pub fn is_closed(&self, now: Millis) -> bool {
        now < self.until.load(Relaxed)
    }

    /// For how long the server is not asked by UDP from now on, in milliseconds.
    pub fn closed_for(&self, now: Millis) -> Millis {
        self.until.load(Relaxed).saturating_sub(now)
    }

    /// Notes that the server could not be reached. Returns for how long it is not asked, in milliseconds; `None`: others have
    /// noted it.
    pub fn close(&self, now: Millis) -> Option<Millis> {
        let until = self.until.load(Relaxed);
        if now < until {
            return None;
        }
        let times = self.times.load(Relaxed);
        let time = FIRST << times.min(DOUBLINGS);
        self.until.compare_exchange(until, now.saturating_add(time), Relaxed, Relaxed).ok()?;
        self.times.store(times.saturating_add(1), Relaxed);
        Some(time)
    }

    /// Notes that the server was reached.
    pub fn open(&self) {
        if self.until.load(Relaxed) != 0 {
            self.until.store(0, Relaxed);
            self.times.store(0, Relaxed);
        }
    }

    /// Counts a new connection for requests that are to have HTTP/3: of QUIC, or over TCP.
    pub fn count(&self, is_quic: bool) {
        let counter = if is_quic { &self.connects } else { &self.fallbacks };
        counter.fetch_add(1, Relaxed);
    }

    /// The number of connections of HTTP/3, and of connections over TCP in their place.
    pub fn connections(&self) -> (u64, u64) {
        (self.connects.load(Relaxed), self.fallbacks.load(Relaxed))
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
            assert_eq!(udp.close(now), Some(seconds * 1000));
            assert_eq!((udp.close(now), udp.closed_for(now + 1000)), (None, (seconds - 1) * 1000));
            now += seconds * 1000;
            assert!(udp.is_closed(now - 1) && !udp.is_closed(now), "{seconds}");
        }
        udp.open();
        udp.close(now);
        assert!(udp.is_closed(now + 9_999) && !udp.is_closed(now + 10_000));
    }
}
