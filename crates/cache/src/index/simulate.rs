//! The eviction policy alone, run over a trace of requests: how many of them would have been hits.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::policy::{Item, MAX_FREQUENCY, Place, Policy};

/// The counts of a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// The number of requests.
    pub requests: u64,
    /// Requests whose object was there.
    pub hits: u64,
    /// Bytes of all requests.
    pub bytes: u64,
    /// Bytes of the requests that were hits.
    pub hit_bytes: u64,
}

impl Hits {
    /// Hits per request, in percent.
    pub fn percent(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.hits as f64 * 100.0 / self.requests as f64 }
    }

    /// Bytes of hits among all bytes, in percent.
    pub fn percent_of_bytes(&self) -> f64 {
        if self.bytes == 0 { 0.0 } else { self.hit_bytes as f64 * 100.0 / self.bytes as f64 }
    }

    fn count(&mut self, size: u64, hit: bool) {
        self.requests += 1;
        self.bytes += size;
        if hit {
            self.hits += 1;
            self.hit_bytes += size;
        }
    }
}

#[derive(Debug)]
struct Object {
    key: u64,
    size: u64,
    frequency: Cell<u8>,
    place: Cell<Place>,
}

impl Item for Rc<Object> {
    fn fingerprint(&self) -> u64 {
        self.key
    }

    fn bytes(&self) -> u64 {
        self.size
    }

    fn frequency(&self) -> u8 {
        self.frequency.get()
    }

    fn set_frequency(&self, frequency: u8) {
        self.frequency.set(frequency.min(MAX_FREQUENCY));
    }

    fn is_gone(&self) -> bool {
        false
    }

    fn place(&self) -> Place {
        self.place.get()
    }

    fn set_place(&self, place: Place) {
        self.place.set(place);
    }
}

/// Runs requests (key and size) through the policy of this cache with a capacity in bytes. Larger objects than that are
/// never stored.
pub fn s3_fifo(trace: impl IntoIterator<Item = (u64, u64)>, capacity: u64) -> Hits {
    let mut policy: Policy<Rc<Object>> = Policy::new(usize::MAX);
    let mut stored: FxHashMap<u64, Rc<Object>> = FxHashMap::default();
    let (mut taken, mut hits) = (0, Hits::default());
    for (key, size) in trace {
        if let Some(object) = stored.get(&key) {
            object.set_frequency(object.frequency() + 1);
            hits.count(size, true);
            continue;
        }
        hits.count(size, false);
        if size > capacity {
            continue;
        }
        while taken + size > capacity {
            let Some(gone) = policy.evict() else { break };
            taken -= gone.size;
            stored.remove(&gone.key);
        }
        let object = Rc::new(Object { key, size, frequency: Cell::new(0), place: Cell::new(Place::None) });
        policy.insert(object.clone());
        stored.insert(key, object);
        taken += size;
    }
    hits
}

/// Runs requests (key and size) through a cache that evicts the object that was not asked for the longest (nginx's
/// way), with a capacity in bytes.
pub fn lru(trace: impl IntoIterator<Item = (u64, u64)>, capacity: u64) -> Hits {
    // Each request is noted with its number; a note that is not the last one of an object means nothing.
    let mut notes: VecDeque<(u64, u64)> = VecDeque::new();
    let mut stored: FxHashMap<u64, (u64, u64)> = FxHashMap::default();
    let (mut taken, mut hits) = (0, Hits::default());
    for (number, (key, size)) in (0_u64..).zip(trace) {
        if let Some((_, last)) = stored.get_mut(&key) {
            *last = number;
            hits.count(size, true);
        } else {
            hits.count(size, false);
            if size > capacity {
                continue;
            }
            while taken + size > capacity {
                let Some((old, note)) = notes.pop_front() else { break };
                if stored.get(&old).is_some_and(|(_, last)| *last == note) {
                    taken -= stored.remove(&old).map_or(0, |(size, _)| size);
                }
            }
            stored.insert(key, (size, number));
            taken += size;
        }
        notes.push_back((key, number));
    }
    hits
}

/// A trace of a site: objects requested by Zipf's law, and now and then a scan over objects that no other request asks
/// for. The same seed makes the same trace.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The number of objects of the working set.
    pub objects: usize,
    /// The exponent of Zipf's law, times 100.
    pub skew: u32,
    /// The number of all requests.
    pub requests: usize,
    /// The number of requests between two scans; 0 for no scans.
    pub scan_every: usize,
    /// The number of objects of a scan.
    pub scan: usize,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Trace {
    /// The usual trace: 100,000 objects, a million requests, a quarter of them in scans.
    pub fn standard() -> Trace {
        Trace { objects: 100_000, skew: 90, requests: 1_000_000, scan_every: 15_000, scan: 5_000, seed: 1 }
    }

    /// The size of an object: between 1 KB and 1 MB, most of them small; a function of the key.
    pub fn size_of(key: u64) -> u64 {
        let bits = mix(key ^ 0x5bd1_e995);
        let doublings = (bits & 0xff) * (bits >> 8 & 0xff) * 10 / (0xff * 0xff);
        (1024 << doublings) + (bits >> 16) % 1024
    }

    /// The size of the working set, in bytes.
    pub fn working_set(&self) -> u64 {
        (0..self.objects as u64).map(Trace::size_of).sum()
    }

    /// The requests: keys and sizes. The keys of the working set are its ranks in order of popularity.
    pub fn requests(&self) -> Vec<(u64, u64)> {
        let skew = f64::from(self.skew) / 100.0;
        let mut sums = Vec::with_capacity(self.objects);
        let mut sum = 0.0;
        for rank in 1..=self.objects {
            sum += (rank as f64).powf(-skew);
            sums.push(sum);
        }
        let mut state = self.seed;
        let mut next_scanned = 1_u64 << 40;
        let mut out = Vec::with_capacity(self.requests);
        while out.len() < self.requests {
            for _ in 0..self.scan_every.max(1) {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let point = (mix(state) >> 11) as f64 / (1_u64 << 53) as f64 * sum;
                let key = sums.partition_point(|sum| *sum < point).min(self.objects.saturating_sub(1)) as u64;
                out.push((key, Trace::size_of(key)));
            }
            if self.scan_every > 0 {
                for _ in 0..self.scan {
                    out.push((next_scanned, Trace::size_of(next_scanned)));
                    next_scanned += 1;
                }
            }
        }
        out.truncate(self.requests);
        out
    }
}

/// Scatters a number (splitmix64).
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
