//! The space that a cache takes up, and its limit: space is reserved before it is written, and given back after the
//! file is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use tokio::sync::Notify;

use super::wake_up::Bell;

/// The block size of a file system that did not report its own.
pub(crate) const BLOCK: u64 = 4096;

/// Share of the bytes, and of the entries, that is kept free ahead of reservations: the divisor…
const MARGIN_SHARE: u64 = 32;
/// … but not more than this…
const MAX_MARGIN: u64 = 64 << 20;
/// … and this many entries.
const MAX_MARGIN_ENTRIES: u64 = 4096;
/// Once reservations are refused, room for such reservations is kept free, up to one in this many bytes.
const AHEAD_SHARE: u64 = 8;

const _: () =
    assert!(AHEAD_SHARE < MARGIN_SHARE, "more may be kept for reservations that were refused than for others");
const _: () = assert!(MAX_MARGIN.is_multiple_of(BLOCK), "the margin is made of whole blocks");

/// The bytes and entries of one cache. `taken` counts stored and reserved bytes, and nothing here takes it beyond
/// `limit`.
///
/// Invariant: what is given back was taken before, in each account by itself. Each change of an account is a single step of
/// the thread that owns the reservation or the entry. An account that goes below zero wraps around, and then nothing is
/// reserved any more: the limit holds.
#[derive(Debug)]
pub(crate) struct Space {
    taken: AtomicU64,
    /// The reserved part of `taken`.
    reserved: AtomicU64,
    limit: AtomicU64,
    /// The bytes that the file system had free beyond `min_free` when it was last asked, less the bytes reserved since.
    room: AtomicI64,
    /// All bytes that were ever reserved, refused reservations included.
    drawn: AtomicU64,
    /// Existing entries, and those that reservations will become.
    entries: AtomicU64,
    max_entries: AtomicU64,
    block: AtomicU64,
    /// False until the existing files are known; nothing is reserved before.
    open: AtomicBool,
    /// Reservations that were refused.
    refused: AtomicU64,
    /// The largest reservation that was refused since the cache's thread last looked.
    wanted: AtomicU64,
    /// Notified when the thread has given space back.
    pub(crate) freed: Notify,
    pub(crate) bell: Arc<Bell>,
}

/// Space that is reserved for one file that is being written. The unused part is given back when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    space: Arc<Space>,
    bytes: u64,
    /// Whether the reservation includes an entry.
    entry: bool,
}

impl Reservation {
    /// The reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes sure that the reservation is enough for a file of this number of bytes. False: there is not enough space,
    /// and nothing has changed.
    pub fn cover(&mut self, bytes: u64) -> bool {
        let bytes = self.space.round(bytes);
        if bytes > self.bytes {
            if bytes > self.space.limit.load(Relaxed) || !self.space.take(bytes - self.bytes) {
                return false;
            }
            self.bytes = bytes;
        }
        true
    }

    /// Turns the reservation into a file that takes up `disk` bytes; the rest is given back.
    pub(crate) fn into_used(mut self, disk: u64) {
        let used = disk.min(self.bytes);
        debug_assert!(self.entry, "a reservation becomes one file");
        let before = self.space.reserved.fetch_sub(used, Relaxed);
        debug_assert!(before >= used, "{used} bytes are used of {before} that are reserved");
        self.bytes -= used;
        self.entry = false;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let before = self.space.reserved.fetch_sub(self.bytes, Relaxed);
        debug_assert!(before >= self.bytes, "{} bytes are given back of {before} that are reserved", self.bytes);
        self.space.give_bytes(self.bytes);
        if self.entry {
            let before = self.space.entries.fetch_sub(1, AcqRel);
            debug_assert!(before > 0, "the reservation's entry was given back before");
        }
    }
}

impl Space {
    pub(crate) fn new(limit: u64, max_entries: usize, bell: Arc<Bell>) -> Space {
        Space {
            taken: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            room: AtomicI64::new(i64::MAX),
            drawn: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            max_entries: AtomicU64::new(max_entries as u64),
            block: AtomicU64::new(BLOCK),
            open: AtomicBool::new(false),
            refused: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            freed: Notify::new(),
            bell,
        }
    }

