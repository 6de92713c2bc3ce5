//! The beginnings of sorted names, side by side in memory: a search among thousands of names reads few lines of the
//! processor's cache, and only the last step reads names.

use std::ops::Range;

/// Number of bytes of a key.
const KEY_BYTES: usize = size_of::<u64>();

/// The keys of sorted names: of each the bytes that follow those that all names begin with in common.
#[derive(Debug, Default)]
pub struct PrefixKeys {
    /// The bytes that all names begin with.
    shared: Box<[u8]>,
    /// The key of each name, in the order of the names. Zeros fill up a short one, so names with the same key stand side by
    /// side, in an order that the keys do not tell.
    keys: Vec<u64>,
}

impl PrefixKeys {
    /// Enters a name that has come to the sorted `names` at a position.
    pub fn insert<'n>(&mut self, at: usize, names: &(impl Fn(usize) -> &'n [u8] + ?Sized)) {
        let name = names(at);
        let kept = if self.keys.is_empty() { name.len() } else { common_length(&self.shared, name) };
        self.keys.insert(at, key(&name[kept..]));
        if self.keys.len() == 1 {
            self.shared = name.into();
        } else if kept < self.shared.len() {
            self.shared = name[..kept].into();
            for (index, key_of_name) in self.keys.iter_mut().enumerate() {
                *key_of_name = key(&names(index)[kept..]);
            }
        }
        debug_assert!(self.keys.is_sorted(), "names are sorted");
    }

    /// The positions of the names that have the same key as the path: all names before them are smaller than the path, all behind
    /// them are larger. `None`: the path begins with no name.
    pub fn equal(&self, path: &[u8]) -> Option<Range<usize>> {
        let key = key(path.strip_prefix(&*self.shared)?);
        let begin = self.keys.partition_point(|other| *other < key);
        let length = self.keys[begin..].partition_point(|other| *other == key);
        Some(begin..begin + length)
    }
}

/// The number of bytes that both begin with.
fn common_length(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// The first bytes of a name, so that keys have the order of names.
fn key(bytes: &[u8]) -> u64 {
    let mut key = [0; KEY_BYTES];
    let length = bytes.len().min(KEY_BYTES);
    key[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of up to four of the bytes, behind a beginning that is longer than a key and one that is not.
    fn words() -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = vec![b"/".to_vec(), b"/a".to_vec(), b"/long beginning/".to_vec()];
        for _ in 0..3 {
            let longer: Vec<_> = words
                .iter()
                .flat_map(|word| b"\0a\xff".iter().map(move |byte| [word, &[*byte][..]].concat()))
                .collect();
            words.extend(longer);
        }
        words.sort();
        words.dedup();
        words
    }

    /// Enters names in this order.
    fn entered(order: &[&Vec<u8>]) -> (PrefixKeys, Vec<Vec<u8>>) {
        let (mut keys, mut names): (PrefixKeys, Vec<Vec<u8>>) = Default::default();
        for name in order {
            let at = names.partition_point(|other| other < *name);
            names.insert(at, name.to_vec());
            keys.insert(at, &|index: usize| &*names[index]);
        }
        (keys, names)
    }

    #[test]
    fn names_before_are_smaller_and_names_behind_are_larger() {
        let words = words();
        for step in [1, 2, 7, 31, words.len() - 1] {
            for backwards in [false, true] {
                let mut order: Vec<_> = words.iter().step_by(step).collect();
                if backwards {
                    order.reverse();
                }
                let (keys, names) = entered(&order);
                for path in &words {
                    let is_prefix = |name: &Vec<u8>| path.starts_with(name);
                    let Some(equal) = keys.equal(path) else {
                        assert!(!names.iter().any(is_prefix), "{path:?} begins with one of {names:?}");
                        continue;
                    };
                    assert!(names[..equal.start].iter().all(|name| name < path), "{path:?} in {names:?}: {equal:?}");
                    assert!(names[equal.end..].iter().all(|name| name > path), "{path:?} in {names:?}: {equal:?}");
                }
            }
        }
    }
}
