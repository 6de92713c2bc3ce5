//! The leases of a node on the requests of a `limit_req_zone` that several nodes share.
//!
//! The bucket of a key stands in the engine. A node takes requests out of it ahead of their use: a lease on some, for a short time.
//! Requests are judged by the leases in memory. When a lease runs short, the node asks for another one, beside the requests.
//!
//! A key without a lease has a credit of one request, which the next lease is charged with. Further requests wait a short time for
//! the lease, but never when answers are late: see [`Leases::needs_answer`]. The engine says when a full bucket will have room
//! again. Until then requests with the key are refused, and cost the engine nothing.
//!
//! So in a time t all nodes together admit at most `rate * (t + T) + burst` requests, and the credit that is not charged yet. T is
//! [`SHORTEST_BURST`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use freerun_tls::digest::sha256;
use tokio::sync::Notify;

use super::bucket::{Bucket, BucketState, Judgement, MAX_EXCESS, update};
use super::key::Hasher;
use super::key_table::{KeyPlace, KeyTable};

/// The words of a key: its lease, its bucket as this node sees it, its credit, and the time of its last use.
const WORDS: usize = 4;

/// The bytes of a key, with its tag.
pub const LEASE_SIZE: u64 = 8 * (WORDS as u64 + 1);

/// The time after which a lease ends, in milliseconds. What is left of it is given back, or lost.
const LEASE: u32 = 500;

/// The engine counts with a burst of at least the requests of this time, so that leases have some size in zones without a burst.
pub const SHORTEST_BURST: Duration = Duration::from_millis(100);

/// The most keys that wait for the engine. Those beyond have only their credit until there is room.
const WAITING: usize = 8192;

/// A time in which each bucket is empty, in milliseconds.
const LONG: u32 = u32::MAX / 4;

/// The largest lease.
const MAX_LEASE: u64 = 1000;

/// The most requests on credit that a lease is charged with.
const MAX_CREDIT: u16 = 0x3fff;

/// The most requests of a zone that wait for a lease at a time. Those beyond are judged at once.
const WAITERS: usize = 1024;

/// The number of waits in vain in a row after which no request waits, until there is an answer.
const VAIN_WAITS: usize = 3;

/// The decision of a node that has no engine (`alone`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LimitAlone {
    /// The rate and the burst are this node's alone.
    Local,
    /// The node has its share: the rate and the burst, divided by the number of nodes that lived last.
    #[default]
    Share,
    /// All requests with a key are refused.
    Refuse,
}

impl LimitAlone {
    /// All values, with the words of the configuration.
    pub const ALL: [(&'static str, LimitAlone); 3] =
        [("local", LimitAlone::Local), ("share", LimitAlone::Share), ("refuse", LimitAlone::Refuse)];

    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        LimitAlone::ALL.into_iter().find(|(_, alone)| *alone == self).map_or("", |(name, _)| name)
    }
}

/// A zone that nodes share.
#[derive(Debug, Clone)]
pub struct SharedLimit {
    /// The leases.
    pub leases: Arc<Leases>,
    /// The rate in thousandths of a request a second.
    pub rate: u64,
}

/// The zones of a configuration that nodes share. It lives in the configuration's context, and is a part of its generation then.
#[derive(Debug, Clone, Default)]
pub struct SharedLimits {
    /// The zones by their names.
    pub zones: BTreeMap<Arc<str>, SharedLimit>,
    /// For each zone that a location names, the largest burst, in thousandths of a request.
    pub bursts: BTreeMap<Arc<str>, u64>,
}

/// A key that needs a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRequest {
    /// Its place in the table.
    pub place: KeyPlace,
    /// The digest of the key (SHA-256).
    pub digest: [u8; 32],
}

/// The needs of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseDemand {
    /// The requests that were admitted on credit, less the unused requests of a lease that has ended.
    pub used: i64,
    /// The requests that are wanted.
    pub wanted: u64,
}

/// The answer of the engine for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The requests that are granted.
    pub granted: u64,
    /// The time until the bucket would have been empty before they were granted, in microseconds.
    pub before: u64,
}

