//! The locks of a zone (RFC 4918 section 6), which all loops share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

/// The least number of bytes of a zone's size that a lock counts for.
const BYTES_OF_LOCK: usize = 512;

/// The most locks of a zone, whatever its size: who deletes a folder needs the tokens of all that are below it.
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
    /// The duration of the lock from its last refresh on.
    pub(super) time: Duration,
    pub(super) end: Instant,
}

impl Lock {
    /// The number of bytes of the zone's size that the lock counts for.
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

/// The reason why there is no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockRefusal {
    /// There is another one.
    Conflict,
    /// The zone is full.
    Full,
}

/// In how many folders a folder may be whose lock covers what is in it: each folder above a file is looked for.
const MAX_FOLDERS: usize = 256;

/// The number of locks in a row of the table. A change copies one row, and the list of the rows.
const ROW: usize = 64;

/// The shortest time between two sweeps that remove expired locks, unless there is no room.
const SWEEP: Duration = Duration::from_secs(1);

/// Locks in the order of their paths, and locks of one path in the order in which they came. Locks below a folder stand
/// together, so no search looks at all locks.
#[derive(Debug, Clone, Default)]
struct Table {
    /// None of them is empty.
    rows: Vec<Arc<Vec<Arc<Lock>>>>,
    count: usize,
    /// The number of bytes that the locks count for.
    used: usize,
    /// The time of the last sweep of expired locks.
    swept: Option<Instant>,
}

impl Table {
    fn of(locks: Vec<Arc<Lock>>, now: Instant) -> Table {
        let (count, used) = (locks.len(), locks.iter().map(|lock| lock.size()).sum());
        let rows = locks.chunks(ROW).map(|row| Arc::new(row.to_vec())).collect();
        Table { rows, count, used, swept: Some(now) }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Lock>> {
        self.rows.iter().flat_map(|row| row.iter())
    }

    /// The row and the place in it of the first lock for whose path `is_before` is false.
    fn place(&self, is_before: impl Fn(&[u8]) -> bool) -> (usize, usize) {
        let row = self.rows.partition_point(|row| row.last().is_some_and(|lock| is_before(&lock.path)));
        let place = self.rows.get(row).map_or(0, |row| row.partition_point(|lock| is_before(&lock.path)));
        (row, place)
    }

    /// The locks from this path on.
    fn from(&self, path: &[u8]) -> impl Iterator<Item = &Arc<Lock>> {
        let (row, place) = self.place(|other| other < path);
        self.rows[row..].iter().flat_map(|row| row.iter()).skip(place)
    }

    /// The locks that were taken of this path itself.
    fn exact<'t>(&'t self, path: &'t [u8]) -> impl Iterator<Item = &'t Arc<Lock>> {
        self.from(path).take_while(move |lock| *lock.path == *path)
    }

    /// The locks of this path: its own, and locks of folders above it that cover their content.
    fn covering<'t>(&'t self, path: &'t [u8]) -> impl Iterator<Item = &'t Arc<Lock>> {
        let slashes = memchr::memchr_iter(b'/', path).take(MAX_FOLDERS);
        let above = slashes.flat_map(|at| self.exact(&path[..at]).filter(|lock| lock.deep));
        self.exact(path).chain(above)
    }

    /// The locks of what is inside a folder.
    fn below(&self, folder: &[u8]) -> impl Iterator<Item = &Arc<Lock>> {
        let first = [folder, b"/"].concat();
        let (row, place) = self.place(|other| other < &first[..]);
        let rest = self.rows[row..].iter().flat_map(|row| row.iter()).skip(place);
        rest.take_while(move |lock| lock.path.starts_with(&first))
    }

    fn insert(&mut self, lock: Arc<Lock>) {
        let (row, place) = self.place(|other| other <= &lock.path[..]);
        self.count += 1;
        self.used += lock.size();
        // Behind the last one of the table, the last row goes on.
        let (row, place) = match (self.rows.get(row), self.rows.last()) {
            (None, Some(last)) => (self.rows.len() - 1, last.len()),
            _ => (row, place),
        };
        match self.rows.get_mut(row) {
            None => self.rows.push(Arc::new(vec![lock])),
            Some(locks) => {
                let locks = Arc::make_mut(locks);
                locks.insert(place, lock);
                if locks.len() > 2 * ROW {
                    let rest = locks.split_off(ROW);
                    self.rows.insert(row + 1, Arc::new(rest));
                }
            }
        }
    }

    /// Puts another lock of the same path, or none, in the place of one.
    fn replace(&mut self, old: &Arc<Lock>, new: Option<Arc<Lock>>) {
        let (first, place) = self.place(|other| other < &old.path[..]);
        let mut skipped = place;
        for row in first..self.rows.len() {
            let is_old = |lock: &Arc<Lock>| Arc::ptr_eq(lock, old);
            let Some(at) = self.rows[row].iter().skip(skipped).position(is_old).map(|at| at + skipped) else {
                if self.rows[row].last().is_none_or(|last| last.path > old.path) {
                    return;
                }
                skipped = 0;
                continue;
            };
            self.used -= old.size();
            let locks = Arc::make_mut(&mut self.rows[row]);
            match new {
                Some(new) => {
                    self.used += new.size();
                    locks[at] = new;
                }
                None => {
                    locks.remove(at);
                    self.count -= 1;
                    if locks.is_empty() {
                        self.rows.remove(row);
                    }
                }
            }
            return;
        }
    }

    /// Removes the locks that are over.
    fn sweep(&mut self, now: Instant) {
        *self = Table::of(self.iter().filter(|lock| lock.end > now).cloned().collect(), now);
    }
}

/// The locks of a zone. They change seldom: each change makes a new table, which has most of its rows from the one before.
#[derive(Debug)]
pub(super) struct Locks {
    table: ArcSwap<Table>,
    /// The most bytes that locks may count for.
    size: usize,
}

impl Locks {
    /// Room for locks in a zone of this size in bytes.
    pub(super) fn new(size: u64) -> Locks {
        Locks { table: ArcSwap::default(), size: usize::try_from(size).unwrap_or(usize::MAX) }
    }

