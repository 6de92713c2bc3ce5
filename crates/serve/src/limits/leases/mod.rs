//! The leases of a node on the requests of a `limit_req_zone` that several nodes share.
//!
//! The bucket of a key stands in the engine. A node takes requests out of it ahead of their use: a lease on some, for a short time.
//! Requests are judged by the leases in memory. When a lease runs short, the node asks for another one, beside the requests.
//!
//! A new key has a credit of one request, which the next lease is charged with. Other requests without a lease wait a short time for
//! one. When the engine is late, nobody waits, and there is credit at the pace of the node's share of the rate. The engine says when
//! a full bucket will have room again. Until then requests with the key are refused, and cost the engine nothing.
//!
//! A lease is charged when it is granted, and used until it ends. So all nodes together admit at most `rate * (t + T) + burst`
//! requests in a time t, and the credit that is not charged yet. T is [`LEASE`] and [`SHORTEST_BURST`]. A zone that is strict has no
//! credit, and leases only for requests that wait: there both are 0.

mod words;

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
use words::{Credit, CreditPace, LONG, Lease, WORDS, change, change_credit, fresh, lend, take};

/// The time after which a lease ends, in milliseconds. What is left of it is lost, so a lease is never for more than the rate allows
/// in this time, unless requests wait.
const LEASE: u32 = 500;

/// The engine counts with a burst of at least the requests of this time, so that leases have some size in zones without a burst.
const SHORTEST_BURST: Duration = Duration::from_millis(100);

/// The most keys that wait for the engine. Those beyond have only their credit until there is room.
const WAITING: usize = 8192;

/// The largest lease.
const MAX_LEASE: u64 = 1000;

