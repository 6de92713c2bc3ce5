//! The locks of a zone (RFC 4918 section 6), which all loops share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

/// How many bytes of a zone's size a lock counts for at least.
const BYTES_OF_LOCK: usize = 512;

/// The most locks of a zone, whatever its size: a request looks at all of them, perhaps for each of its conditions.
const MAX_LOCKS: usize = 4096;

/// A lock for writing.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    /// The file's or folder's path without a slash at its end.
    pub(super) path: Box<[u8]>,
    /// The path of the URI that was locked.
    pub(super) root: Box<[u8]>,
    /// Whether it covers everything below, too.
    pub(super) deep: bool,
    /// Whether others may lock it at the same time.
    pub(super) shared: bool,
    pub(super) token: Box<str>,
    pub(super) owner: Box<str>,
    /// How long it lasts from the last refresh on.
    pub(super) time: Duration,
    pub(super) end: Instant,
}

impl Lock {
    /// How many bytes of the zone's size it counts for.
    fn size(&self) -> usize {
        let texts = self.path.len() + self.root.len() + self.token.len() + self.owner.len();
        (size_of::<Lock>() + texts).max(BYTES_OF_LOCK)
    }

    /// Whether it is a lock of this path.
    pub(super) fn covers(&self, path: &[u8]) -> bool {
        *self.path == *path || self.deep && is_below(path, &self.path)
    }
}

/// Whether a path is inside a folder.
pub(super) fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Why there is no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is another one.
    Conflict,
    /// The zone is full.
    Full,
}

/// The locks of a zone. They are few and change seldom, so each change makes a new list.
#[derive(Debug)]
pub(super) struct Locks {
    list: ArcSwap<Vec<Arc<Lock>>>,
    /// The most bytes that locks may count for.
    size: usize,
}

impl Locks {
    /// Room for locks in a zone of this size in bytes.
    pub(super) fn new(size: u64) -> Locks {
        Locks { list: ArcSwap::default(), size: usize::try_from(size).unwrap_or(usize::MAX) }
    }

    /// The locks that are not over and that `is_meant` is true for.
    pub(super) fn find(&self, now: Instant, is_meant: impl Fn(&Lock) -> bool) -> Vec<Arc<Lock>> {
        let list = self.list.load();
        list.iter().filter(|lock| lock.end > now && is_meant(lock)).cloned().collect()
    }

    /// Replaces the list by what `next` makes of it, without those that are over.
    fn change<T>(&self, now: Instant, mut next: impl FnMut(&mut Vec<Arc<Lock>>) -> T) -> T {
        loop {
            let before = self.list.load_full();
            let mut list: Vec<Arc<Lock>> = before.iter().filter(|lock| lock.end > now).cloned().collect();
            let result = next(&mut list);
            let found = self.list.compare_and_swap(&before, Arc::new(list));
            if Arc::ptr_eq(&before, &found) {
                return result;
            }
        }
    }

    /// Adds a lock.
    pub(super) fn add(&self, lock: Lock, now: Instant) -> Result<Arc<Lock>, Refused> {
        let lock = Arc::new(lock);
        self.change(now, |list| {
            let meets = |other: &Lock| other.covers(&lock.path) || lock.deep && is_below(&other.path, &lock.path);
            if list.iter().any(|other| meets(other) && !(other.shared && lock.shared)) {
                return Err(Refused::Conflict);
            }
            let used: usize = list.iter().map(|other| other.size()).sum();
            if list.len() >= MAX_LOCKS || used + lock.size() > self.size {
                return Err(Refused::Full);
            }
            list.push(lock.clone());
            Ok(lock.clone())
        })
    }

    /// Lets a lock of this path with this token last as long as at first again.
    pub(super) fn refresh(&self, token: &str, path: &[u8], now: Instant) -> Option<Arc<Lock>> {
        self.change(now, |list| {
            let lock = list.iter_mut().find(|lock| *lock.token == *token && lock.covers(path))?;
            *lock = Arc::new(Lock { end: now + lock.time, ..(**lock).clone() });
            Some(lock.clone())
        })
    }