    /// All locks that are not over.
    pub(super) fn all(&self, now: Instant) -> Vec<Arc<Lock>> {
        self.table.load().iter().filter(|lock| lock.end > now).cloned().collect()
    }

    /// The locks of this path: its own first, then locks of folders above it that cover their content.
    pub(super) fn covering(&self, path: &[u8], now: Instant) -> Vec<Arc<Lock>> {
        self.table.load().covering(path).filter(|lock| lock.end > now).cloned().collect()
    }

    /// The locks that were taken of this path itself.
    pub(super) fn exact(&self, path: &[u8], now: Instant) -> Vec<Arc<Lock>> {
        self.table.load().exact(path).filter(|lock| lock.end > now).cloned().collect()
    }

    /// The locks of what is inside a folder.
    pub(super) fn below(&self, folder: &[u8], now: Instant) -> Vec<Arc<Lock>> {
        self.table.load().below(folder).filter(|lock| lock.end > now).cloned().collect()
    }

    /// Replaces the table by what `next` makes of it.
    fn change<T>(&self, now: Instant, mut next: impl FnMut(&mut Table) -> T) -> T {
        loop {
            let before = self.table.load_full();
            let mut table = Table::clone(&before);
            if table.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP) {
                table.sweep(now);
            }
            let result = next(&mut table);
            let found = self.table.compare_and_swap(&before, Arc::new(table));
            if Arc::ptr_eq(&before, &found) {
                return result;
            }
        }
    }

    /// Adds a lock.
    pub(super) fn add(&self, lock: Lock, now: Instant) -> Result<Arc<Lock>, LockRefusal> {
        let lock = Arc::new(lock);
        let size = lock.size();
        if lock.deep && memchr::memchr_iter(b'/', &lock.path).count() >= MAX_FOLDERS {
            return Err(LockRefusal::Full);
        }
        self.change(now, |table| {
            let meets = |other: &Arc<Lock>| other.end > now && !(other.shared && lock.shared);
            if table.covering(&lock.path).any(meets) || lock.deep && table.below(&lock.path).any(meets) {
                return Err(LockRefusal::Conflict);
            }
            let is_full = |table: &Table| table.count >= MAX_LOCKS || table.used.saturating_add(size) > self.size;
            if is_full(table) {
                table.sweep(now);
            }
            if is_full(table) {
                return Err(LockRefusal::Full);
            }
            table.insert(lock.clone());
            Ok(lock.clone())
        })
    }

    /// Lets a lock of this path with this token last as long as at first again.
    pub(super) fn refresh(&self, token: &str, path: &[u8], now: Instant) -> Option<Arc<Lock>> {
        self.change(now, |table| {
            let lock = table.covering(path).find(|lock| *lock.token == *token && lock.end > now)?.clone();
            let new = Arc::new(Lock { end: now + lock.time, ..Lock::clone(&lock) });
            table.replace(&lock, Some(new.clone()));
            Some(new)
        })
    }

