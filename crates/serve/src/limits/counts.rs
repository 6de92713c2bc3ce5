//! Counts of the subjects of each key that are being served: one word for each key in use, in a table without locks.
//!
//! A key has its place in one of the sets of [`WAYS`] words. A word is a fingerprint of the key (48 bits, besides those
//! that choose the set) and the number (16 bits); 0 is a free place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::key::Hasher;

/// The number of words in a set.
const WAYS: usize = 32;
/// The largest number that a word holds, and so the largest limit.
pub const MAX_COUNT: u64 = 65_535;

const _: () = assert!(MAX_COUNT == u16::MAX as u64, "the fingerprint stands above the sixteen bits of the number");

/// The counts of a zone.
#[derive(Debug)]
pub struct Counts {
    words: Box<[AtomicU64]>,
    hasher: Hasher,
}

/// The reason that a subject is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountRefusal {
    /// As many subjects of the key as the limit allows are being served.
    Limit,
    /// There is no place for another key.
    Exhausted,
}

/// A subject that is counted, until this is dropped.
#[derive(Debug)]
pub struct CountedSubject {
    counts: Arc<Counts>,
    place: usize,
}

impl Counts {
    /// A table for as many keys as `size` bytes hold. `None` if there is not so much memory.
    pub fn new(size: u64) -> Option<Counts> {
        let words = usize::try_from(size / 8).ok()? / WAYS * WAYS;
        let words = freerun_sys::memory::zeroed_atomics(words.max(WAYS))?;
        Some(Counts { words, hasher: Hasher::default() })
    }

    /// Whether `limit` subjects of this key are counted, so that a further one would be refused.
    pub fn is_full(&self, key: &[u8], limit: u64) -> bool {
        let key = self.hasher.of(key);
        let start = key.set(self.words.len() / WAYS) * WAYS;
        total(&self.words[start..start + WAYS], key.tag >> 16) >= limit.min(MAX_COUNT)
    }

    /// Counts a subject of this key, unless `limit` subjects of it are counted already.
    ///
    /// # Errors
    /// The subject is not counted.
    pub fn enter(self: &Arc<Counts>, key: &[u8], limit: u64) -> Result<CountedSubject, CountRefusal> {
        let key = self.hasher.of(key);
        let start = key.set(self.words.len() / WAYS) * WAYS;
        let set = &self.words[start..start + WAYS];
        let tag = key.tag >> 16;
        // Each round that fails has seen another thread succeed, so the loop ends.
        loop {
            let mut sum = 0;
            let (mut known, mut free) = (None, None);
            for (way, word) in set.iter().enumerate() {
                let word = word.load(Ordering::Acquire);
                if word == 0 {
                    free = free.or(Some(way));
                } else if word >> 16 == tag {
                    // A key may have two words, if a place before its own became free while another thread looked for
                    // one.
                    sum += word & MAX_COUNT;
                    known = known.or(Some((way, word)));
                }
            }
            if sum >= limit.min(MAX_COUNT) {
                return Err(CountRefusal::Limit);
            }
            let (way, seen, next) = match (known, free) {
                (Some((way, word)), _) => (way, word, word + 1),
                (None, Some(way)) => (way, 0, tag << 16 | 1),
                (None, None) => return Err(CountRefusal::Exhausted),
            };
            debug_assert!(next >> 16 == tag, "the number has grown into the fingerprint");
            if set[way].compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                let held = CountedSubject { counts: self.clone(), place: start + way };
                return if total(set, tag) > limit { Err(CountRefusal::Limit) } else { Ok(held) };
            }
        }
    }
}

fn total(set: &[AtomicU64], tag: u64) -> u64 {
    let words = set.iter().map(|word| word.load(Ordering::Acquire));
    words.filter(|word| word >> 16 == tag).map(|word| word & MAX_COUNT).sum()
}

impl Drop for CountedSubject {
    fn drop(&mut self) {
        let leave = |word: u64| Some(if word & MAX_COUNT <= 1 { 0 } else { word - 1 });
        // The closure always returns a value.
        let before = self.counts.words[self.place].fetch_update(Ordering::AcqRel, Ordering::Relaxed, leave);
        debug_assert!(before.is_ok_and(|word| word & MAX_COUNT > 0), "a subject leaves that was not counted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Arc<Counts> {
        Arc::new(Counts::new(32 * 1024).unwrap())
    }

    #[test]
    fn as_many_as_may_are_let_in_and_places_become_free() {
        let counts = counts();
        let mut held: Vec<CountedSubject> = (0..3).map(|_| counts.enter(b"k", 3).unwrap()).collect();
        assert_eq!(counts.enter(b"k", 3).unwrap_err(), CountRefusal::Limit);
        let other = counts.enter(b"other", 1).unwrap();
        held.pop();
        held.push(counts.enter(b"k", 3).unwrap());
        // A smaller limit elsewhere uses the same count.
        assert_eq!(counts.enter(b"k", 2).unwrap_err(), CountRefusal::Limit);
        drop((held, other));
        assert!(counts.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn the_largest_limit_is_reached() {
        let counts = counts();
        let held: Vec<CountedSubject> = (0..MAX_COUNT).map(|_| counts.enter(b"k", MAX_COUNT).unwrap()).collect();
        assert_eq!(counts.enter(b"k", MAX_COUNT).unwrap_err(), CountRefusal::Limit);
        drop(held);
        assert!(counts.enter(b"k", 1).is_ok());
    }

    #[test]
    fn a_full_table_refuses_new_keys_and_keeps_the_old_ones() {
        let counts = counts();
        let mut held = Vec::new();
        let mut refused = 0;
        for number in 0..10 * 4096_u32 {
            match counts.enter(&number.to_le_bytes(), 2) {
                Ok(guard) => held.push((number, guard)),
                Err(why) => {
                    assert_eq!(why, CountRefusal::Exhausted);
                    refused += 1;
                }
            }
        }
        assert_eq!((held.len(), refused), (4096, 9 * 4096));
        for (number, _) in &held {
            assert!(counts.enter(&number.to_le_bytes(), 2).is_ok());
            assert_eq!(counts.enter(&number.to_le_bytes(), 1).unwrap_err(), CountRefusal::Limit);
        }
        held.clear();
        assert!(counts.enter(b"k", 1).is_ok());
    }

    #[test]
    fn as_many_keys_as_nginx_holds_in_the_same_memory_are_all_held() {
        // nginx needs 64 bytes for each key on 64-bit platforms.
        let counts = Arc::new(Counts::new(1024 * 1024).unwrap());
        let held: Vec<CountedSubject> =
            (0..16_384_u32).map(|number| counts.enter(&number.to_le_bytes(), 1).unwrap()).collect();
        assert_eq!(held.len(), 16_384);
    }

    #[test]
    fn threads_never_hold_more_than_may() {
        let counts = counts();
        let inside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for turn in 0..5000 {
                        // Other keys come and go in the same set.
                        let other = counts.enter(&[turn as u8], 9);
                        if let Ok(held) = counts.enter(b"k", 2) {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(held);
                        }
                        drop(other);
                    }
                });
            }
        });
        assert!(counts.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