/// The most requests of a zone that wait for a lease at a time. Those beyond are refused.
const WAITERS: usize = 256;

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
    /// The requests that were admitted on credit.
    pub used: u64,
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
    /// The rate and the largest burst of a location, in thousandths of a request.
    rate: AtomicU64,
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
        let zero = AtomicUsize::default;
        Some(Leases {
            table: KeyTable::new(size, Hasher::default())?,
            began: Instant::now(),
            waiting: ArrayQueue::new(WAITING),
            bell: Notify::new(),
            alone,
            is_strict,
            rate: AtomicU64::new(0),
            burst: AtomicU64::new(0),
            nodes: zero(),
            last_nodes: AtomicUsize::new(1),
            waiters: zero(),
            vain_waits: zero(),
            left_out: AtomicU64::new(0),
        })
    }

    /// The present time for the functions below, in milliseconds.
    pub fn now(&self) -> u32 {
        self.began.elapsed().as_millis() as u32
    }

    /// Notes how many nodes live; 0: the engine is away.
    pub fn set_nodes(&self, nodes: usize) {
        let before = self.nodes.swap(nodes, Ordering::Relaxed);
        if nodes > 0 {
            self.last_nodes.store(nodes, Ordering::Relaxed);
            if before == 0 {
                self.vain_waits.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Notes the rate of the zone and the largest burst that a location has for it. The bucket that the engine counts with. What it
    /// has said of full buckets counts no more when they are others.
    pub fn set_bucket(&self, bucket: Bucket) -> Bucket {
        let before = (self.rate.swap(bucket.rate, Ordering::Relaxed), self.burst.swap(bucket.burst, Ordering::Relaxed));
        if before != (bucket.rate, bucket.burst) {
            // Only what is there is written: a table that was never used takes no memory.
            let is_denied =
                |[_, _, credit, ..]: &[&AtomicU64; WORDS]| Credit::of(credit.load(Ordering::Relaxed)).is_denied;
            for [_, _, credit, ..] in self.table.entries().filter(is_denied) {
                change_credit(credit, |known| Credit { is_denied: false, ..known });
            }
        }
        let least = bucket.rate.saturating_mul(SHORTEST_BURST.as_millis() as u64) / 1000;
        let burst = if self.is_strict { bucket.burst } else { bucket.burst.max(least) };
        Bucket { burst: burst.min(MAX_EXCESS), ..bucket }
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

    /// Counts a request with this key, unless it is refused. `bucket` is what the location says. `None`: the engine has to be asked
    /// first, which happens; a [`LeaseWait`] says when to come again.
    pub fn count(&self, key: &[u8], now: u32, bucket: Bucket) -> Option<Judgement> {
        let place = self.table.place(key);
        let Some((words, age)) = self.table.entry(place, now, fresh(now)) else {
            // Another thread was changing the set for too long: a request is not refused for that.
            return Some(Judgement::Within(0));
        };
        if age.is_some_and(|age| age > LONG) {
            // Times of so long ago could be taken for future ones.
            words.iter().zip(fresh(now)).for_each(|(word, fresh)| word.store(fresh, Ordering::Relaxed));
        }
        let judged = self.decide(words, now, bucket);
        let [lease, _, credit, ..] = words;
        let is_short = || {
            let lease = Lease::of(lease.load(Ordering::Relaxed));
            lease.size > 1 && lease.left_at(now) <= lease.size / 4
        };
        let has_used_credit = || Credit::of(credit.load(Ordering::Relaxed)).used > 0;
        let needs_lease = match judged {
            // A lease on one request is taken when it is needed: it would be lost.
            Some(Judgement::Within(_)) => is_short() || has_used_credit(),
            Some(Judgement::Beyond(_)) => false,
            None => true,
        };
        if needs_lease && !self.is_alone() {
            self.await_answer(place, credit, || sha256(key));
        }
        // When answers are late, or too many wait, the request is refused, or judged as without an engine.
        judged.or_else(|| self.is_impatient().then(|| self.decide_late(words, now, bucket)))
    }

    /// The result that [`Leases::count`] would have, without counting.
    pub fn ask(&self, key: &[u8], now: u32, bucket: Bucket) -> Option<Judgement> {
        let place = self.table.place(key);
        let Some((words, _)) = self.table.entry(place, now, fresh(now)) else { return Some(Judgement::Within(0)) };
        let copies = words.map(|word| AtomicU64::new(word.load(Ordering::Relaxed)));
        let judged = self.decide(copies.each_ref(), now, bucket);
        if judged.is_none() {
            self.await_answer(place, words[2], || sha256(key));
        }
        judged.or_else(|| self.is_impatient().then(|| self.decide_late(copies.each_ref(), now, bucket)))
    }

    /// Judges a request by these words, and counts it there. `None`: there is neither a lease nor credit.
    fn decide(
        &self,
        [lease, state, credit, pace, _]: [&AtomicU64; WORDS],
        now: u32,
        bucket: Bucket,
    ) -> Option<Judgement> {
        let nodes = self.nodes.load(Ordering::Relaxed);
        if nodes == 0 {
            return Some(self.decide_alone(state, now, bucket));
        }
        let excess = BucketState::of(state.load(Ordering::Relaxed)).with_one_more(now, bucket.rate);
        let beyond = Judgement::Beyond(excess.max(bucket.burst.saturating_add(1)));
        // A location may have a smaller burst than others. Whatever is beyond the largest one has no lease.
        if excess > bucket.burst && bucket.burst < self.burst.load(Ordering::Relaxed) {
            return Some(beyond);
        }
        if take(lease, now).is_none() {
            let known = Credit::of(credit.load(Ordering::Relaxed));
            if known.is_denied && words::is_before(now, known.room_at) {
                return Some(beyond);
            }
            // When the bucket was full, others may have been faster with the room: the engine has to say so.
            let may_lend = !self.is_strict && (!known.is_denied || self.is_impatient());
            if !(may_lend && lend(pace, credit, now, pace_of(bucket.rate, nodes))) {
                return None;
            }
        }
        let unlimited = Bucket { rate: bucket.rate, burst: MAX_EXCESS };
        let (Judgement::Within(excess) | Judgement::Beyond(excess)) = update(state, now, unlimited);
        Some(Judgement::Within(excess.min(bucket.burst)))
    }

    /// Judges a request that cannot wait.
    fn decide_late(&self, [_, state, ..]: [&AtomicU64; WORDS], now: u32, bucket: Bucket) -> Judgement {
        if self.is_strict && self.are_answers_late() {
            return self.decide_alone(state, now, bucket);
        }
        Judgement::Beyond(bucket.burst.saturating_add(1))
    }

    fn decide_alone(&self, state: &AtomicU64, now: u32, bucket: Bucket) -> Judgement {
        let nodes = self.last_nodes.load(Ordering::Relaxed).max(1) as u64;
        match self.alone {
            LimitAlone::Local => update(state, now, bucket),
            LimitAlone::Share => {
                update(state, now, Bucket { rate: (bucket.rate / nodes).max(1), burst: bucket.burst / nodes })
            }
            LimitAlone::Refuse => Judgement::Beyond(bucket.burst.saturating_add(1)),
        }
    }

    /// Whether no request waits at present.
    fn is_impatient(&self) -> bool {
        self.are_answers_late() || self.waiters.load(Ordering::Relaxed) >= WAITERS
    }

    /// Whether requests have waited in vain lately.
    fn are_answers_late(&self) -> bool {
        self.vain_waits.load(Ordering::Relaxed) >= VAIN_WAITS
    }

    /// Puts a key among those that wait for the engine, unless it is there.
    fn await_answer(&self, place: KeyPlace, credit: &AtomicU64, digest: impl FnOnce() -> [u8; 32]) {
        if !change_credit(credit, |known| Credit { is_waiting: true, ..known }).is_waiting {
            self.enqueue(LeaseRequest { place, digest: digest() });
        }
    }

    fn enqueue(&self, request: LeaseRequest) {
        if self.waiting.push(request).is_err() {
            self.release(request.place, 0);
            self.left_out.fetch_add(1, Ordering::Relaxed);
        } else if self.waiting.len() == 1 {
            // Ringing may take a lock, and whoever is busy looks at the queue again.
            self.bell.notify_one();
        }
    }

    /// The next key that needs a lease.
    pub fn next_waiting(&self) -> Option<LeaseRequest> {
        self.waiting.pop()
    }

    /// The needs of a key that has waited: it waits until [`Leases::grant`] or [`Leases::release`]. `bucket` is what the engine counts
    /// with. `None`: the key has lost its place meanwhile.
    pub fn demand(&self, place: KeyPlace, now: u32, bucket: Bucket) -> Option<LeaseDemand> {
        let [lease, _, credit, pace, _] = self.table.find(place)?;
        let used = change_credit(credit, |known| Credit { used: 0, ..known }).used;
        let waiters = u64::from(CreditPace::of(pace.load(Ordering::Relaxed)).waiters).min(MAX_LEASE) as u16;
        // Other nodes are left something, and a slow key has no lease: its requests are charged one by one.
        let ahead = (bucket.burst / 1000 + 1).div_ceil(4).min(bucket.rate / 1000 * u64::from(LEASE) / 1000);
        let ahead = if self.is_strict { 0 } else { ahead.min(MAX_LEASE) as u16 };
        let next = |lease: Lease| {
            let left = lease.left_at(now);
            let size = match (left == lease.left, lease.left) {
                // Of a lease that ended with something left, half is enough.
                (false, _) => lease.size / 2,
                // It is used up, or nearly so, before its end.
                (true, _) if words::is_before(now, lease.end) => lease.size.saturating_mul(2),
                (true, _) => lease.size,
            };
            Lease { left, size: size.max(used.saturating_mul(2)).max(1).min(ahead), ..lease }
        };
        let after = next(Lease::of(change(lease, |word| Some(next(Lease::of(word)).word()))?));
        // A key that was not admitted on credit waits for a lease, though its request may not be counted as a waiter yet.
        let waiters = waiters.max(u16::from(used == 0));
        let wanted = after.size.max(waiters).saturating_sub(after.left);
        Some(LeaseDemand { used: used.into(), wanted: wanted.into() })
    }

    /// Takes the engine's answer for a key that has waited. `bucket` is what the engine counts with.
    pub fn grant(&self, request: LeaseRequest, now: u32, bucket: Bucket, grant: LeaseGrant) {
        self.vain_waits.store(0, Ordering::Relaxed);
        let Some([lease, state, credit, ..]) = self.table.find(request.place) else { return };
        let rate = bucket.rate.max(1);
        let granted = u16::try_from(grant.granted).unwrap_or(u16::MAX);
        if granted > 0 {
            change(lease, |word| {
                let known = Lease::of(word);
                let left = known.left_at(now).saturating_add(granted);
                Some(Lease { left, size: known.size, end: now.wrapping_add(LEASE) }.word())
            });
        }
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
        // The time until there is room for one more.
        let full = excess.saturating_sub(bucket.burst);
        let is_denied = granted == 0 && full > 0;
        let full = u32::try_from(full.saturating_mul(1000) / rate).unwrap_or(LONG).min(LONG);
        let before = change_credit(credit, |known| Credit {
            // What was admitted on credit meanwhile is charged at once.
            is_waiting: known.used > 0,
            is_denied,
            room_at: now.wrapping_add(full),
            ..known
        });
        if before.used > 0 {
            self.enqueue(request);
        }
    }

    /// Notes that there will be no answer for a key that has waited, and that these requests are still to be charged.
    pub fn release(&self, place: KeyPlace, used: u64) {
        if let Some([_, _, credit, ..]) = self.table.find(place) {
            let used = u16::try_from(used).unwrap_or(u16::MAX);
            change_credit(credit, |known| Credit { is_waiting: false, used: known.used.saturating_add(used), ..known });
        }
    }
}

/// The time between two requests on credit, in milliseconds: the pace of this node's share of the rate.
fn pace_of(rate: u64, nodes: usize) -> u32 {
    let pace = (nodes as u64).saturating_mul(1_000_000) / rate.max(1);
    u32::try_from(pace.max(1)).unwrap_or(LONG).min(LONG)
}

/// A request that waits until the engine has answered for its key. It is counted, so that the lease is for it as well.
#[derive(Debug)]
pub struct LeaseWait {
    leases: Arc<Leases>,
    place: KeyPlace,
}

impl LeaseWait {
    /// A request that begins to wait.
    pub fn new(leases: Arc<Leases>, key: &[u8]) -> LeaseWait {
        let wait = LeaseWait { place: leases.table.place(key), leases };
        wait.leases.waiters.fetch_add(1, Ordering::Relaxed);
        wait.change_waiters(|waiters| waiters.saturating_add(1));
        wait
    }

    /// Notes that the wait was in vain.
    pub fn note_vain(&self) {
        self.leases.vain_waits.fetch_add(1, Ordering::Relaxed);
    }

    fn change_waiters(&self, to: impl Fn(u16) -> u16) {
        if let Some([_, _, _, pace, _]) = self.leases.table.find(self.place) {
            change(pace, |word| {
                let known = CreditPace::of(word);
                Some(CreditPace { waiters: to(known.waiters), ..known }.word())
            });
        }
    }
}

impl Drop for LeaseWait {
    fn drop(&mut self) {
        self.leases.waiters.fetch_sub(1, Ordering::Relaxed);
        self.change_waiters(|waiters| waiters.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
