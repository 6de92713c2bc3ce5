//! Purges of many objects at a time, by the beginning of their keys or by a tag: in force at once, whatever their
//! number.
//!
//! A purge is an entry in a list, with a sequence number. An object has the number that was the newest when it was
//! fetched, and is compared with the newer purges when it is opened. Meanwhile the cache's thread goes through all
//! objects and removes those that the purge means; then the purge leaves the list. The list is kept on the disk, so a
//! purge outlives the process.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::index::Index;

/// The most purges whose objects are still being removed. One more purges everything.
pub const MAX_PURGES: usize = 65_536;

/// The limit of the texts of all purges together, in bytes. Beyond it one more purges everything, too.
pub const MAX_TEXTS: usize = 16 << 20;

/// The longest text of a purge in bytes; a longer one is refused.
pub const MAX_TEXT: usize = 16 * 1024;

const _: () = assert!(MAX_TEXT < MAX_TEXTS, "one purge leaves room for others");

/// The objects that a purge means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// Objects whose keys begin with this (`…*` in a purge request).
    Prefix(Bytes),
    /// Objects whose responses had this tag (`Surrogate-Key`, `Cache-Tag`).
    Tag(Bytes),
    /// Objects with exactly this key: all variants of it (`Vary`).
    Key(Bytes),
}

impl Purge {
    /// Whether an object with that key and those tags is meant.
    pub fn means(&self, key: &[u8], tags: &[Bytes]) -> bool {
        match self {
            Purge::Prefix(prefix) => key.starts_with(prefix),
            Purge::Tag(tag) => tags.contains(tag),
            Purge::Key(text) => key == text,
        }
    }

    pub(crate) fn text(&self) -> &Bytes {
        match self {
            Purge::Prefix(text) | Purge::Tag(text) | Purge::Key(text) => text,
        }
    }
}

/// Reason why a purge is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PurgeRefused {
    /// The text of the purge is longer than [`MAX_TEXT`].
    #[error("the text of the purge is too long")]
    TooLong,
}

/// A purge in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) what: Purge,
    pub(crate) sequence: u64,
}

/// Purges of one kind: their texts, each with the number of the newest one.
type Table = papaya::HashMap<Bytes, u64, FxBuildHasher>;

/// The list of purges. Comparing an object with it takes a few look-ups in tables, for any number of purges.
#[derive(Debug)]
pub(crate) struct Purges {
    /// Held while a purge is added, for a few look-ups: the newest number is published when all purges before it can be
    /// seen. A comparison does not take this lock.
    order: Mutex<()>,
    prefixes: Table,
    tags: Table,
    keys: Table,
    /// For each length, the number of prefixes that have it.
    lengths: Box<[AtomicU32]>,
    /// The bytes of all texts.
    texts: AtomicUsize,
    newest: AtomicU64,
    /// The newest purge that has left the list: an object that was not compared with it may not be used.
    dropped: AtomicU64,
}

impl Default for Purges {
    fn default() -> Purges {
        Purges {
            order: Mutex::default(),
            prefixes: Table::default(),
            tags: Table::default(),
            keys: Table::default(),
            lengths: (0..=MAX_TEXT).map(|_| AtomicU32::new(0)).collect(),
            texts: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }
}

fn is_newer(table: &Table, text: &[u8], than: u64) -> bool {
    !table.is_empty() && table.pin().get(text).is_some_and(|number| *number > than)
}

impl Purges {
    /// Adds a purge; it replaces one of the same meaning. If there are too many, everything is purged.
    pub(crate) fn add(&self, what: &Purge, index: &Index) -> Result<u64, PurgeRefused> {
        if what.text().len() > MAX_TEXT {
            return Err(PurgeRefused::TooLong);
        }
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.len() >= MAX_PURGES || self.texts.load(Relaxed) + what.text().len() > MAX_TEXTS;
        let number = index.next_sequence();
        if is_full && self.number_of(what).is_none() {
            self.put(&Purge::Prefix(Bytes::new()), number)
        } else {
            self.put(what, number)
        }
        let before = self.newest.fetch_max(number, AcqRel);
        debug_assert!(before < number, "purge {number} comes after {before}");
        Ok(number)
    }