/// A lease in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lease {
    /// The requests that are left.
    left: u16,
    /// The size of the last lease.
    size: u16,
    /// The time at which it ends.
    end: u32,
}

impl Lease {
    fn of(word: u64) -> Lease {
        Lease { left: (word >> 48) as u16, size: (word >> 32) as u16, end: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.left) << 48 | u64::from(self.size) << 32 | u64::from(self.end)
    }
}

/// A credit in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credit {
    /// The key waits for the engine.
    is_waiting: bool,
    /// The engine has said that the bucket is full until then.
    is_denied: bool,
    /// The requests that were admitted and not charged yet.
    used: u16,
    /// The time until which nothing is admitted on credit.
    until: u32,
}

impl Credit {
    fn of(word: u64) -> Credit {
        Credit {
            is_waiting: word >> 63 != 0,
            is_denied: word >> 62 & 1 != 0,
            used: (word >> 32) as u16,
            until: word as u32,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.is_waiting) << 63
            | u64::from(self.is_denied) << 62
            | u64::from(self.used) << 32
            | u64::from(self.until)
    }
}

/// Whether a time is before another one. Both are milliseconds that may wrap around.
fn is_before(time: u32, other: u32) -> bool {
    other.wrapping_sub(time).cast_signed() > 0
}

/// Changes a word; the value before.
fn change(word: &AtomicU64, mut to: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
    // A thread that interferes has made progress, so that this ends.
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, &mut to).ok()
}

/// The leases of a zone.
#[derive(Debug)]
pub struct Leases {
    table: KeyTable<WORDS>,
    began: Instant,
    waiting: ArrayQueue<LeaseRequest>,
    /// Rings when a key waits.
    pub bell: Notify,
    alone: LimitAlone,
    /// There is no credit.
    is_strict: bool,
    /// The largest burst of a location, in thousandths of a request.
    burst: AtomicU64,
    /// The number of nodes that live; 0: this one is alone, without its engine.
    nodes: AtomicUsize,
    /// The number of nodes that lived last.
    last_nodes: AtomicUsize,
    /// The requests that wait for a lease.
    waiters: AtomicUsize,
    /// The waits in vain since the last answer.
    vain_waits: AtomicUsize,
    /// The keys that found no place among those that wait.
    left_out: AtomicU64,
}

impl Leases {
    /// A table for as many keys as `size` bytes hold; `is_strict`: no request is admitted without a lease. `None` if there is not
    /// enough memory.
    pub fn new(size: u64, alone: LimitAlone, is_strict: bool) -> Option<Leases> {
        Some(Leases {
            table: KeyTable::new(size, Hasher::default())?,
            began: Instant::now(),
            waiting: ArrayQueue::new(WAITING),
            bell: Notify::new(),
            alone,
            is_strict,
            burst: AtomicU64::new(0),
            nodes: AtomicUsize::new(0),
            last_nodes: AtomicUsize::new(1),
            waiters: AtomicUsize::new(0),
            vain_waits: AtomicUsize::new(0),
            left_out: AtomicU64::new(0),
        })
    }

    /// The present time for the functions below, in milliseconds.
    pub fn now(&self) -> u32 {
        self.began.elapsed().as_millis() as u32
    }

