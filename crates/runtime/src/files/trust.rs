//! Which parts of which files were found to be in memory, page by page, a moment ago.
//!
//! While other files of its mount miss, a file that is asked for again and again is probed page by page once in
//! [`TRUST_MS`] and sparsely in between; otherwise a hot 4 MB file on a busy disk would cost a thousand probes a request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::types::Meta;

/// How long a page-by-page look is trusted, in milliseconds.
pub(super) const TRUST_MS: u64 = 1000;
/// The part of a file that is trusted or not, in bytes.
pub(super) const REGION: u64 = 1 << 20;
/// Regions remembered; the latest takes the place of another one.
const SLOTS: usize = 16_384;

/// A lossy table without locks: each slot holds half a fingerprint and a time.
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
        (&self.slots[hash as usize % SLOTS], hash & !0xffff_ffff)
    }

    /// Whether the region was looked at as a whole within the last [`TRUST_MS`].
    pub(super) fn has(&self, meta: &Meta, region: u64, now_ms: u64) -> bool {
        let (slot, fingerprint) = self.place(meta, region);
        let value = slot.load(Relaxed);
        let age = (now_ms as u32).wrapping_sub(value as u32);
        value != 0 && value & !0xffff_ffff == fingerprint && u64::from(age) < TRUST_MS
    }

    /// The region was found in memory as a whole.
    pub(super) fn give(&self, meta: &Meta, region: u64, now_ms: u64) {
        let (slot, fingerprint) = self.place(meta, region);
        slot.store(fingerprint | u64::from(now_ms as u32), Relaxed);
    }

    /// Something of the region was missing.
    pub(super) fn take(&self, meta: &Meta, region: u64) {
        let (slot, fingerprint) = self.place(meta, region);
        if slot.load(Relaxed) & !0xffff_ffff == fingerprint {
            slot.store(0, Relaxed);
        }
    }
}