    /// Removes the lock of this path with this token; whether there was one.
    pub(super) fn remove(&self, token: &str, path: &[u8], now: Instant) -> bool {
        self.change(now, |list| {
            let before = list.len();
            list.retain(|lock| !(*lock.token == *token && lock.covers(path)));
            list.len() < before
        })
    }

    /// Removes the locks of a path that is no longer there, and of everything below it.
    pub(super) fn remove_tree(&self, path: &[u8], now: Instant) {
        let concerns = |lock: &Lock| *lock.path == *path || is_below(&lock.path, path);
        if self.list.load().iter().any(|lock| concerns(lock)) {
            self.change(now, |list| list.retain(|lock| !concerns(lock)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn lock(path: &str, deep: bool, shared: bool, now: Instant) -> Lock {
        Lock {
            path: path.as_bytes().into(),
            root: path.as_bytes().into(),
            deep,
            shared,
            token: format!("urn:{path}{deep}{shared}").into(),
            owner: "".into(),
            time: TIME,
            end: now + TIME,
        }
    }

    #[test]
    fn locks_that_meet_are_refused() {
        let now = Instant::now();
        for (one, other, allowed) in [
            (("/a", true, false), ("/a", true, false), false),
            (("/a", false, true), ("/a", true, true), true),
            (("/a", false, true), ("/a", false, false), false),
            (("/a", true, false), ("/a/b", false, false), false),
            (("/a", false, false), ("/a/b", false, false), true),
            (("/a/b", false, false), ("/a", true, false), false),
            (("/a/b", false, false), ("/a", false, false), true),
            (("/a", true, false), ("/ab", true, false), true),
        ] {
            let locks = Locks::new(1 << 20);
            locks.add(lock(one.0, one.1, one.2, now), now).unwrap();
            let added = locks.add(lock(other.0, other.1, other.2, now), now);
            assert_eq!(added.is_ok(), allowed, "{one:?} {other:?}");
            // Later the first one is over.
            assert!(locks.add(lock(other.0, other.1, other.2, now + TIME), now + TIME).is_ok());
        }
    }

    #[test]
    fn long_paths_and_many_locks_fill_a_zone() {
        let now = Instant::now();
        let locks = Locks::new(2 * BYTES_OF_LOCK as u64);
        let long = format!("/{}", "a".repeat(2 * BYTES_OF_LOCK));
        assert_eq!(locks.add(lock(&long, false, false, now), now).unwrap_err(), Refused::Full);
        let locks = Locks::new(u64::MAX);
        for number in 0..MAX_LOCKS {
            locks.add(lock(&format!("/{number}"), false, false, now), now).unwrap();
        }
        assert_eq!(locks.add(lock("/b", false, false, now), now).unwrap_err(), Refused::Full);
    }

    #[test]
    fn a_lock_lasts_until_it_is_over_removed_or_its_file_gone() {
        let now = Instant::now();
        let locks = Locks::new(2 * BYTES_OF_LOCK as u64);
        let first = locks.add(lock("/a", true, false, now), now).unwrap();
        let later = now + TIME / 2;
        assert_eq!(locks.refresh(&first.token, "/a/b".as_bytes(), later).unwrap().end, later + TIME);
        assert!(locks.refresh("urn:other", b"/a", later).is_none());
        assert!(locks.refresh(&first.token, b"/b", later).is_none());
        assert!(!locks.remove("urn:other", b"/a", later) && !locks.remove(&first.token, b"/b", later));
        locks.add(lock("/b/c", false, false, later), later).unwrap();
        assert_eq!(locks.add(lock("/d", false, false, later), later).unwrap_err(), Refused::Full);
        locks.remove_tree(b"/b", later);
        assert_eq!(locks.find(later, |_| true).len(), 1);
        assert!(locks.remove(&first.token, b"/a", later));
        assert!(locks.find(later, |_| true).is_empty());
    }
}