    /// Notes how many nodes live; 0: the engine is away.
    pub fn set_nodes(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Relaxed);
        if nodes > 0 {
            self.last_nodes.store(nodes, Ordering::Relaxed);
        }
    }

    /// Notes the largest burst that a location has for the zone, in thousandths of a request.
    pub fn set_burst(&self, burst: u64) {
        self.burst.store(burst, Ordering::Relaxed);
    }

    /// Whether no request is admitted without a lease.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Whether the node judges without its engine.
    pub fn is_alone(&self) -> bool {
        self.nodes.load(Ordering::Relaxed) == 0
    }

    /// The number of keys that wait for the engine.
    pub fn pending(&self) -> usize {
        self.waiting.len()
    }

    /// The number of times that a key found no place among those that wait.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Counts a request with this key, unless it is refused. `bucket` is what the location says.
    pub fn count(&self, key: &[u8], now: u32, bucket: Bucket) -> Judgement {
        let place = self.table.place(key);
        // Another thread was changing the set for too long: a request is not refused for that.
        let Some(([lease, state, credit, _], _)) = self.table.entry(place, now, fresh(now)) else {
            return Judgement::Within(0);
        };
        let nodes = self.nodes.load(Ordering::Relaxed);
        if nodes == 0 {
            return self.count_alone(state, now, bucket);
        }
        let excess = BucketState::of(state.load(Ordering::Relaxed)).with_one_more(now, bucket.rate);
        if self.is_beyond(excess, bucket) {
            return Judgement::Beyond(excess);
        }
        let token = take(lease, now);
        if token.is_none() && self.is_strict && self.are_answers_late() {
            return self.count_alone(state, now, bucket);
        }
        if token.is_none() && (self.is_strict || !lend(credit, now, bucket.rate, nodes)) {
            return Judgement::Beyond(excess.max(bucket.burst.saturating_add(1)));
        }
        if token.is_none_or(|token| token.left <= token.size / 4) {
            self.await_answer(place, key, credit);
        }
        let unlimited = Bucket { rate: bucket.rate, burst: MAX_EXCESS };
        let (Judgement::Within(excess) | Judgement::Beyond(excess)) = update(state, now, unlimited);
        Judgement::Within(excess.min(bucket.burst))
    }

    /// Whether a request with this key should wait until the engine has answered, as [`Leases::count`] would refuse it and the engine
    /// might not. `None` once too many wait, or answers are late.
    pub fn needs_answer(self: &Arc<Leases>, key: &[u8], now: u32) -> Option<LeaseWait> {
        let place = self.table.place(key);
        if self.is_alone() || self.are_answers_late() {
            return None;
        }
        let [lease, _, credit, _] =
            if self.is_strict { self.table.entry(place, now, fresh(now))?.0 } else { self.table.find(place)? };
        if !self.is_wanting(lease, credit, now) {
            return None;
        }
        self.await_answer(place, key, credit);
        if self.waiters.fetch_add(1, Ordering::Relaxed) >= WAITERS {
            self.waiters.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(LeaseWait { leases: self.clone(), place })
    }

    /// Whether a key has neither a lease nor credit, and the engine has not said that its bucket is full.
    fn is_wanting(&self, lease: &AtomicU64, credit: &AtomicU64, now: u32) -> bool {
        let (lease, credit) = (Lease::of(lease.load(Ordering::Relaxed)), Credit::of(credit.load(Ordering::Relaxed)));
        let has_lease = lease.left > 0 && is_before(now, lease.end);
        let (is_early, is_denied) = (is_before(now, credit.until), credit.is_denied);
        !has_lease && if self.is_strict { !(is_early && is_denied) } else { is_early && !is_denied }
    }

    /// Whether requests have waited in vain lately.
    fn are_answers_late(&self) -> bool {
        self.vain_waits.load(Ordering::Relaxed) >= VAIN_WAITS
    }

    /// The result that [`Leases::count`] would have, without counting.
    pub fn ask(&self, key: &[u8], now: u32, bucket: Bucket) -> Judgement {
        let Some([lease, state, credit, used]) = self.table.find(self.table.place(key)) else {
            let is_refused = self.is_alone() && self.alone == LimitAlone::Refuse;
            return if is_refused { Judgement::Beyond(bucket.burst.saturating_add(1)) } else { Judgement::Within(0) };
        };
        used.store(now.into(), Ordering::Relaxed);
        let state = AtomicU64::new(state.load(Ordering::Relaxed));
        let nodes = self.nodes.load(Ordering::Relaxed);
        if nodes == 0 {
            return self.count_alone(&state, now, bucket);
        }
        let excess = BucketState::of(state.load(Ordering::Relaxed)).with_one_more(now, bucket.rate);
        let [lease, credit] = [lease, credit].map(|word| AtomicU64::new(word.load(Ordering::Relaxed)));
        let has_credit = || !self.is_strict && lend(&credit, now, bucket.rate, nodes);
        if self.is_beyond(excess, bucket) || take(&lease, now).is_none() && !has_credit() {
            Judgement::Beyond(excess.max(bucket.burst.saturating_add(1)))
        } else {
            Judgement::Within(excess.min(bucket.burst))
        }
    }

    /// Whether an excess is beyond the burst of a location that has a smaller one than others. Whatever is beyond the largest burst
    /// has no lease.
    fn is_beyond(&self, excess: u64, bucket: Bucket) -> bool {
        excess > bucket.burst && bucket.burst < self.burst.load(Ordering::Relaxed)
    }

    fn count_alone(&self, state: &AtomicU64, now: u32, bucket: Bucket) -> Judgement {
        let nodes = self.last_nodes.load(Ordering::Relaxed).max(1) as u64;
        match self.alone {
            LimitAlone::Local => update(state, now, bucket),
            LimitAlone::Share => update(state, now, Bucket { rate: bucket.rate / nodes, burst: bucket.burst / nodes }),
            LimitAlone::Refuse => Judgement::Beyond(bucket.burst.saturating_add(1)),
        }
    }

    /// Puts a key among those that wait for the engine, unless it is there.
    fn await_answer(&self, place: KeyPlace, key: &[u8], credit: &AtomicU64) {
        let waits = |word| Some(Credit { is_waiting: true, ..Credit::of(word) }.word());
        if change(credit, waits).is_none_or(|before| Credit::of(before).is_waiting) {
            return;
        }
        if self.waiting.push(LeaseRequest { place, digest: sha256(key) }).is_err() {
            self.release(place);
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        self.bell.notify_one();
    }

    /// The next key that needs a lease.
    pub fn next_waiting(&self) -> Option<LeaseRequest> {
        self.waiting.pop()
    }

    /// The needs of a key that has waited: it waits until [`Leases::grant`] or [`Leases::release`]. `burst` is the burst that the engine counts with, in thousandths of a request. `None`:
    /// the key has lost its place meanwhile.
    pub fn demand(&self, place: KeyPlace, now: u32, burst: u64) -> Option<LeaseDemand> {
        let [lease, _, credit, _] = self.table.find(place)?;
        let before = change(credit, |word| Some(Credit { used: 0, ..Credit::of(word) }.word()))?;
        let used = Credit::of(before).used;
        let all = burst / 1000 + 1;
        let waiters = self.waiters.load(Ordering::Relaxed) as u64;
        // Where nobody waits, other nodes are left something.
        let most = if waiters > 0 { all } else { all.div_ceil(4) }.clamp(1, MAX_LEASE) as u16;
        let asked = used.saturating_mul(2).max(waiters.min(MAX_LEASE) as u16);
        let next = |lease: Lease| {
            let is_over = !is_before(now, lease.end);
            // Of a lease that ended with something left, half is enough.
            let size = if is_over && lease.left > 0 { lease.size / 2 } else { lease.size.saturating_mul(2) };
            let left = if is_over { 0 } else { lease.left };
            Lease { left, size: size.max(asked).clamp(1, most), end: lease.end }
        };
        let before = Lease::of(change(lease, |word| Some(next(Lease::of(word)).word()))?);
        let after = next(before);
        let unused = before.left - after.left;
        Some(LeaseDemand {
            used: i64::from(used) - i64::from(unused),
            wanted: (after.size - after.left.min(after.size)).into(),
        })
    }

    /// Takes the engine's answer for a key: `rate` and `burst` are those that the engine counts with, in thousandths.
    pub fn grant(&self, place: KeyPlace, now: u32, rate: u64, burst: u64, grant: LeaseGrant) {
        self.vain_waits.store(0, Ordering::Relaxed);
        let Some([lease, state, credit, _]) = self.table.find(place) else { return };
        let rate = rate.max(1);
        let granted = u16::try_from(grant.granted).unwrap_or(u16::MAX);
        change(lease, |word| {
            let known = Lease::of(word);
            let left = if is_before(now, known.end) { known.left } else { 0 };
            Some(Lease { left: left.saturating_add(granted), size: known.size, end: now.wrapping_add(LEASE) }.word())
        });
        // The next request of the key would have this excess.
        let excess = (u128::from(grant.before) * u128::from(rate) / 1_000_000).min(MAX_EXCESS.into()) as u64;
        let seen = match excess.checked_sub(1000) {
            Some(excess) => BucketState { last: now, excess: excess as u32 },
            None => {
                let empty = u32::try_from((1000 - excess) * 1000 / rate).unwrap_or(LONG);
                BucketState { last: now.wrapping_sub(empty), excess: 0 }
            }
        };
        state.store(seen.word(), Ordering::Relaxed);
        let nodes = self.nodes.load(Ordering::Relaxed).max(1);
        // The time until there is room for one more, or until there is credit again.
        let full = excess.saturating_sub(burst).saturating_mul(1000) / rate;
        let full = u32::try_from(full).unwrap_or(LONG).min(LONG);
        let until = now.wrapping_add(if granted == 0 { full } else { pace(rate, nodes) });
        change(credit, |word| {
            let answered = Credit { is_waiting: false, is_denied: granted == 0, until, ..Credit::of(word) };
            Some(answered.word())
        });
    }

    /// Notes that there will be no answer for a key that has waited.
    pub fn release(&self, place: KeyPlace) {
        if let Some([_, _, credit, _]) = self.table.find(place) {
            change(credit, |word| Some(Credit { is_waiting: false, ..Credit::of(word) }.word()));
        }
    }
}

/// The burst that the engine counts with, for a zone whose locations have at most the burst of this bucket.
pub fn engine_burst(bucket: Bucket) -> u64 {
    bucket.burst.max(bucket.rate.saturating_mul(SHORTEST_BURST.as_millis() as u64) / 1000).min(MAX_EXCESS)
}

/// The words of a new key.
fn fresh(now: u32) -> [u64; WORDS] {
    let lease = Lease { left: 0, size: 0, end: now };
    let empty = BucketState { last: now.wrapping_sub(LONG), excess: 0 };
    [lease.word(), empty.word(), Credit::of(u64::from(now)).word(), now.into()]
}

/// Takes a request out of a lease; the lease then.
fn take(lease: &AtomicU64, now: u32) -> Option<Lease> {
    let next = |word| {
        let lease = Lease::of(word);
        let left = lease.left.checked_sub(1).filter(|_| is_before(now, lease.end))?;
        Some(Lease { left, ..lease })
    };
    next(change(lease, |word| next(word).map(Lease::word))?)
}

/// The time between two requests on credit, in milliseconds: the pace of this node's share of the rate.
fn pace(rate: u64, nodes: usize) -> u32 {
    let pace = (nodes as u64).saturating_mul(1_000_000) / rate.max(1);
    u32::try_from(pace.max(1)).unwrap_or(LONG).min(LONG)
}

/// Takes a request on credit. Whether there was credit.
fn lend(credit: &AtomicU64, now: u32, rate: u64, nodes: usize) -> bool {
    let next = |word| {
        let known = Credit::of(word);
        let used = known.used.saturating_add(1).min(MAX_CREDIT);
        let lent = Credit { used, until: now.wrapping_add(pace(rate, nodes)), is_denied: false, ..known };
        (!is_before(now, known.until)).then(|| lent.word())
    };
    change(credit, next).is_some()
}

/// A request that waits until the engine has answered for its key.
#[derive(Debug)]
pub struct LeaseWait {
    leases: Arc<Leases>,
    place: KeyPlace,
}

impl LeaseWait {
    /// Whether the wait is over.
    pub fn is_over(&self, now: u32) -> bool {
        let entry = self.leases.table.find(self.place);
        entry.is_none_or(|[lease, _, credit, _]| !self.leases.is_wanting(lease, credit, now)) || self.leases.is_alone()
    }

    /// Notes that the wait was in vain.
    pub fn note_vain(&self) {
        self.leases.vain_waits.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for LeaseWait {
    fn drop(&mut self) {
        self.leases.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
