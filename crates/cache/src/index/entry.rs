//! The index's entry of one stored object.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use arc_swap::ArcSwapOption;
use freerun_runtime::files::{FileSystem, Meta};
use rustc_hash::FxHasher;

use super::policy::{Item, MAX_FREQUENCY, Place};
use crate::key::Key;
use crate::rules::Lifetime;

/// The entry is no longer the object of its key: it was removed, replaced, purged or evicted.
const GONE: u8 = 1;
/// The file was read and is what the index says.
const VERIFIED: u8 = 2;
/// The file is not one of freerun's (nginx's format, or a file that was not examined): it takes up space, and nothing
/// is served from it.
const FOREIGN: u8 = 4;
/// A change of its lifetime is waiting to be written to the journal.
const RENEWED: u8 = 8;

const _: () = assert!(GONE | VERIFIED | FOREIGN | RENEWED == 0b1111, "each flag has a bit of its own");

/// A stored object. The `Arc` is its identity: an object that takes its place has another entry.
#[derive(Debug)]
pub struct Entry {
    key: Key,
    /// The length of the file in bytes.
    size: u64,
    /// The bytes that the file takes up on the disk.
    disk: u64,
    sequence: u64,
    initial: Lifetime,
    /// The lifetime since an upstream said that the object is still good (304).
    renewed: ArcSwapOption<Lifetime>,
    /// The newest purge that the object was compared with.
    checked: AtomicU64,
    /// Moment of the last request for the object, in seconds since 1970.
    accessed: AtomicU32,
    /// A part of the key that the object is a variant of; 0 if it is no variant.
    variant_of: u32,
    /// The [`FileMark`] of the file; 0 while it is not known.
    file: AtomicU32,
    frequency: AtomicU8,
    flags: AtomicU8,
    /// The queue that the entry is in; only the cache's thread changes it.
    place: AtomicU8,
}

/// The values that an entry is made from.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The object's key, which names the file.
    pub key: Key,
    /// The key of the key's text: it differs from `key` for a variant (`Vary`), which is purged together with it.
    pub main: Key,
    /// The length of the file in bytes, its head included.
    pub size: u64,
    /// [`Cache::sequence`](crate::cache::Cache::sequence) when the upstream was asked: later purges mean this object.
    pub sequence: u64,
    /// Time for which the object may be used.
    pub lifetime: Lifetime,
}

impl Entry {
    pub(crate) fn new(about: &About, disk: u64, now: u64) -> Entry {
        Entry {
            key: about.key,
            variant_of: if about.main == about.key { 0 } else { short(about.main) },
            size: about.size,
            disk,
            sequence: about.sequence,
            initial: about.lifetime,
            renewed: ArcSwapOption::empty(),
            checked: AtomicU64::new(about.sequence),
            accessed: AtomicU32::new(seconds(now)),
            file: AtomicU32::new(0),
            frequency: AtomicU8::new(0),
            flags: AtomicU8::new(0),
            place: AtomicU8::new(Place::None as u8),
        }
    }

    /// The object's key.
    pub fn key(&self) -> Key {
        self.key
    }

    /// A part of the key that the object is a variant of; 0 if it is no variant.
    pub(crate) fn variant_of(&self) -> u32 {
        self.variant_of
    }

    /// Sets the part of the main key that the journal has.
    pub(crate) fn set_variant_of(&mut self, main: u32) {
        self.variant_of = main;
    }

    /// The length of the file in bytes, the head included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes of `max_size` that the file takes up: its length, rounded up to blocks of the file system.
    pub fn disk(&self) -> u64 {
        self.disk
    }

    /// The number of the newest purge before the object was fetched, see [`About::sequence`].
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Time for which the object may be used, as of the last revalidation.
    pub fn lifetime(&self) -> Lifetime {
        self.renewed.load().as_deref().copied().unwrap_or(self.initial)
    }

    /// Whether the object may be used without asking the upstream.
    pub fn is_fresh(&self, now: u64) -> bool {
        self.lifetime().is_fresh(now)
    }

    /// Moment of the last request for the object, in seconds since 1970.
    pub fn accessed(&self) -> u64 {
        self.accessed.load(Relaxed).into()
    }

    /// Whether this is no longer the object of its key: a caller that has kept it has to look again.
    pub fn is_gone(&self) -> bool {
        self.has(GONE)
    }

    /// Whether the file was compared with what the index says.
    pub fn is_verified(&self) -> bool {
        self.has(VERIFIED)
    }

    /// Notes that the file is what the index says.
    pub fn set_verified(&self) {
        debug_assert!(!self.is_foreign(), "nothing is read from another program's file");
        self.flags.fetch_or(VERIFIED, Relaxed);
    }

