//! Counters of a cache's use: how requests were answered, and how many bytes were written to and read from its disk.
//!
//! The counters are kept in several parts, so that loops do not take a cache line from each other with every hit.

use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// The way in which a cache has answered a request: nginx's `$upstream_cache_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// The cache had no object.
    Miss,
    /// The cache was not asked (`cache_bypass`).
    Bypass,
    /// The object was stale; the server has answered.
    Expired,
    /// The object was stale, and was used.
    Stale,
    /// The object was stale, and was used while another request asks the server.
    Updating,
    /// The object was stale, and the server said that it has not changed.
    Revalidated,
    /// The response is from the cache.
    Hit,
}

impl CacheStatus {
    /// All values.
    pub const ALL: [CacheStatus; 7] = [
        CacheStatus::Miss,
        CacheStatus::Bypass,
        CacheStatus::Expired,
        CacheStatus::Stale,
        CacheStatus::Updating,
        CacheStatus::Revalidated,
        CacheStatus::Hit,
    ];

    /// nginx's word for the value.
    pub fn word(self) -> &'static str {
        match self {
            CacheStatus::Miss => "MISS",
            CacheStatus::Bypass => "BYPASS",
            CacheStatus::Expired => "EXPIRED",
            CacheStatus::Stale => "STALE",
            CacheStatus::Updating => "UPDATING",
            CacheStatus::Revalidated => "REVALIDATED",
            CacheStatus::Hit => "HIT",
        }
    }
}

/// The number of parts of the counters. More threads than these share some.
const PARTS: usize = 8;

/// The number of seconds that a rate is remembered for; a power of two.
const SECONDS: u64 = 16;
/// The number of whole seconds over which a rate is averaged.
const MEAN: u64 = 10;

/// Counters of one part, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    requests: [AtomicU64; CacheStatus::ALL.len()],
    bytes: [AtomicU64; CacheStatus::ALL.len()],
    stored: [AtomicU64; CacheStatus::ALL.len()],
    stored_bytes: [AtomicU64; CacheStatus::ALL.len()],
}

/// A count of bytes, and their rate.
#[derive(Debug, Default)]
pub struct Flow {
    total: AtomicU64,
    /// For each of the last seconds: the number of the second (upper 24 bits), and its bytes.
    seconds: [AtomicU64; SECONDS as usize],
}

/// The number of bits for a second's bytes.
const BITS: u32 = 40;

impl Flow {
    /// Counts bytes at a time in seconds.
    pub fn add(&self, bytes: u64, now: u64) {
        self.total.fetch_add(bytes, Relaxed);
        let slot = &self.seconds[(now % SECONDS) as usize];
        let stamp = now << BITS;
        let bytes = bytes.min((1 << BITS) - 1);
        // If two threads begin a second at once, the bytes of one may be lost: this is only a rate.
        if slot.load(Relaxed) >> BITS == stamp >> BITS {
            slot.fetch_add(bytes, Relaxed);
        } else {
            slot.store(stamp | bytes, Relaxed);
        }
    }

    /// All bytes so far.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Bytes per second, as the mean over the ten whole seconds before this one.
    pub fn rate(&self, now: u64) -> u64 {
        let of = |second: u64| {
            let slot = self.seconds[(second % SECONDS) as usize].load(Relaxed);
            if slot >> BITS == (second << BITS) >> BITS { slot & ((1 << BITS) - 1) } else { 0 }
        };
        (1..=MEAN).map(|back| of(now.wrapping_sub(back))).sum::<u64>() / MEAN
    }
}

/// The counters of a cache's use.
#[derive(Debug, Default)]
pub struct Usage {
    parts: [Part; PARTS],
    waiting: AtomicUsize,
    /// Bytes of the files that were stored.
    pub written: Flow,
    /// Bytes of the objects in files that requests were answered with, whatever part of them was wanted.
    pub read: Flow,
}

/// A request that waits for an object that another one fetches, counted until this is dropped.
#[derive(Debug)]
pub struct WaitingRequest<'u>(&'u Usage);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let before = self.0.waiting.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a request waits that never began to");
    }
}

/// The part that the calling thread uses.
fn part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: Cell<Option<usize>> = const { Cell::new(None) });
    OWN.with(|own| {
        let number = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed));
        own.set(Some(number));
        number % PARTS
    })
}