    /// The bytes on the disk that a file of this length takes up.
    pub(crate) fn round(&self, bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(self.block.load(Relaxed).max(1)).unwrap_or(u64::MAX)
    }

    /// Reserves space for a file of this number of bytes; `None`: there is not enough space now.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let bytes = self.round(bytes);
        if !self.take(bytes) {
            return None;
        }
        let most = self.max_entries.load(Relaxed);
        let grow = |entries: u64| (entries < most).then_some(entries + 1);
        if self.entries.fetch_update(AcqRel, Relaxed, grow).is_err() {
            self.reserved.fetch_sub(bytes, Relaxed);
            self.give_bytes(bytes);
            self.refuse(0);
            return None;
        }
        let entries = self.entries.load(Relaxed);
        if entries + self.entries_margin() / 2 > most {
            self.bell.urgent();
        }
        Some(Reservation { space: self.clone(), bytes, entry: true })
    }

    /// Takes bytes for a reservation.
    fn take(&self, bytes: u64) -> bool {
        if !self.open.load(Acquire) {
            self.refused.fetch_add(1, Relaxed);
            return false;
        }
        let limit = self.limit.load(Relaxed);
        let grow = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= limit);
        let Ok(before) = self.taken.fetch_update(AcqRel, Relaxed, grow) else {
            self.refuse(bytes);
            return false;
        };
        let signed = i64::try_from(bytes).unwrap_or(i64::MAX);
        // This order is for a thread that measures the file system meanwhile.
        self.reserved.fetch_add(bytes, Relaxed);
        self.drawn.fetch_add(bytes, AcqRel);
        if self.room.fetch_update(AcqRel, Acquire, |room| (room >= signed).then(|| room - signed)).is_err() {
            self.reserved.fetch_sub(bytes, Relaxed);
            self.taken.fetch_sub(bytes, AcqRel);
            self.refuse(bytes);
            return false;
        }
        debug_assert!(before + bytes <= limit, "a reservation goes beyond the limit");
        if before + bytes > limit - self.margin() / 2 {
            self.bell.urgent();
        }
        true
    }

    fn refuse(&self, bytes: u64) {
        self.refused.fetch_add(1, Relaxed);
        // A reservation that can never fit empties nothing.
        if bytes <= self.capacity() {
            self.wanted.fetch_max(bytes.max(1), Relaxed);
            self.bell.urgent();
        }
    }

    /// Counts an existing file, with its entry.
    pub(crate) fn adopt(&self, disk: u64) {
        self.taken.fetch_add(disk, AcqRel);
        self.entries.fetch_add(1, AcqRel);
    }

    /// Gives back the space of a file that is gone, with its entry.
    pub(crate) fn release(&self, disk: u64) {
        self.give_bytes(disk);
        let before = self.entries.fetch_sub(1, AcqRel);
        debug_assert!(before > 0, "an entry is given back that was never counted");
    }

    fn give_bytes(&self, bytes: u64) {
        let before = self.taken.fetch_sub(bytes, AcqRel);
        debug_assert!(before >= bytes, "{bytes} bytes are given back of {before} that are taken");
        let signed = i64::try_from(bytes).unwrap_or(i64::MAX);
        let grow = |room: i64| Some(room.saturating_add(signed));
        // The closure never refuses.
        let _ = self.room.fetch_update(AcqRel, Relaxed, grow);
    }

    /// Whether a file of this number of bytes could ever be stored.
    pub(crate) fn can_ever_hold(&self, bytes: u64) -> bool {
        self.round(bytes) <= self.limit.load(Relaxed)
    }

    /// Allows reservations from now on: the existing files are known.
    pub(crate) fn open(&self) {
        self.open.store(true, std::sync::atomic::Ordering::Release);
        self.freed.notify_waiters();
    }

    pub(crate) fn close(&self) {
        self.open.store(false, std::sync::atomic::Ordering::Release);
    }

    pub(crate) fn set_limits(&self, limit: u64, max_entries: usize) {
        self.limit.store(limit, Relaxed);
        self.max_entries.store(max_entries as u64, Relaxed);
    }

    /// The limit of the number of entries.
    pub(crate) fn max_entries(&self) -> usize {
        usize::try_from(self.max_entries.load(Relaxed)).unwrap_or(usize::MAX)
    }

    pub(crate) fn set_block(&self, block: u64) {
        debug_assert!(block <= MAX_MARGIN, "blocks of {block} bytes leave no room for a margin");
        self.block.store(block.max(1), Relaxed);
    }

    /// Takes over the free bytes of the file system, less `min_free`, as `ask` returns them. Bytes reserved before the
    /// call of `ask` count in whole, whatever of them was written already, and so do bytes reserved during it. The
    /// account may count too much, but not too little.
    pub(crate) fn measure(&self, ask: impl FnOnce() -> Option<i64>) {
        // This comes first: bytes reserved in between are counted twice rather than not at all.
        let before = self.drawn.load(Acquire);
        let reserved = self.reserved.load(Acquire);
        let Some(beyond) = ask() else { return };
        // If the room changes meanwhile, the closure is called again.
        let _ = self.room.fetch_update(AcqRel, Acquire, |_| {
            let since = self.drawn.load(Acquire).wrapping_sub(before);
            let counted = i64::try_from(reserved.saturating_add(since)).unwrap_or(i64::MAX);
            Some(beyond.saturating_sub(counted))
        });
    }

    /// The number of bytes that are kept free ahead.
    pub(crate) fn margin(&self) -> u64 {
        (self.limit.load(Relaxed) / MARGIN_SHARE).min(MAX_MARGIN)
    }

    fn entries_margin(&self) -> u64 {
        (self.max_entries.load(Relaxed) / MARGIN_SHARE).clamp(1, MAX_MARGIN_ENTRIES)
    }

    /// The largest reservation that was refused since the last call.
    pub(crate) fn take_wanted(&self) -> u64 {
        self.wanted.swap(0, Relaxed)
    }

    /// The space if every object were removed: the limit, or what the file system has beside files that are not this
    /// cache's.
    pub(crate) fn capacity(&self) -> u64 {
        let room = self.room.load(Relaxed).saturating_add_unsigned(self.taken.load(Relaxed));
        self.limit.load(Relaxed).min(u64::try_from(room).unwrap_or(0))
    }

    /// The most that is kept free for reservations like those that were refused.
    pub(crate) fn max_ahead(&self) -> u64 {
        self.capacity() / AHEAD_SHARE
    }

    /// Whether an object has to be removed to have the margin, and `ahead` bytes, free.
    pub(crate) fn is_short(&self, ahead: u64) -> bool {
        let limit = self.limit.load(Relaxed);
        let taken = self.taken.load(Acquire);
        // The space that other programs leave on the file system is no measure for what this cache may keep; its own
        // size is.
        let beyond = ahead.max(self.margin().min(taken / MARGIN_SHARE)).max(self.block.load(Relaxed));
        taken > limit.saturating_sub(ahead.max(self.margin()))
            || self.entries.load(Acquire) + self.entries_margin() > self.max_entries.load(Relaxed)
            || self.room.load(Relaxed) < i64::try_from(beyond).unwrap_or(i64::MAX)
    }

    /// Whether another entry without a reservation may be taken in.
    pub(crate) fn has_entry(&self) -> bool {
        self.entries.load(Acquire) < self.max_entries.load(Relaxed)
    }

    pub(crate) fn figures(&self) -> SpaceFigures {
        SpaceFigures {
            taken: self.taken.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
            limit: self.limit.load(Relaxed),
            refused: self.refused.load(Relaxed),
            max_entries: self.max_entries.load(Relaxed),
        }
    }
}

/// Figures of a [`Space`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpaceFigures {
    pub(crate) taken: u64,
    pub(crate) reserved: u64,
    pub(crate) limit: u64,
    pub(crate) refused: u64,
    pub(crate) max_entries: u64,
}
