//! Access times. If they are kept (`relatime`, the default), two kinds of reads write the inode of a file: the first
//! since it was changed, and one each day. That may read a block of the disk or wait for the journal. Neither
//! `RWF_NOWAIT` nor `sendfile(2)` spares the caller that: such a read is left to the pool.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;
use rustix::time::ClockId;

use super::FileSystem;
use super::types::{Meta, OpenFile};
use crate::mounts::Mount;

/// The largest age of an access time, in seconds (mount(8), `relatime`).
const DAY: i64 = 24 * 60 * 60;
/// The age in seconds from which an access time moves when it is written, however coarse the clock of the file system
/// is. A file this far ahead was written now. Its date may have the second of the fine clock while the coarse clock is
/// still in the second before (multigrain timestamps, Linux 6.13).
const COARSE: i64 = 2;

impl FileSystem {
    /// An [`OpenFile`] of a file that was just opened.
    pub(super) fn made(&self, fd: OwnedFd, meta: Meta, mount: Arc<Mount>) -> OpenFile {
        let now = self.now_ms();
        let updates = meta.is_file() && mount.updates_atime(now);
        let file = OpenFile::new(fd, meta, mount, self.closer.clone());
        if updates {
            file.atime_due_ms.store(due_ms(&meta, now), Relaxed);
        }
        file
    }

    /// Whether a read now writes the access time, so that it has to be left to the pool.
    pub fn is_atime_due(&self, file: &OpenFile) -> bool {
        file.keeps_atime() && file.is_atime_due(self.now_ms())
    }

    /// Makes reads of a file leave its access time alone, for files that only the server reads. Only the file's owner
    /// is permitted to do this.
    pub fn spare_atime(&self, file: &OpenFile) {
        let spare = || rustix::fs::fcntl_setfl(file, rustix::fs::fcntl_getfl(file)? | OFlags::NOATIME);
        if file.keeps_atime() && spare().is_ok() {
            file.atime_due_ms.store(u64::MAX, Relaxed);
        }
    }

    /// Notes, on a thread that may wait, that the file was read, so that its access time is up to date.
    pub(super) fn read_has_waited(&self, file: &OpenFile) {
        if !self.is_atime_due(file) {
            return;
        }
        let Ok(meta) = self.kernel.stat(file.as_fd()) else { return };
        let now = self.now_ms();
        if meta.atime != file.meta().atime {
            file.atime_due_ms.store(due_ms(&meta, now), Relaxed);
        } else if wall() - meta.atime.0 > COARSE {
            // The access time should have changed: the mount is read-only, frozen, or the file is of a lower layer. The
            // check is not repeated each time.
            file.atime_due_ms.store(u64::MAX, Relaxed);
            file.mount.atime_stood_still(now);
        }
    }
}

/// The time from which on a read writes the access time, by the clock of the file system object.
fn due_ms(meta: &Meta, now_ms: u64) -> u64 {
    let wall = wall();
    if meta.atime <= meta.mtime_whole() || meta.atime <= meta.ctime {
        // With a date in the future, every read would be left to the pool.
        return if meta.mtime > wall + COARSE { u64::MAX } else { 0 };
    }
    let left = meta.atime.0.saturating_add(DAY).saturating_sub(wall);
    now_ms.saturating_add(u64::try_from(left).unwrap_or(0).saturating_mul(1000))
}

/// The time in seconds since 1970, by the coarse clock that most dates of files come from.
fn wall() -> i64 {
    rustix::time::clock_gettime(ClockId::RealtimeCoarse).tv_sec
}