    /// Whether a file with this mark is the stored file, as far as the marks of both are known. The first mark that is
    /// known counts.
    pub(crate) fn has_file(&self, mark: FileMark) -> bool {
        if mark.0 == 0 {
            return true;
        }
        let known = self.file.compare_exchange(0, mark.0, AcqRel, Acquire).unwrap_or_else(|known| known);
        debug_assert!(self.file.load(Relaxed) != 0, "the first known mark stays");
        known == 0 || known == mark.0
    }

    /// Whether the file is not one of freerun's: nothing is served from it.
    pub fn is_foreign(&self) -> bool {
        self.has(FOREIGN)
    }

    pub(crate) fn set_foreign(&self) {
        debug_assert!(!self.is_verified(), "a file that responses were read from is one of ours");
        self.flags.fetch_or(FOREIGN, Relaxed);
    }

    /// Marks the entry as gone. False if it was gone already: then another thread removes the file.
    pub(crate) fn leave(&self) -> bool {
        self.flags.fetch_or(GONE, AcqRel) & GONE == 0
    }

    /// Takes over a new lifetime. True if the caller has to have it written to the journal, because no earlier change
    /// is waiting.
    pub(crate) fn renew(&self, lifetime: Lifetime) -> bool {
        self.renewed.store(Some(Arc::new(lifetime)));
        self.flags.fetch_or(RENEWED, AcqRel) & RENEWED == 0
    }

    pub(crate) fn written_down(&self) {
        let before = self.flags.fetch_and(!RENEWED, AcqRel);
        debug_assert!(before & RENEWED != 0, "one event in the queue stands for each renewal that is noted");
    }

    /// Notes that the object was asked for: at most two loads and, now and then, a store.
    pub fn touch(&self, now: u64) {
        let now = seconds(now);
        if self.accessed.load(Relaxed) != now {
            self.accessed.store(now, Relaxed);
        }
        let frequency = self.frequency.load(Relaxed);
        if frequency < MAX_FREQUENCY {
            self.frequency.store(frequency + 1, Relaxed);
        }
    }

    /// The newest purge that the object was compared with.
    pub(crate) fn checked(&self) -> u64 {
        self.checked.load(Relaxed)
    }

    pub(crate) fn set_checked(&self, sequence: u64) {
        let before = self.checked.fetch_max(sequence, Relaxed);
        debug_assert!(before >= self.sequence, "an object was compared with all purges before it was fetched");
    }

    fn has(&self, flag: u8) -> bool {
        self.flags.load(Acquire) & flag != 0
    }
}

/// Mark that distinguishes a file from another file which has taken its name, and from itself after a change of its
/// bytes. It is a hash of the inode number, the length and the time of the last change. 0 where these change by
/// themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileMark(u32);

impl FileMark {
    /// The mark of a file with these attributes.
    pub(crate) fn of(meta: &Meta, files: &FileSystem) -> FileMark {
        if !files.has_lasting_attributes(meta.dev) {
            return FileMark(0);
        }
        let mut hasher = FxHasher::default();
        hasher.write_u64(meta.ino);
        hasher.write_u64(meta.size);
        hasher.write_i64(meta.mtime);
        hasher.write_u32(meta.mtime_nsec);
        let hash = hasher.finish();
        FileMark(((hash >> 32) as u32 ^ hash as u32).max(1))
    }
}

/// A time in the width that an entry has for it.
fn seconds(now: u64) -> u32 {
    u32::try_from(now).unwrap_or(u32::MAX)
}

impl Item for Arc<Entry> {
    fn fingerprint(&self) -> u64 {
        fingerprint(self.key)
    }

    fn bytes(&self) -> u64 {
        self.disk
    }

    fn frequency(&self) -> u8 {
        self.frequency.load(Relaxed)
    }

    fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency.min(MAX_FREQUENCY), Relaxed);
    }

    fn is_gone(&self) -> bool {
        Entry::is_gone(self)
    }

    fn place(&self) -> Place {
        Place::of(self.place.load(Relaxed))
    }

    fn set_place(&self, place: Place) {
        self.place.store(place as u8, Relaxed);
    }
}

/// A shorter part of the key; never 0.
pub(crate) fn short(key: Key) -> u32 {
    let [a, b, c, d, ..] = key.0;
    u32::from_ne_bytes([a, b, c, d]).max(1)
}

/// A part of the key that is as good as a random number.
pub(crate) fn fingerprint(key: Key) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&key.0[..8]);
    u64::from_ne_bytes(bytes)
}
