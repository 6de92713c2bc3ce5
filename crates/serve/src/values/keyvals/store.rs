//! A zone of key-value pairs: loops look values up without a lock, and threads of pools change pairs one after the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use freerun_runtime::log::clock;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use super::keys::{self, KeyvalType, Lengths, PairKey};

/// The size of a pair besides its texts, in bytes.
const OVERHEAD: u64 = 160;

/// A pair.
#[derive(Debug)]
struct Pair {
    /// The key as it is written.
    key: Box<str>,
    value: Box<str>,
    /// The time until which it is there, in milliseconds since 1970.
    until: Option<u64>,
}

impl Pair {
    fn size(&self) -> u64 {
        // A key is in the table once more.
        (2 * self.key.len() + self.value.len()) as u64 + OVERHEAD
    }

    fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The reason that pairs are not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairRefusal {
    /// A text is no key of the zone's kind.
    #[error("invalid key format")]
    Key,
    /// There is no pair with this key.
    #[error("keyval key not found")]
    NotFound,
    /// There is a pair with this key.
    #[error("key already exists")]
    Exists,
    /// Several pairs are added at once to a zone that has some already.
    #[error("only one key can be added")]
    NotEmpty,
    /// The zone has no room.
    #[error("the keyval zone has no room")]
    Full,
}

/// A pair that is to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The lifetime of the pair; `None`: for ever.
    pub lasts: Option<Duration>,
}

/// A change of pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairChange {
    /// Adds these pairs, whose keys are not there yet; several only to an empty zone.
    Add(Vec<New>),
    /// Gives a pair another value, another end, or both.
    Set {
        /// The key of the pair.
        key: String,
        /// The new value; `None`: it stays.
        value: Option<String>,
        /// The lifetime of the pair from now on. `None`: its end stays as it is, but with a new value the zone's own time
        /// begins anew.
        lasts: Option<Duration>,
    },
    /// Removes a pair.
    Remove(String),
    /// Removes all pairs.
    Clear,
}

/// A pair as a state file has it.
#[derive(Serialize, Deserialize)]
struct SavedPair {
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

/// The pairs of a zone. They survive reloads.
#[derive(Debug)]
pub struct Keyvals {
    kind: KeyvalType,
    /// The most bytes that the pairs take.
    room: u64,
    used: AtomicU64,
    lengths: Lengths,
    pairs: papaya::HashMap<PairKey, Arc<Pair>, FxBuildHasher>,
    /// Held by the thread that changes pairs.
    changing: Mutex<()>,
    /// Whether the state file was read.
    is_loaded: AtomicBool,
}

fn now() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX)
}

fn until(now: u64, lasts: Option<Duration>) -> Option<u64> {
    lasts.map(|lasts| now.saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)))
}

impl Keyvals {
    /// A zone without pairs, whose pairs may take `room` bytes.
    pub fn new(kind: KeyvalType, room: u64) -> Keyvals {
        Keyvals {
            kind,
            room,
            used: AtomicU64::new(0),
            lengths: Lengths::default(),
            pairs: papaya::HashMap::default(),
            changing: Mutex::new(()),
            is_loaded: AtomicBool::new(false),
        }
    }

    /// The value for a text.
    pub fn look_up(&self, text: &[u8]) -> Option<Vec<u8>> {
        let pairs = self.pairs.pin();
        let find = |key: &[u8]| {
            let pair = pairs.get(key)?;
            // The clock is asked only for pairs that end.
            (pair.until.is_none() || !pair.is_over(now())).then(|| pair.value.as_bytes().to_vec())
        };
        keys::look_up(self.kind, text, &self.lengths, find)
    }

    /// The value of the pair with this very key.
    pub fn get(&self, key: &str) -> Option<String> {
        let pair = self.pairs.pin().get(&keys::of_pair(self.kind, key, &self.lengths)?)?.clone();
        (!pair.is_over(now())).then(|| pair.value.to_string())
    }

    /// Number of pairs, including pairs whose time is over and that still have their places.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All pairs.
    pub fn all(&self) -> BTreeMap<String, String> {
        let now = now();
        let pairs = self.pairs.pin();
        let there = pairs.values().filter(|pair| !pair.is_over(now));
        there.map(|pair| (pair.key.to_string(), pair.value.to_string())).collect()
    }

