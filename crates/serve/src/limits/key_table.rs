//! A table of fixed size, without locks, with a few words for each key in use.
//!
//! A key has its place in one of the sets of [`WAYS`] entries. When a set is full, the entry that was used least recently makes
//! room, so that memory never grows and a key costs the same however many there are. Instead of the keys, fingerprints of 64 bits
//! are kept; it is practically impossible that two keys of one set have the same one (and so share an entry).
//!
//! The last word of an entry is the time of its last use. A refused request counts as a use, because the key of a client that is
//! refused all the time must not seem unused.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bucket::age;
use super::key::Hasher;

/// The number of entries in a set.
pub const WAYS: usize = 16;

/// The tag of a place that was never used.
pub const EMPTY: u64 = 0;
/// The tag of a place that is being given to another key. All keys have larger tags.
pub const BUSY: u64 = 1;
/// The number of looks at a place with the tag [`BUSY`]. The change takes a few writes; a thread that is interrupted between them
/// must not block the others.
const PATIENCE: usize = 64;

/// The place of a key in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlace {
    /// The index of its set.
    pub set: usize,
    /// The tag that tells it from others there.
    pub tag: u64,
}

/// A table with `WORDS` words for each key, besides its tag.
#[derive(Debug)]
pub struct KeyTable<const WORDS: usize> {
    words: Box<[AtomicU64]>,
    hasher: Hasher,
}

impl<const WORDS: usize> KeyTable<WORDS> {
    /// The number of words in a set: its tags, then the first words of its entries, and so on.
    pub const SET: usize = (1 + WORDS) * WAYS;

    /// A table of as many entries as `size` bytes hold. `None` if there is not enough memory.
    pub fn new(size: u64, hasher: Hasher) -> Option<KeyTable<WORDS>> {
        let words = usize::try_from(size / 8).ok()? / Self::SET * Self::SET;
        let words = freerun_sys::memory::zeroed_atomics(words.max(Self::SET))?;
        Some(KeyTable { words, hasher })
    }

    /// All words, set by set.
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// The hasher that finds the places of keys.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The number of entries that fit.
    pub fn capacity(&self) -> usize {
        self.words.len() / Self::SET * WAYS
    }

    /// The place of a key.
    pub fn place(&self, key: &[u8]) -> KeyPlace {
        let key = self.hasher.of(key);
        KeyPlace { set: key.set(self.words.len() / Self::SET), tag: key.tag.max(BUSY + 1) }
    }

    /// All entries, used or not.
    pub fn entries(&self) -> impl Iterator<Item = [&AtomicU64; WORDS]> {
        self.words
            .chunks_exact(Self::SET)
            .flat_map(|set| (0..WAYS).map(move |way| std::array::from_fn(|word| &set[(1 + word) * WAYS + way])))
    }

    /// The entry of a key, if it has one.
    pub fn find(&self, place: KeyPlace) -> Option<[&AtomicU64; WORDS]> {
        let (tags, words) = self.words.get(place.set * Self::SET..(place.set + 1) * Self::SET)?.split_at(WAYS);
        // Acquire: the words were written before the tag.
        let way = tags.iter().position(|known| known.load(Ordering::Acquire) == place.tag)?;
        Some(std::array::from_fn(|word| &words[word * WAYS + way]))
    }

    /// The entry of a key, whose last use is `now` then, and the time since the use before in milliseconds, if it is not new. A new one
    /// begins with `fresh`, whose last word is `now`. `None`: another thread was changing the set for too long.
    pub fn entry(&self, place: KeyPlace, now: u32, fresh: [u64; WORDS]) -> Option<([&AtomicU64; WORDS], Option<u32>)> {
        for _ in 0..PATIENCE {
            if let Some(words) = self.find(place) {
                let last = words[WORDS - 1].load(Ordering::Relaxed) as u32;
                words[WORDS - 1].store(now.into(), Ordering::Relaxed);
                return Some((words, Some(age(last, now))));
            }
            let (tags, words) = self.words[place.set * Self::SET..(place.set + 1) * Self::SET].split_at(WAYS);
            if tags.iter().any(|tag| tag.load(Ordering::Relaxed) == BUSY) {
                hint::spin_loop();
            } else if let Some(way) = claim(tags, words, place.tag, now, fresh) {
                return Some((std::array::from_fn(|word| &words[word * WAYS + way]), None));
            }
        }
        None
    }
}

/// Takes an empty place, or the least recently used one. `None`: another thread was faster.
fn claim<const WORDS: usize>(
    tags: &[AtomicU64],
    words: &[AtomicU64],
    tag: u64,
    now: u32,
    fresh: [u64; WORDS],
) -> Option<usize> {
    let used = &words[(WORDS - 1) * WAYS..];
    let empty = tags.iter().position(|tag| tag.load(Ordering::Relaxed) == EMPTY);
    let unused = |way: &usize| age(used[*way].load(Ordering::Relaxed) as u32, now);
    let way = empty.or_else(|| (0..WAYS).max_by_key(unused)).unwrap_or(0);
    let old = tags[way].load(Ordering::Relaxed);
    if old == BUSY || tags[way].compare_exchange(old, BUSY, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return None;
    }
    for (word, value) in fresh.into_iter().enumerate() {
        words[word * WAYS + way].store(value, Ordering::Relaxed);
    }
    tags[way].store(tag, Ordering::Release);
    Some(way)
}
