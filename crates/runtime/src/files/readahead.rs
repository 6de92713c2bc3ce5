//! The advice that a pool thread gives to the kernel before it sends.

use std::os::fd::AsFd;

use freerun_sys::mincore::page_size;
use freerun_sys::populate::BLOCK;

use super::FileSystem;
use super::types::OpenFile;

/// The bytes between two requests for read-ahead. The kernel cuts a long request short, to the larger of the disk's
/// `read_ahead_kb` (this is its usual value) and `max_sectors_kb`.
const ADVICE_STEP: u64 = 128 << 10;
/// A range of fewer bytes is not worth a mapping.
const SMALLEST: u64 = 32 << 10;

/// Distance behind a block's beginning at which the block is looked at again, in bytes. The beginning may be there, or
/// on its way, without the rest, after a probe that must not wait (`RWF_NOWAIT` makes the kernel read a few pages).
const SECOND_LOOK: u64 = 256 << 10;

/// Local file systems that have large folios, at least in newer kernels.
const LARGE_FOLIOS: [&str; 3] = ["ext4", "xfs", "btrfs"];

impl FileSystem {
    /// Starts reading `chunk` bytes at `offset`; the response needs `wanted` bytes altogether. Blocks that are needed
    /// as a whole are read in the largest pieces there are, which is faster, and makes sending them from memory cheaper
    /// later.
    pub(super) fn read_ahead(&self, file: &OpenFile, offset: u64, chunk: u64, wanted: u64) {
        let end = offset + chunk;
        let mut at = offset;
        while at < end {
            let block = at / BLOCK * BLOCK;
            let next = block + BLOCK;
            let stop = next.min(file.size());
            let all = at - block < page_size() as u64 && stop <= offset.saturating_add(wanted);
            let is_read = all
                && stop.saturating_sub(block) > SMALLEST
                && LARGE_FOLIOS.contains(&file.mount.fs_type())
                && self.kernel.read_block(file.as_fd(), block).is_ok()
                && (stop - block <= SECOND_LOOK || self.kernel.read_block(file.as_fd(), block + SECOND_LOOK).is_ok());
            if !is_read {
                self.ask_for(file, at, next.min(end));
            }
            at = next;
        }
    }

    fn ask_for(&self, file: &OpenFile, from: u64, end: u64) {
        let mut at = from;
        while at < end {
            // Each request is for all of the rest: if the kernel takes the whole range, the disk gets one large read.
            self.kernel.will_need(file.as_fd(), at, end - at);
            at += ADVICE_STEP;
        }
    }
}