    /// Changes pairs; new values last for `timeout`. It waits for others that change the zone, so a loop never calls it.
    ///
    /// # Errors
    /// [`PairRefusal`]; nothing has changed then.
    pub fn change(&self, change: &PairChange, timeout: Option<Duration>) -> Result<(), PairRefusal> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        match change {
            PairChange::Add(all) => self.add(all, timeout, now),
            PairChange::Set { key, value, lasts } => {
                let place = self.key(key)?;
                let old = self.there(&place, now).ok_or(PairRefusal::NotFound)?;
                let until = match (lasts, value) {
                    (Some(_), _) => until(now, *lasts),
                    (None, Some(_)) => until(now, timeout),
                    (None, None) => old.until,
                };
                let value = value.as_deref().unwrap_or(&old.value).into();
                self.put(place, Pair { key: old.key.clone(), value, until }, now)
            }
            PairChange::Remove(key) => {
                let place = self.key(key)?;
                let was_there = self.there(&place, now).is_some();
                self.take(&place);
                if was_there { Ok(()) } else { Err(PairRefusal::NotFound) }
            }
            PairChange::Clear => {
                self.pairs.pin().clear();
                self.used.store(0, Relaxed);
                Ok(())
            }
        }
    }

    fn add(&self, all: &[New], timeout: Option<Duration>, now: u64) -> Result<(), PairRefusal> {
        let mut pairs = BTreeMap::new();
        for new in all {
            let place = self.key(&new.key)?;
            if self.there(&place, now).is_some() {
                return Err(PairRefusal::Exists);
            }
            let (key, value) = (new.key.as_str().into(), new.value.as_str().into());
            pairs.insert(place, Pair { key, value, until: until(now, new.lasts.or(timeout)) });
        }
        if pairs.len() > 1 && self.pairs.pin().values().any(|pair| !pair.is_over(now)) {
            return Err(PairRefusal::NotEmpty);
        }
        let size = pairs.values().map(Pair::size).sum();
        self.make_room(size, now)?;
        for (place, pair) in pairs {
            self.put(place, pair, now)?;
        }
        Ok(())
    }

    fn key(&self, text: &str) -> Result<PairKey, PairRefusal> {
        keys::of_pair(self.kind, text, &self.lengths).ok_or(PairRefusal::Key)
    }

    fn there(&self, place: &PairKey, now: u64) -> Option<Arc<Pair>> {
        self.pairs.pin().get(place).filter(|pair| !pair.is_over(now)).cloned()
    }

    fn take(&self, place: &PairKey) {
        if let Some(old) = self.pairs.pin().remove(place) {
            self.free(old);
        }
    }

    fn put(&self, place: PairKey, pair: Pair, now: u64) -> Result<(), PairRefusal> {
        // A pair that is over gives its room as soon as there is none.
        let before = self.there(&place, now).map_or(0, |old| old.size());
        self.make_room(pair.size().saturating_sub(before), now)?;
        self.used.fetch_add(pair.size(), Relaxed);
        if let Some(old) = self.pairs.pin().insert(place, Arc::new(pair)) {
            self.free(old);
        }
        debug_assert!(self.used.load(Relaxed) <= self.room, "the pairs take more than their zone has");
        Ok(())
    }

    /// Gives back the room of a pair that has left.
    fn free(&self, old: &Pair) {
        let before = self.used.fetch_sub(old.size(), Relaxed);
        debug_assert!(before >= old.size(), "a pair of {} bytes leaves that was not counted", old.size());
    }

    /// Makes room for this many bytes; pairs whose time is over give theirs.
    fn make_room(&self, bytes: u64, now: u64) -> Result<(), PairRefusal> {
        let has_room = || self.used.load(Relaxed).saturating_add(bytes) <= self.room;
        if has_room() {
            return Ok(());
        }
        let pairs = self.pairs.pin();
        let over: Vec<PairKey> =
            pairs.iter().filter(|(_, pair)| pair.is_over(now)).map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.take(key));
        if has_room() { Ok(()) } else { Err(PairRefusal::Full) }
    }

    /// The one way to write a key of the zone: all texts that stand for the same pair have the same. `None`: it is no key.
    pub fn canonical(&self, key: &str) -> Option<String> {
        keys::canonical(self.kind, key)
    }

    /// Whether the zone has room for these changes, as far as that can be known before they are made.
    pub fn has_room(&self, change: &PairChange) -> bool {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let size = |key: &str, value: &str| Pair { key: key.into(), value: value.into(), until: None }.size();
        let now = now();
        let bytes = match change {
            PairChange::Add(all) => all.iter().map(|new| size(&new.key, &new.value)).sum(),
            PairChange::Set { key, value: Some(value), .. } => {
                let before = self.key(key).ok().and_then(|place| self.there(&place, now)).map_or(0, |old| old.size());
                size(key, value).saturating_sub(before)
            }
            PairChange::Set { value: None, .. } | PairChange::Remove(_) | PairChange::Clear => 0,
        };
        self.make_room(bytes, now).is_ok()
    }

    /// Stores a pair as another node has it, whatever there is; `until` in milliseconds since 1970. It waits for others that
    /// change the zone, so a loop never calls it.
    ///
    /// # Errors
    /// [`PairRefusal::Key`] or [`PairRefusal::Full`]; nothing has changed then.
    pub fn store(&self, key: &str, value: &str, until: Option<u64>) -> Result<(), PairRefusal> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.key(key)?;
        self.put(place, Pair { key: key.into(), value: value.into(), until }, now())
    }

    /// Removes the pair with this key, if there is one. It waits for others that change the zone, so a loop never calls it.
    pub fn forget(&self, key: &str) {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(place) = self.key(key) {
            self.take(&place);
        }
    }

    /// The value and the end of the pair with this key, in milliseconds since 1970.
    pub fn entry(&self, key: &str) -> Option<(String, Option<u64>)> {
        let place = keys::of_pair(self.kind, key, &self.lengths)?;
        self.there(&place, now()).map(|pair| (pair.value.to_string(), pair.until))
    }

    /// All pairs with their ends, in milliseconds since 1970.
    pub fn entries(&self) -> Vec<(String, String, Option<u64>)> {
        let now = now();
        let pairs = self.pairs.pin();
        let there = pairs.values().filter(|pair| !pair.is_over(now));
        there.map(|pair| (pair.key.to_string(), pair.value.to_string(), pair.until)).collect()
    }

    /// The pairs as a state file has them: JSON.
    pub fn save(&self) -> Vec<u8> {
        let now = now();
        let pairs = self.pairs.pin();
        let there = pairs.values().filter(|pair| !pair.is_over(now));
        let all: BTreeMap<&str, SavedPair> =
            there.map(|pair| (&*pair.key, SavedPair { value: pair.value.to_string(), until: pair.until })).collect();
        serde_json::to_vec_pretty(&all).unwrap_or_default()
    }

    /// Adds the pairs of a state file, unless that was done before. Pairs that are over, that are none of this kind, or for
    /// which there is no room are left out. Returns how many of these there were; `None`: the file is none.
    pub fn restore(&self, saved: &[u8]) -> Option<usize> {
        let _alone = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let all: BTreeMap<String, SavedPair> = serde_json::from_slice(saved).ok()?;
        let now = now();
        let mut left_out = 0;
        for (key, SavedPair { value, until }) in all {
            let pair = Pair { key: key.as_str().into(), value: value.into(), until };
            if !pair.is_over(now) && !self.key(&key).is_ok_and(|place| self.put(place, pair, now).is_ok()) {
                left_out += 1;
            }
        }
        Some(left_out)
    }

    /// Whether the state file has to be read: `true` once.
    pub fn begin_loading(&self) -> bool {
        !self.is_loaded.swap(true, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(key: &str, value: &str) -> New {
        New { key: key.to_owned(), value: value.to_owned(), lasts: None }
    }

    fn add(zone: &Keyvals, key: &str, value: &str) -> Result<(), PairRefusal> {
        zone.change(&PairChange::Add(vec![new(key, value)]), None)
    }

    fn set(key: &str, value: Option<&str>, lasts: Option<Duration>) -> PairChange {
        PairChange::Set { key: key.to_owned(), value: value.map(str::to_owned), lasts }
    }

    /// Whatever a disk has made of a state file: there are no more pairs than there is room for, each is found by its key, and
    /// what is saved is restored as it was. The same bytes as a key: they are refused, or their pair is found and removed.
    ///
    /// It is a test and no target of `fuzz`, which would have to build this crate and all that it needs.
    #[test]
    fn damaged_state_files_and_keys_of_any_bytes() {
        const ROOM: u64 = 1024;
        const SEEDS: [(KeyvalType, &[u8]); 5] = [
            (KeyvalType::Text, br#"{"a": {"value": "1"}, "/b": {"value": "\u00e9", "until": 4000000000000}, "c": {"value": "", "until": 5}}"#),
            (KeyvalType::Address, br#"{"10.0.0.0/8": {"value": "n"}, "::ffff:10.1.2.3": {"value": "a"}, "::/0": {"value": "all"}}"#),
            (KeyvalType::Prefix, br#"{"/": {"value": "root"}, "/a/b": {"value": "deep"}, "/a": {"value": "flat"}}"#),
            (KeyvalType::Address, b"2001:db8::/32"),
            (KeyvalType::Prefix, b"/a/b"),
        ];
        let mut number = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            (number % limit as u64) as usize
        };
        for round in 0..5_000 {
            let (kind, seed) = SEEDS[round % SEEDS.len()];
            let mut data = seed.to_vec();
            for _ in 0..below(5) {
                let at = below(data.len() + 1);
                match below(4) {
                    0 if at < data.len() => data[at] = below(256) as u8,
                    1 => data.truncate(at),
                    2 => {
                        let end = (at + below(20)).min(data.len());
                        let part = data[at..end].to_vec();
                        data.splice(at..at, part);
                    }
                    _ => {
                        let end = (at + below(8)).min(data.len());
                        data.drain(at..end);
                    }
                }
            }
            let zone = Keyvals::new(kind, ROOM);
            let restored = zone.restore(&data);
            assert!(restored.is_some() || zone.is_empty());
            zone.look_up(&data);
            let all = zone.all();
            assert!(all.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>() <= ROOM);
            for (key, value) in &all {
                assert_eq!(zone.get(key).as_ref(), Some(value));
                // A network is no address.
                if kind != KeyvalType::Address || !key.contains('/') {
                    assert_eq!(zone.look_up(key.as_bytes()).as_deref(), Some(value.as_bytes()));
                }
            }
            let other = Keyvals::new(kind, ROOM);
            assert_eq!((other.restore(&zone.save()), other.all()), (Some(0), all));
            let key = String::from_utf8_lossy(&data);
            let zone = Keyvals::new(kind, ROOM);
            if add(&zone, &key, "v").is_ok() {
                assert_eq!(zone.get(&key).as_deref(), Some("v"));
                assert_eq!(zone.change(&PairChange::Remove(key.into_owned()), None), Ok(()));
            }
            assert!(zone.is_empty());
        }
    }

    const OVER: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn pairs_are_added_changed_and_removed() {
        let zone = Keyvals::new(KeyvalType::Text, 1 << 20);
        assert_eq!(add(&zone, "a", "1"), Ok(()));
        assert_eq!(add(&zone, "a", "2"), Err(PairRefusal::Exists));
        assert_eq!(zone.change(&PairChange::Add(vec![new("b", "2"), new("c", "3")]), None), Err(PairRefusal::NotEmpty));
        assert_eq!(zone.look_up(b"b"), None);
        assert_eq!(zone.change(&set("a", Some("9"), None), None), Ok(()));
        assert_eq!((zone.get("a").as_deref(), zone.look_up(b"a").as_deref()), (Some("9"), Some(&b"9"[..])));
        assert_eq!(zone.change(&set("b", Some("9"), None), None), Err(PairRefusal::NotFound));
        assert_eq!(zone.change(&PairChange::Remove("b".to_owned()), None), Err(PairRefusal::NotFound));
        assert_eq!(zone.change(&PairChange::Remove("a".to_owned()), None), Ok(()));
        assert_eq!(zone.change(&PairChange::Add(vec![new("b", "2"), new("c", "3")]), None), Ok(()));
        assert_eq!(zone.all(), BTreeMap::from([("b".into(), "2".into()), ("c".into(), "3".into())]));
        assert_eq!(zone.change(&PairChange::Clear, None), Ok(()));
        assert!(zone.all().is_empty() && zone.used.load(Relaxed) == 0);
    }

    #[test]
    fn pairs_of_other_nodes_are_stored_as_they_are() {
        let zone = Keyvals::new(KeyvalType::Text, 1 << 20);
        let far = Some(4_000_000_000_000);
        assert_eq!(
            (zone.store("a", "1", far), zone.store("a", "2", None), zone.store("b", "3", far)),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(zone.store("c", "4", Some(5)), Ok(()), "its time is over");
        let mut entries = zone.entries();
        entries.sort();
        assert_eq!(entries, [("a".into(), "2".into(), None), ("b".into(), "3".into(), far)]);
        zone.forget("a");
        zone.forget("x");
        assert_eq!((zone.get("a"), zone.get("b").as_deref()), (None, Some("3")));
        assert_eq!(zone.store("", "1", None), Err(PairRefusal::Key));
        assert_eq!((zone.entry("b"), zone.entry("a")), (Some(("3".into(), far)), None));
        assert_eq!(Keyvals::new(KeyvalType::Text, 10).store("a", "1", None), Err(PairRefusal::Full));
    }

    #[test]
    fn a_pair_that_is_over_is_not_there() {
        let zone = Keyvals::new(KeyvalType::Text, 1 << 20);
        zone.change(&PairChange::Add(vec![new("a", "1")]), OVER).unwrap();
        assert_eq!((zone.look_up(b"a"), zone.get("a"), zone.all().len()), (None, None, 0));
        assert_eq!(zone.change(&set("a", Some("2"), None), None), Err(PairRefusal::NotFound));
        assert_eq!(add(&zone, "a", "2"), Ok(()), "its place is free");
        assert_eq!(zone.look_up(b"a").as_deref(), Some(&b"2"[..]));
        zone.change(&set("a", None, Some(Duration::from_secs(1000))), OVER).unwrap();
        assert_eq!(zone.get("a").as_deref(), Some("2"));
        zone.change(&set("a", None, OVER), None).unwrap();
        assert_eq!(zone.get("a"), None);
    }

    #[test]
    fn a_zone_has_a_bound_and_pairs_that_are_over_make_room() {
        let room = 4 * (OVERHEAD + 3);
        let zone = Keyvals::new(KeyvalType::Text, room);
        for key in ["a", "b", "c", "d"] {
            zone.change(&PairChange::Add(vec![new(key, "1")]), if key == "a" { OVER } else { None }).unwrap();
        }
        assert_eq!(zone.used.load(Relaxed), room);
        assert_eq!(add(&zone, "e", "1"), Ok(()));
        assert_eq!(add(&zone, "f", "1"), Err(PairRefusal::Full));
        assert_eq!(zone.change(&set("b", Some("12"), None), None), Err(PairRefusal::Full));
        assert_eq!(zone.change(&set("b", Some("2"), None), None), Ok(()));
        assert_eq!(zone.all().len(), 4);
    }

    #[test]
    fn what_is_saved_is_restored() {
        let zone = Keyvals::new(KeyvalType::Address, 1 << 20);
        let hour = Some(Duration::from_secs(3600));
        zone.change(&PairChange::Add(vec![new("10.0.0.0/8", "net"), new("::1", "\"q\"")]), hour).unwrap();
        let saved = zone.save();
        let other = Keyvals::new(KeyvalType::Address, 1 << 20);
        assert_eq!(other.restore(&saved), Some(0));
        assert_eq!((other.all(), other.save()), (zone.all(), saved.clone()));
        assert_eq!(other.look_up(b"10.2.3.4").as_deref(), Some(&b"net"[..]));
        assert_eq!(Keyvals::new(KeyvalType::Address, 300).restore(&saved), Some(1), "there is no room for both");
        assert_eq!(Keyvals::new(KeyvalType::Text, 1 << 20).restore(&saved), Some(0));
        let over = br#"{"a": {"value": "1", "until": 5}, "b": {"value": "2"}}"#;
        let texts = Keyvals::new(KeyvalType::Text, 1 << 20);
        assert_eq!((texts.restore(over), texts.all().len()), (Some(0), 1));
        for wrong in [&b""[..], b"[]", b"{\"a\": 1}", &saved[..saved.len() - 1]] {
            assert_eq!(texts.restore(wrong), None);
        }
        assert!(texts.begin_loading() && !texts.begin_loading());
    }
}
