//! A leaky bucket in one word, which is replaced atomically: the judgement of `limit_req`.
//!
//! The halves of the word are the time of the last count (milliseconds, 32 bits that may wrap around) and the excess in
//! thousandths of a request (32 bits).

use std::sync::atomic::{AtomicU64, Ordering};

/// The largest excess that can be stored, in thousandths of a request: larger bursts are treated as this one.
pub const MAX_EXCESS: u64 = u32::MAX as u64;

/// The state of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketState {
    /// The time of the last count, in milliseconds.
    pub last: u32,
    /// The excess at that time, in thousandths of a request.
    pub excess: u32,
}

impl BucketState {
    /// The state that a word has.
    pub fn of(word: u64) -> BucketState {
        BucketState { last: (word >> 32) as u32, excess: word as u32 }
    }

    /// The word with this state.
    pub fn word(self) -> u64 {
        u64::from(self.last) << 32 | u64::from(self.excess)
    }

    /// The excess with one more request now: it decreases by `rate` thousandths a second.
    pub fn with_one_more(self, now: u32, rate: u64) -> u64 {
        let leaked = rate.saturating_mul(u64::from(age(self.last, now))) / 1000;
        (u64::from(self.excess) + 1000).saturating_sub(leaked)
    }
}

/// The milliseconds since a time. Loops may come here in another order than they read the clock, so a small negative
/// age counts as 0.
pub fn age(since: u32, now: u32) -> u32 {
    let age = now.wrapping_sub(since);
    if age > u32::MAX - 60_000 { 0 } else { age }
}

/// The verdict of a zone on a request: the excess in thousandths of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The excess is within the burst.
    Within(u64),
    /// The excess is beyond the burst.
    Beyond(u64),
}

/// The rate and the burst of a zone.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    /// The rate, in thousandths of a request a second.
    pub rate: u64,
    /// The largest excess, in thousandths of a request.
    pub burst: u64,
}

impl Bucket {
    /// The judgement on an excess.
    pub fn judge(self, excess: u64) -> Judgement {
        if excess > self.burst.min(MAX_EXCESS - 1000) { Judgement::Beyond(excess) } else { Judgement::Within(excess) }
    }
}

/// Counts a request in a word, unless it is beyond the burst.
pub fn update(word: &AtomicU64, now: u32, bucket: Bucket) -> Judgement {
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let state = BucketState::of(seen);
        let excess = state.with_one_more(now, bucket.rate);
        let judgement = bucket.judge(excess);
        if matches!(judgement, Judgement::Beyond(_)) {
            return judgement;
        }
        // The clock of another loop may be ahead: time never goes back.
        let last = if age(state.last, now) == 0 { state.last } else { now };
        let next = BucketState { last, excess: excess.min(MAX_EXCESS) as u32 };
        // A thread that interferes has made progress, so that this loop ends.
        match word.compare_exchange_weak(seen, next.word(), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return judgement,
            Err(other) => seen = other,
        }
    }
}
