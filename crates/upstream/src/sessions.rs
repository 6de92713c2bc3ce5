//! Sessions that were learned (`sticky learn`): which server each client's session belongs to.
//!
//! They are in a table of fixed size that all loops share without a lock. A session may stand in one of eight slots;
//! when all are taken by others, the session unused for the longest is replaced. A key is kept as 64 bits of a hash
//! that no client can predict.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use std::time::Duration;

use crate::clock::Millis;

/// The number of slots that one session may stand in.
const WAYS: usize = 8;

/// The bytes of a zone that hold one session: nginx says that a megabyte holds about 4000.
const BYTES_EACH: u64 = 256;

/// The most sessions of a table, whatever its size: 16 bytes each.
const MAX_SESSIONS: u64 = 1 << 24;

/// The unit in which the age of a session is counted, in milliseconds.
const TICK: Millis = 100;

/// The key of a slot that a thread is writing.
const BUSY: u64 = 1;

const _: () = assert!(WAYS as u64 <= MAX_SESSIONS, "the smallest table is allowed");

#[derive(Debug, Default)]
struct SessionSlot {
    /// The hash of the session; 0: the slot is free; [`BUSY`]: it is being written.
    key: AtomicU64,
    /// The server's number in the upper half, the [`TICK`] in which it was last used in the lower one.
    value: AtomicU64,
}

/// The table of sessions.
#[derive(Debug)]
pub struct BoundSessions {
    slots: Box<[SessionSlot]>,
    hash: RandomState,
}

fn tick(now: Millis) -> u32 {
    (now / TICK) as u32
}

fn pack(id: u32, tick: u32) -> u64 {
    u64::from(id) << 32 | u64::from(tick)
}

impl BoundSessions {
    /// A table for a zone of this size in bytes.
    pub fn new(bytes: u64) -> BoundSessions {
        let sets = (bytes / BYTES_EACH).clamp(WAYS as u64, MAX_SESSIONS) as usize / WAYS;
        BoundSessions { slots: (0..sets * WAYS).map(|_| SessionSlot::default()).collect(), hash: RandomState::new() }
    }

    /// Number of sessions that the table can hold.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn place(&self, session: &[u8]) -> (u64, &[SessionSlot]) {
        let key = self.hash.hash_one(session).max(BUSY + 1);
        let sets = self.slots.len() / WAYS;
        let set = ((u128::from(key) * sets as u128) >> 64) as usize;
        debug_assert!(key > BUSY && set < sets, "a session has no place");
        (key, &self.slots[set * WAYS..][..WAYS])
    }

    /// The number of the session's server, unless the session was not used during `timeout`. Asking is no use of it, see
    /// [`prolong`](Self::prolong).
    pub fn find(&self, session: &[u8], now: Millis, timeout: Duration) -> Option<u32> {
        let (_, value) = self.look(session)?;
        let (id, last) = ((value >> 32) as u32, value as u32);
        let age = Millis::from(tick(now).saturating_sub(last)) * TICK;
        (u128::from(age) <= timeout.as_millis()).then_some(id)
    }

    /// Notes that the session was used, if it belongs to the server with this number.
    pub fn prolong(&self, session: &[u8], id: u32, now: Millis) {
        let Some((slot, value)) = self.look(session) else { return };
        if (value >> 32) as u32 == id && value as u32 != tick(now) {
            // If another loop writes the slot meanwhile, its value stays.
            let _ = slot.value.compare_exchange(value, pack(id, tick(now)), Relaxed, Relaxed);
        }
    }

    /// The slot of a session, and what is in it.
    fn look(&self, session: &[u8]) -> Option<(&SessionSlot, u64)> {
        let (key, slots) = self.place(session);
        let slot = slots.iter().find(|slot| slot.key.load(Acquire) == key)?;
        let value = slot.value.load(Relaxed);
        fence(Acquire);
        (slot.key.load(Relaxed) == key).then_some((slot, value))
    }

    /// Remembers that the session belongs to the server with this number.
    pub fn learn(&self, session: &[u8], id: u32, now: Millis) {
        let (key, slots) = self.place(session);
        let value = pack(id, tick(now));
        let same = slots.iter().find(|slot| slot.key.load(Relaxed) == key);
        let oldest = || {
            let usable = slots.iter().filter(|slot| slot.key.load(Relaxed) != BUSY);
            usable.min_by_key(|slot| (slot.key.load(Relaxed) != 0, slot.value.load(Relaxed) as u32))
        };
        let Some(slot) = same.or_else(oldest) else { return };
        let before = slot.key.load(Relaxed);
        if before != BUSY && slot.key.compare_exchange(before, BUSY, Acquire, Relaxed).is_ok() {
            fence(Release);
            slot.value.store(value, Relaxed);
            slot.key.store(key, Release);
        }
        // Otherwise another loop was faster, and the session is learned with its next response.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn sessions_are_found_until_their_time_is_over() {
        let sessions = BoundSessions::new(1 << 20);
        assert_eq!(sessions.capacity(), 4096);
        sessions.learn(b"a", 1, 0);
        sessions.learn(b"b", 2, 0);
        sessions.learn(b"b", 3, 5_000);
        assert_eq!(sessions.find(b"a", 9_000, TEN), Some(1));
        assert_eq!((sessions.find(b"a", 10_000, TEN), sessions.find(b"a", 10_100, TEN)), (Some(1), None));
        // Another server does not keep the session alive, its own does.
        sessions.prolong(b"a", 2, 9_500);
        assert_eq!(sessions.find(b"a", 10_100, TEN), None);
        sessions.prolong(b"a", 1, 9_500);
        assert_eq!(sessions.find(b"a", 19_500, TEN), Some(1));
        assert_eq!(sessions.find(b"b", 16_000, TEN), None);
        assert_eq!(sessions.find(b"c", 0, TEN), None);
    }

    #[test]
    fn the_table_keeps_those_used_last() {
        let sessions = BoundSessions::new(0);
        assert_eq!(sessions.capacity(), WAYS);
        for number in 0..20u32 {
            sessions.learn(&number.to_le_bytes(), number, u64::from(number) * 1000);
        }
        let found =
            (0..20u32).filter(|number| sessions.find(&number.to_le_bytes(), 20_000, TEN * 100) == Some(*number));
        assert_eq!(found.collect::<Vec<_>>(), (12..20).collect::<Vec<_>>());
    }

    #[test]
    fn loops_that_learn_at_once_never_mix_sessions_up() {
        let sessions = BoundSessions::new(1 << 14);
        std::thread::scope(|scope| {
            for seed in 0..4u64 {
                let sessions = &sessions;
                scope.spawn(move || {
                    let mut random = crate::random::Random::seeded(seed);
                    for _ in 0..20_000 {
                        // Each session always has the server of its own number.
                        let number = random.below(200) as u32 + 1;
                        let session = number.to_le_bytes();
                        if random.below(2) == 0 {
                            sessions.learn(&session, number, 1000);
                        } else if let Some(found) = sessions.find(&session, 1000, TEN) {
                            assert_eq!(found, number);
                        }
                    }
                });
            }
        });
    }
}
