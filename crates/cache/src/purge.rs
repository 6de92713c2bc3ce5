//! Purges of many objects at a time, by the beginning of their keys or by a tag: in force at once, whatever their number.
//!
//! A purge is an entry in a list, with a sequence number. An object has the number that was the newest when it was
//! fetched, and is compared with the newer purges when it is opened. Meanwhile the cache's thread goes through all objects
//! and removes those that are meant; then the purge leaves the list. The list is kept on the disk, so a purge outlives the
//! process.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::index::Index;

/// The most purges whose objects are still being removed; one more is refused.
pub const MAX_PURGES: usize = 256;

/// The longest text of a purge in bytes; one that is longer is refused.
pub const MAX_TEXT: usize = 16 * 1024;

/// What is meant.
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

/// Why a purge is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PurgeRefused {
    /// There are [`MAX_PURGES`] of them whose objects are still being removed. 503, and it may be asked for again.
    #[error("too many purges are still at work")]
    TooMany,
    /// Its text is longer than [`MAX_TEXT`].
    #[error("the text of the purge is too long")]
    TooLong,
}

/// A purge in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Active {
    pub(crate) what: Purge,
    pub(crate) sequence: u64,
}

/// The list, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    list: ArcSwap<Vec<Active>>,
    newest: AtomicU64,
    /// The newest one that has left the list: an object that was never compared with it may not be used.
    dropped: AtomicU64,
}

impl Purges {
    /// Adds one. One that means the same is in it already only to be overtaken.
    pub(crate) fn add(&self, what: &Purge, index: &Index) -> Result<u64, PurgeRefused> {
        if what.text().len() > MAX_TEXT {
            return Err(PurgeRefused::TooLong);
        }
        let mut outcome = Err(PurgeRefused::TooMany);
        self.list.rcu(|list| {
            let others = list.iter().filter(|other| other.what != *what);
            if others.clone().count() >= MAX_PURGES {
                outcome = Err(PurgeRefused::TooMany);
                return list.clone();
            }
            // Taken anew with each try, so that the list stays in order.
            let sequence = index.next_sequence();
            outcome = Ok(sequence);
            Arc::new(others.cloned().chain([Active { what: what.clone(), sequence }]).collect())
        });
        if let Ok(sequence) = outcome {
            self.newest.fetch_max(sequence, AcqRel);
        }
        outcome
    }

    /// The number of the newest one; 0 before the first one.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Acquire)
    }

    /// Whether a purge newer than `sequence`, up to which the object was compared with them, means it.
    pub(crate) fn means(&self, sequence: u64, key: &[u8], tags: &[Bytes]) -> bool {
        let list = self.list.load();
        // Once a purge has left the list nobody can tell any more whom it meant.
        self.dropped.load(Acquire) > sequence
            || list.iter().rev().take_while(|purge| purge.sequence > sequence).any(|purge| purge.what.means(key, tags))
    }

    /// The list as it is.
    pub(crate) fn list(&self) -> Arc<Vec<Active>> {
        self.list.load_full()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.load().len()
    }

    /// Takes out what a sweep is through with: everything up to that number.
    pub(crate) fn done(&self, sequence: u64) {
        // First this: who finds the list without it has to know.
        self.dropped.fetch_max(sequence, AcqRel);
        self.list.rcu(|list| {
            let left: Vec<Active> = list.iter().filter(|purge| purge.sequence > sequence).cloned().collect();
            Arc::new(left)
        });
    }

    /// Puts those of an earlier process in front; what was asked for in this one meanwhile gets newer numbers.
    pub(crate) fn restore(&self, earlier: &[Active], index: &Index) {
        let last = earlier.iter().map(|purge| purge.sequence).max().unwrap_or(0);
        index.raise_sequence(last);
        let mut newest = last;
        self.list.rcu(|list| {
            let mut all: Vec<Active> = earlier.to_vec();
            for purge in list.iter().filter(|purge| !earlier.contains(purge)) {
                newest = index.next_sequence();
                all.push(Active { what: purge.what.clone(), sequence: newest });
            }
            Arc::new(all)
        });
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
        // What was not compared with it before it left the list is not used.
        assert!(purges.means(before, b"/b", &[]));
        assert!(!purges.means(number, b"/a/b", &[]));
        assert_eq!(purges.newest(), number);
    }

    #[test]
    fn the_list_is_bounded_and_holds_each_purge_once() {
        let (purges, index) = (Purges::default(), Index::new(10, 1 << 20));
        for number in 0..MAX_PURGES {
            purges.add(&prefix(&number.to_string()), &index).unwrap();
        }
        assert_eq!(purges.add(&prefix("x"), &index), Err(PurgeRefused::TooMany));
        let again = purges.add(&prefix("0"), &index).unwrap();
        assert_eq!(purges.len(), MAX_PURGES);
        assert!(purges.means(again - 1, b"0", &[]));
        let long = Purge::Tag(Bytes::from(vec![b'x'; MAX_TEXT + 1]));
        assert_eq!(purges.add(&long, &index), Err(PurgeRefused::TooLong));
        purges.done(again - 1);
        assert_eq!(purges.len(), 1);
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
