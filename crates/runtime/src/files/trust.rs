//! A record of the parts of files that were found in memory, page by page, a moment ago and repeatedly before.
//!
//! While other files of its mount miss, a file is copied ([`copy`](super::copy)), which looks at each page. A file that
//! clients request again and again stays in memory when others do not. It is copied once in [`TRUST_MS`] and sent by
//! `sendfile(2)`, with sparse probes, in between. A single look does not prove that: a file that was read a moment ago,
//! among many others, may be the next to leave.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::probe::{HOT_TIMES, WHOLE_MS};
use super::types::Meta;

/// Time for which the result of a page-by-page look is trusted, in milliseconds.
pub(super) const TRUST_MS: u64 = 1000;
/// Looks that are further apart than this, in milliseconds, are not in a row.
const ROW_MS: u32 = 2 * TRUST_MS as u32;
/// The size of the parts of a file that are trusted or not, in bytes.
pub(super) const REGION: u64 = 1 << 20;
/// The number of regions that are remembered; a new one replaces another.
const SLOTS: usize = 16_384;

/// The parts of a slot: a fingerprint, how often in a row, the last time in milliseconds.
const FINGERPRINT: u64 = !0 << TIMES_SHIFT << 3;
const TIMES_SHIFT: u32 = 32;
const TIMES: u64 = 7;

/// A lossy table without locks.
pub(super) struct Trust {
    slots: Box<[AtomicU64]>,
}

impl Default for Trust {
    fn default() -> Self {
        Trust { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Trust {
    fn place(&self, meta: &Meta, region: u64) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        (meta.dev, meta.ino, meta.size, meta.mtime, meta.mtime_nsec, region).hash(&mut hasher);
        let hash = hasher.finish();
        (&self.slots[hash as usize % SLOTS], hash & FINGERPRINT)
    }

    /// Whether the region was found as a whole within the last [`TRUST_MS`], and [`HOT_TIMES`] in a row.
    pub(super) fn has(&self, meta: &Meta, region: u64, now_ms: u64) -> bool {
        let (slot, fingerprint) = self.place(meta, region);
        let value = slot.load(Relaxed);
        let age = (now_ms as u32).wrapping_sub(value as u32);
        value & FINGERPRINT == fingerprint && times(value) >= u64::from(HOT_TIMES) && u64::from(age) < TRUST_MS
    }

    /// Notes that the region was found in memory as a whole. Loops that find it at the same moment count once.
    pub(super) fn give(&self, meta: &Meta, region: u64, now_ms: u64) {
        let (slot, fingerprint) = self.place(meta, region);
        let value = slot.load(Relaxed);
        let known = value & FINGERPRINT == fingerprint && times(value) > 0;
        let gap = (now_ms as u32).wrapping_sub(value as u32);
        // Another loop may have found the region since this one looked at its beginning.
        if known && (u64::from(gap) < WHOLE_MS || gap > u32::MAX / 2) {
            return;
        }
        let before = if known && gap < ROW_MS { times(value) } else { 0 };
        let times = (before + 1).min(TIMES);
        slot.store(fingerprint | times << TIMES_SHIFT | u64::from(now_ms as u32), Relaxed);
    }

    /// Notes that a part of the region was missing.
    pub(super) fn take(&self, meta: &Meta, region: u64) {
        let (slot, fingerprint) = self.place(meta, region);
        if slot.load(Relaxed) & FINGERPRINT == fingerprint {
            slot.store(0, Relaxed);
        }
    }
}

fn times(value: u64) -> u64 {
    value >> TIMES_SHIFT & TIMES
}