impl Usage {
    /// Counts a request's answer. `was` is the value that the same thread counted for the request before: each request
    /// counts once.
    pub fn count(&self, was: Option<CacheStatus>, is: CacheStatus) {
        let counters = &self.parts[part()].requests;
        if let Some(was) = was {
            counters[was as usize].fetch_sub(1, Relaxed);
        }
        counters[is as usize].fetch_add(1, Relaxed);
    }

    /// Number of requests that were answered in this way.
    pub fn answered(&self, how: CacheStatus) -> u64 {
        self.sum(|part| &part.requests[how as usize])
    }

    /// Counts the bytes of a body with which a request was answered in this way, whatever part of them was wanted. They
    /// are the bytes of the object, or the bytes that the server has sent.
    pub fn add_bytes(&self, how: CacheStatus, bytes: u64) {
        self.parts[part()].bytes[how as usize].fetch_add(bytes, Relaxed);
    }

    /// Number of these bytes.
    pub fn bytes(&self, how: CacheStatus) -> u64 {
        self.sum(|part| &part.bytes[how as usize])
    }

    /// Counts that the response to a request that was answered in this way is stored.
    pub fn store(&self, how: CacheStatus) {
        self.parts[part()].stored[how as usize].fetch_add(1, Relaxed);
    }

    /// Counts bytes of the body of such a response.
    pub fn add_stored_bytes(&self, how: CacheStatus, bytes: u64) {
        self.parts[part()].stored_bytes[how as usize].fetch_add(bytes, Relaxed);
    }

    /// Number of responses that were stored, and the bytes of their bodies.
    pub fn stored(&self, how: CacheStatus) -> (u64, u64) {
        (self.sum(|part| &part.stored[how as usize]), self.sum(|part| &part.stored_bytes[how as usize]))
    }

    fn sum(&self, of: impl Fn(&Part) -> &AtomicU64) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.wrapping_add(of(part).load(Relaxed)))
    }

    /// Counts a request as waiting until the returned value is dropped.
    pub fn wait(&self) -> WaitingRequest<'_> {
        self.waiting.fetch_add(1, Relaxed);
        WaitingRequest(self)
    }

    /// The number of requests that wait for objects that others fetch.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_once_whatever_becomes_of_it() {
        let usage = Usage::default();
        usage.count(None, CacheStatus::Miss);
        usage.count(None, CacheStatus::Expired);
        usage.count(Some(CacheStatus::Expired), CacheStatus::Stale);
        std::thread::scope(|scope| {
            scope.spawn(|| usage.count(None, CacheStatus::Stale));
        });
        let counts = CacheStatus::ALL.map(|how| usage.answered(how));
        assert_eq!(counts, [1, 0, 0, 2, 0, 0, 0]);
    }

    #[test]
    fn bytes_are_counted_by_how_they_came() {
        let usage = Usage::default();
        usage.add_bytes(CacheStatus::Hit, 3);
        usage.add_bytes(CacheStatus::Miss, 5);
        usage.store(CacheStatus::Miss);
        usage.add_stored_bytes(CacheStatus::Miss, 4);
        usage.add_stored_bytes(CacheStatus::Miss, 1);
        assert_eq!(CacheStatus::ALL.map(|how| usage.bytes(how)), [5, 0, 0, 0, 0, 0, 3]);
        assert_eq!((usage.stored(CacheStatus::Miss), usage.stored(CacheStatus::Expired)), ((1, 5), (0, 0)));
    }

    #[test]
    fn those_who_wait_are_counted_while_they_wait() {
        let usage = Usage::default();
        let (one, other) = (usage.wait(), usage.wait());
        assert_eq!(usage.waiting(), 2);
        drop((one, other));
        assert_eq!(usage.waiting(), 0);
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let flow = Flow::default();
        let now = 1_900_000_000;
        for second in 0..20 {
            flow.add(500, now + second);
            flow.add(500, now + second);
        }
        assert_eq!(flow.total(), 20_000);
        assert_eq!(flow.rate(now + 20), 1_000);
        assert_eq!(flow.rate(now + 25), 500);
        assert_eq!(flow.rate(now + 100), 0);
    }
}