    /// Removes the lock of this path with this token; whether there was one.
    pub(super) fn remove(&self, token: &str, path: &[u8], now: Instant) -> bool {
        self.change(now, |table| {
            let Some(lock) = table.covering(path).find(|lock| *lock.token == *token).cloned() else { return false };
            table.replace(&lock, None);
            lock.end > now
        })
    }

    /// Removes the locks of a path that is no longer there, and of everything below it.
    pub(super) fn remove_tree(&self, path: &[u8], now: Instant) {
        let table = self.table.load_full();
        if table.exact(path).chain(table.below(path)).next().is_none() {
            return;
        }
        let concerns = |lock: &Lock| *lock.path == *path || is_below(&lock.path, path);
        self.change(now, |table| {
            *table = Table::of(table.iter().filter(|lock| !concerns(lock)).cloned().collect(), now);
        });
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
        assert_eq!(locks.add(lock(&long, false, false, now), now).unwrap_err(), LockRefusal::Full);
        let locks = Locks::new(u64::MAX);
        let far = "/a".repeat(MAX_FOLDERS);
        assert_eq!(locks.add(lock(&far, true, false, now), now).unwrap_err(), LockRefusal::Full);
        locks.add(lock(&far[2..], true, false, now), now).unwrap();
        assert_eq!(locks.covering(far[2..].repeat(2).as_bytes(), now).len(), 1);
        let locks = Locks::new(u64::MAX);
        for number in 0..MAX_LOCKS {
            locks.add(lock(&format!("/{number}"), false, false, now), now).unwrap();
        }
        assert_eq!(locks.add(lock("/b", false, false, now), now).unwrap_err(), LockRefusal::Full);
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
        assert_eq!(locks.add(lock("/d", false, false, later), later).unwrap_err(), LockRefusal::Full);
        locks.remove_tree(b"/b", later);
        assert_eq!(locks.all(later).len(), 1);
        assert!(locks.remove(&first.token, b"/a", later));
        assert!(locks.all(later).is_empty());
    }

    #[test]
    fn the_table_finds_what_a_look_at_all_of_them_finds() {
        let now = Instant::now();
        let locks = Locks::new(u64::MAX);
        let mut all: Vec<Lock> = Vec::new();
        // A generator of numbers that need not be good.
        let mut state = 7_u64;
        let mut number = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut path = |parts: u64| (0..parts).map(|_| format!("/{}", number(6))).collect::<String>();
        for step in 0..3000_u64 {
            let (at, deep) = (path(step % 4), step % 3 == 0);
            let lock = Lock { token: format!("urn:{step}").into(), ..lock(&at, deep, true, now) };
            if step % 5 == 4 {
                let token = format!("urn:{}", step - 4);
                let found = all.iter().position(|lock| *lock.token == *token);
                let was_there =
                    found.map(|found| all.remove(found)).is_some_and(|old| locks.remove(&token, &old.path, now));
                assert!(was_there);
            }
            locks.add(lock.clone(), now).unwrap();
            all.push(lock);
        }
        let tokens = |found: Vec<Arc<Lock>>| {
            let mut tokens: Vec<String> = found.iter().map(|lock| lock.token.to_string()).collect();
            tokens.sort();
            tokens
        };
        let wanted = |is_meant: &dyn Fn(&Lock) -> bool| {
            tokens(all.iter().filter(|lock| is_meant(lock)).cloned().map(Arc::new).collect())
        };
        for parts in 0..5 {
            for _ in 0..50 {
                let at = path(parts);
                let at = at.as_bytes();
                assert_eq!(tokens(locks.covering(at, now)), wanted(&|lock| lock.covers(at)));
                assert_eq!(tokens(locks.exact(at, now)), wanted(&|lock| *lock.path == *at));
                assert_eq!(tokens(locks.below(at, now)), wanted(&|lock| is_below(&lock.path, at)));
            }
        }
        assert_eq!(tokens(locks.all(now)), wanted(&|_| true));
        locks.remove_tree(b"/1", now);
        assert_eq!(tokens(locks.all(now)), wanted(&|lock| !(*lock.path == *b"/1" || is_below(&lock.path, b"/1"))));
        assert_eq!(locks.table.load().count, locks.all(now).len());
        assert_eq!(locks.table.load().used, locks.all(now).iter().map(|lock| lock.size()).sum::<usize>());
    }
}
