//! Locks for the names of files: the name on the disk and the entry in the index change together.
//!
//! A thread that gives a file its name and makes its entry, or removes the file of a key that has no entry, holds the
//! key's lock meanwhile. Otherwise one thread could remove a file that another one has just named, or the entry of one
//! object would lead to the file of another one. This is for pool threads and the cache's own thread: the holder of a
//! lock may wait for the disk.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::index::fingerprint;
use crate::key::Key;

/// The number of locks that all keys share.
const LOCKS: usize = 64;
/// Interval at which the end looks whether a task is still at work.
const LOOK: Duration = Duration::from_millis(1);

/// The locks of a cache's keys.
#[derive(Debug)]
pub(crate) struct Naming {
    locks: [Mutex<()>; LOCKS],
    closed: AtomicBool,
}

impl Default for Naming {
    fn default() -> Naming {
        Naming { locks: std::array::from_fn(|_| Mutex::default()), closed: AtomicBool::new(false) }
    }
}

impl Naming {
    /// Locks a key, while its file is removed or named.
    pub(crate) fn of(&self, key: Key) -> MutexGuard<'_, ()> {
        self.locks[fingerprint(key) as usize % LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a key to give a file its name; `None`: the cache is ending, and would not learn of the file.
    pub(crate) fn enter(&self, key: Key) -> Option<MutexGuard<'_, ()>> {
        let own = self.of(key);
        (!self.closed.load(Acquire)).then_some(own)
    }

    /// Whether somebody names or removes a file at this moment that may be this key's.
    pub(crate) fn is_held(&self, key: Key) -> bool {
        matches!(self.locks[fingerprint(key) as usize % LOCKS].try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Forbids naming files from here on, and waits at most `limit` for tasks that are at it. False: a task still is.
    pub(crate) fn close(&self, limit: Duration) -> bool {
        self.closed.store(true, Release);
        let begun = Instant::now();
        self.locks.iter().all(|lock| {
            while let Err(TryLockError::WouldBlock) = lock.try_lock() {
                if begun.elapsed() > limit {
                    return false;
                }
                std::thread::sleep(LOOK);
            }
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_named_after_the_end() {
        let naming = Naming::default();
        let (key, other) = (Key::of(b"a"), Key::of(b"b"));
        let at_work = naming.enter(key).unwrap();
        assert!(!naming.close(Duration::ZERO));
        drop(at_work);
        assert!(naming.close(Duration::ZERO));
        assert!(naming.enter(key).is_none() && naming.enter(other).is_none());
    }
}
