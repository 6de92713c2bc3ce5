//! Whether operations on a mount end: a disk that hangs does not report it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use super::Mount;
use crate::loops;

/// The number of operations at work, and when one last ended (or began, with none at work), in milliseconds of the
/// process.
#[derive(Debug, Default)]
pub(super) struct MountWork {
    running: AtomicU64,
    moved: AtomicU64,
}

/// An operation on a pool's thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AtWork<'a>(&'a MountWork);

fn clock() -> u64 {
    u64::try_from(loops::epoch().elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl AtWork<'_> {
    /// Notes that a part of the operation has ended.
    pub(crate) fn moved(&self) {
        self.0.moved.store(clock(), Release);
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.moved();
        self.0.running.fetch_sub(1, AcqRel);
    }
}

impl MountWork {
    fn begin(&self) -> AtWork<'_> {
        if self.running.fetch_add(1, AcqRel) == 0 {
            self.moved.store(clock(), Release);
        }
        AtWork(self)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Acquire) > 0
    }

    fn stuck_for(&self, now: u64) -> Duration {
        if !self.is_running() {
            return Duration::ZERO;
        }
        Duration::from_millis(now.saturating_sub(self.moved.load(Acquire)))
    }
}

impl Mount {
    /// Notes that a pool's thread begins to read or to send a file of this mount.
    pub(crate) fn begin(&self) -> AtWork<'_> {
        self.work.begin()
    }

    /// Notes that a pool's thread begins to look up a path that seems to be on this mount.
    ///
    /// The path may lead elsewhere by a symbolic link. So these operations do not count for [`Mount::stuck_for`], the
    /// reason to take a cache out of use.
    pub(crate) fn begin_lookup(&self) -> AtWork<'_> {
        self.lookups.begin()
    }

    /// For how long pools have been looking up paths without any of these operations ending; zero while there are none.
    pub(super) fn lookups_stuck_for(&self) -> Duration {
        self.lookups.stuck_for(clock())
    }

    /// For how long pools have been reading or sending files of this mount without any of these operations, or a part
    /// of one, ending; zero while there are none.
    pub fn stuck_for(&self) -> Duration {
        self.work.stuck_for(clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_moved_for_long_is_stuck() {
        let work = MountWork::default();
        let later = clock() + 5000;
        assert_eq!(work.stuck_for(later), Duration::ZERO);
        let one = work.begin();
        let other = work.begin();
        assert!(work.stuck_for(later) > Duration::from_secs(4));
        work.moved.store(later, Release);
        assert!(work.stuck_for(later + 10) == Duration::from_millis(10));
        drop(one);
        assert!(work.stuck_for(later) > Duration::from_secs(4));
        drop(other);
        assert_eq!(work.stuck_for(later), Duration::ZERO);
    }
}