    fn table(&self, what: &Purge) -> &Table {
        match what {
            Purge::Prefix(_) => &self.prefixes,
            Purge::Tag(_) => &self.tags,
            Purge::Key(_) => &self.keys,
        }
    }

    fn number_of(&self, what: &Purge) -> Option<u64> {
        self.table(what).pin().get(what.text()).copied()
    }

    fn put(&self, what: &Purge, number: u64) {
        // The purge is counted before it is in the table, so that it is never there uncounted.
        self.count(what);
        // The text is copied, so that it does not keep a request's buffer alive.
        let text = Bytes::copy_from_slice(what.text());
        if self.table(what).pin().insert(text, number).is_some() {
            self.uncount(what);
        }
    }

    fn count(&self, what: &Purge) {
        self.texts.fetch_add(what.text().len(), Relaxed);
        if let Purge::Prefix(text) = what {
            self.lengths[text.len()].fetch_add(1, AcqRel);
        }
    }

    fn uncount(&self, what: &Purge) {
        let before = self.texts.fetch_sub(what.text().len(), Relaxed);
        debug_assert!(before >= what.text().len(), "a purge leaves that was never counted");
        if let Purge::Prefix(text) = what {
            let before = self.lengths[text.len()].fetch_sub(1, AcqRel);
            debug_assert!(before > 0, "a prefix of {} bytes leaves that was never counted", text.len());
        }
    }

    /// The number of the newest purge; 0 before the first one.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Acquire)
    }

    /// Whether a purge means the object that is newer than `sequence`, up to which the object was compared.
    pub(crate) fn means(&self, sequence: u64, key: &[u8], tags: &[Bytes]) -> bool {
        // The tables come first: once a purge has left them, it cannot be compared any more.
        let begins = || {
            let lengths = self.lengths.iter().enumerate().take(key.len() + 1);
            let mut used = lengths.filter(|(_, count)| count.load(Acquire) > 0);
            used.any(|(length, _)| is_newer(&self.prefixes, &key[..length], sequence))
        };
        tags.iter().any(|tag| is_newer(&self.tags, tag, sequence))
            || is_newer(&self.keys, key, sequence)
            || !self.prefixes.is_empty() && begins()
            || self.dropped.load(Acquire) > sequence
    }

    /// The list as it is now, the oldest purge first.
    pub(crate) fn list(&self) -> Vec<Active> {
        let mut all = Vec::new();
        let mut take = |table: &Table, kind: fn(Bytes) -> Purge| {
            let table = table.pin();
            all.extend(table.iter().map(|(text, number)| Active { what: kind(text.clone()), sequence: *number }));
        };
        take(&self.prefixes, Purge::Prefix);
        take(&self.tags, Purge::Tag);
        take(&self.keys, Purge::Key);
        all.sort_unstable_by_key(|purge| purge.sequence);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.prefixes.len() + self.tags.len() + self.keys.len()
    }

    /// Takes purges from the list that a sweep is done with: all up to this number.
    pub(crate) fn done(&self, sequence: u64) {
        debug_assert!(sequence <= self.newest(), "purge {sequence} is done and was never made");
        // This comes first: a thread that finds the list without the purge has to see its number.
        self.dropped.fetch_max(sequence, AcqRel);
        for Active { what, .. } in self.list().iter().filter(|purge| purge.sequence <= sequence) {
            // The purge may have been asked for again meanwhile.
            let table = self.table(what).pin();
            if matches!(table.remove_if(what.text(), |_, number| *number <= sequence), Ok(Some(_))) {
                self.uncount(what);
            }
        }
    }

