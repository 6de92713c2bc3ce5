//! The words of a key that nodes share. Each is replaced atomically.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::bucket::BucketState;

/// The words of a key: its lease, its bucket as this node sees it, its credit, its waits, and the time of its last use.
pub(super) const WORDS: usize = 5;

/// A time in which each bucket is empty, in milliseconds.
pub(super) const LONG: u32 = u32::MAX / 4;

/// The most requests on credit that are counted, and the most requests of a key that wait.
const MOST: u16 = 0x3fff;

/// A lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    /// The requests that are left.
    pub(super) left: u16,
    /// The size of a lease that the node has use for.
    pub(super) size: u16,
    /// The time at which it ends.
    pub(super) end: u32,
}

impl Lease {
    pub(super) fn of(word: u64) -> Lease {
        Lease { left: (word >> 48) as u16, size: (word >> 32) as u16, end: word as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.left) << 48 | u64::from(self.size) << 32 | u64::from(self.end)
    }

    /// The requests that are left at this time.
    pub(super) fn left_at(self, now: u32) -> u16 {
        if is_before(now, self.end) { self.left } else { 0 }
    }
}

/// The credit of a key, and what the engine has said of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credit {
    /// The key waits for the engine.
    pub(super) is_waiting: bool,
    /// The engine has said that the bucket is full.
    pub(super) is_denied: bool,
    /// The requests that were admitted and not charged yet.
    pub(super) used: u16,
    /// The time at which a full bucket has room again.
    pub(super) room_at: u32,
}

impl Credit {
    pub(super) fn of(word: u64) -> Credit {
        Credit {
            is_waiting: word >> 63 != 0,
            is_denied: word >> 62 & 1 != 0,
            used: (word >> 32) as u16 & MOST,
            room_at: word as u32,
        }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.is_waiting) << 63
            | u64::from(self.is_denied) << 62
            | u64::from(self.used.min(MOST)) << 32
            | u64::from(self.room_at)
    }
}

/// The requests of a key that wait, and the pace of its credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CreditPace {
    /// The requests that wait for a lease.
    pub(super) waiters: u16,
    /// The time from which on there is credit again.
    pub(super) lends_at: u32,
}

impl CreditPace {
    pub(super) fn of(word: u64) -> CreditPace {
        CreditPace { waiters: (word >> 32) as u16, lends_at: word as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.waiters.min(MOST)) << 32 | u64::from(self.lends_at)
    }
}

/// The words of a new key.
pub(super) fn fresh(now: u32) -> [u64; WORDS] {
    let lease = Lease { left: 0, size: 0, end: now };
    let empty = BucketState { last: now.wrapping_sub(LONG), excess: 0 };
    let credit = Credit { is_waiting: false, is_denied: false, used: 0, room_at: now };
    [lease.word(), empty.word(), credit.word(), CreditPace { waiters: 0, lends_at: now }.word(), now.into()]
}

/// Whether a time is before another one. Both are milliseconds that may wrap around.
pub(super) fn is_before(time: u32, other: u32) -> bool {
    other.wrapping_sub(time).cast_signed() > 0
}

/// Changes a word; the value before.
pub(super) fn change(word: &AtomicU64, mut to: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
    // A thread that interferes has made progress, so that this ends.
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, &mut to).ok()
}

/// Changes a credit; the value before.
pub(super) fn change_credit(word: &AtomicU64, to: impl Fn(Credit) -> Credit) -> Credit {
    Credit::of(change(word, |word| Some(to(Credit::of(word)).word())).unwrap_or_default())
}

/// Takes a request out of a lease; the lease then.
pub(super) fn take(lease: &AtomicU64, now: u32) -> Option<Lease> {
    let next = |word| {
        let lease = Lease::of(word);
        Some(Lease { left: lease.left_at(now).checked_sub(1)?, ..lease })
    };
    next(change(lease, |word| next(word).map(Lease::word))?)
}

/// Takes the credit of a key, which is there again after `pace` milliseconds. Whether it was there.
pub(super) fn lend(pace_word: &AtomicU64, credit: &AtomicU64, now: u32, pace: u32) -> bool {
    let next = |word| {
        let known = CreditPace::of(word);
        (!is_before(now, known.lends_at)).then(|| CreditPace { lends_at: now.wrapping_add(pace), ..known }.word())
    };
    let is_lent = change(pace_word, next).is_some();
    if is_lent {
        change_credit(credit, |known| Credit { used: known.used.saturating_add(1), ..known });
    }
    is_lent
}