    /// Takes in the purges of an earlier process; purges of this process meanwhile get newer numbers.
    pub(crate) fn restore(&self, earlier: &[Active], index: &Index) {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let last = earlier.iter().map(|purge| purge.sequence).max().unwrap_or(0);
        index.raise_sequence(last);
        let known: FxHashMap<u64, &Purge> = earlier.iter().map(|purge| (purge.sequence, &purge.what)).collect();
        let own: Vec<Active> =
            self.list().into_iter().filter(|purge| known.get(&purge.sequence) != Some(&&purge.what)).collect();
        for Active { what, sequence } in earlier {
            self.put(what, *sequence);
        }
        let mut newest = last;
        for Active { what, .. } in &own {
            newest = index.next_sequence();
            self.put(what, newest);
        }
        self.newest.fetch_max(newest, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Purge {
        Purge::Prefix(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn what_a_purge_means() {
        let tags = [Bytes::from_static(b"shoes"), Bytes::from_static(b"sale")];
        let cases = [
            (prefix("http://a/"), true),
            (prefix("http://b/"), false),
            (prefix(""), true),
            (Purge::Tag(Bytes::from_static(b"sale")), true),
            (Purge::Tag(Bytes::from_static(b"sal")), false),
            (Purge::Key(Bytes::from_static(b"http://a/x")), true),
            (Purge::Key(Bytes::from_static(b"http://a/")), false),
        ];
        for (purge, meant) in cases {
            assert_eq!(purge.means(b"http://a/x", &tags), meant, "{purge:?}");
        }
    }

    #[test]
    fn only_objects_fetched_before_it_are_meant() {
        let (purges, index) = (Purges::default(), Index::new(10, 1 << 20));
        let before = index.sequence();
        let number = purges.add(&prefix("/a"), &index).unwrap();
        assert!(number > before && purges.newest() == number);
        assert!(purges.means(before, b"/a/b", &[]));
        assert!(!purges.means(before, b"/b", &[]));
        assert!(!purges.means(index.sequence(), b"/a/b", &[]));
        purges.done(number);
        // An object that was not compared with a purge before it left the list is not used.
        assert!(purges.means(before, b"/b", &[]));
        assert!(!purges.means(number, b"/a/b", &[]));
        assert_eq!(purges.newest(), number);
    }

    #[test]
    fn the_list_is_bounded_and_holds_each_purge_once() {
        let (purges, index) = (Purges::default(), Index::new(10, 1 << 20));
        let before = index.sequence();
        for number in 0..MAX_PURGES {
            purges.add(&prefix(&format!("/{number}")), &index).unwrap();
        }
        assert_eq!((purges.list().len(), purges.list()[0].what.clone()), (MAX_PURGES, prefix("/0")));
        assert!(purges.means(before, b"/65535/a", &[]) && !purges.means(before, b"/x", &[]));
        let again = purges.add(&prefix("/0"), &index).unwrap();
        assert_eq!(purges.len(), MAX_PURGES);
        assert!(purges.means(again - 1, b"/0", &[]) && !purges.means(before, b"/y", &[]));
        // One more purge means everything that there was.
        let more = purges.add(&prefix("/x"), &index).unwrap();
        assert!(purges.means(more - 1, b"/y", &[]) && !purges.means(more, b"/x", &[]));
        let long = Purge::Tag(Bytes::from(vec![b'x'; MAX_TEXT + 1]));
        assert_eq!(purges.add(&long, &index), Err(PurgeRefused::TooLong));
        purges.done(again - 1);
        assert_eq!(purges.len(), 2);
        purges.done(more);
        assert_eq!((purges.len(), purges.texts.load(Relaxed)), (0, 0));
        assert!(purges.lengths.iter().all(|count| count.load(Relaxed) == 0));
        // Their memory is bounded, too.
        for number in 0..MAX_TEXTS / MAX_TEXT + 10 {
            let text = Bytes::from(format!("{number:0MAX_TEXT$}"));
            purges.add(&Purge::Tag(text), &index).unwrap();
            assert!(purges.texts.load(Relaxed) <= MAX_TEXTS);
        }
        assert!(purges.means(more, b"/y", &[]));
    }

    #[test]
    fn purges_of_an_earlier_process_come_first() {
        let (purges, index) = (Purges::default(), Index::new(10, 1 << 20));
        purges.add(&prefix("/new"), &index).unwrap();
        let earlier = vec![Active { what: prefix("/old"), sequence: 70 }];
        purges.restore(&earlier, &index);
        let list = purges.list();
        assert_eq!(list.iter().map(|purge| purge.what.clone()).collect::<Vec<_>>(), [prefix("/old"), prefix("/new")]);
        assert!(list[1].sequence > 70 && purges.newest() == list[1].sequence);
        assert!(purges.means(0, b"/old", &[]) && purges.means(70, b"/new", &[]));
    }
}
