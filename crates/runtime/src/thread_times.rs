//! Time of a loop's thread: its time on a processor, and its time of being ready and waiting for one. On a busy machine
//! a poll can take long though it does little, because another thread has the processor. Such a poll is no sign of
//! too much work, nor of a call that blocked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The figures of the calling thread: its time on a processor, its time ready for one, both in nanoseconds, and the
/// number of times that it was given one. See proc(5), and "Scheduler Statistics" of the kernel's documentation.
const SCHEDULER_STATISTICS: &str = "/proc/thread-self/schedstat";

/// The largest age of a look at the figures when a poll begins, in nanoseconds. Looking costs about a microsecond.
const FRESH: u64 = 2_000_000;

/// Times for which a thread ran and waited for a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// Time for which it ran.
    pub(crate) ran: Duration,
    /// Time for which it was ready and had no processor; zero where the kernel does not count it.
    pub(crate) waited: Duration,
}

/// The times of one thread.
pub(crate) struct ThreadTimes {
    /// `None` where the kernel does not count.
    file: Option<File>,
    last: Times,
    /// Moment of the last look, in nanoseconds since [`epoch`](crate::clock::epoch).
    at: u64,
}

impl ThreadTimes {
    /// The times of the calling thread.
    pub(crate) fn of_this_thread() -> ThreadTimes {
        ThreadTimes { file: File::open(SCHEDULER_STATISTICS).ok(), last: Times::default(), at: 0 }
    }

    /// Looks at the times if the last look is not fresh any more: to be called before polls, with the current time.
    /// Returns whether it has looked, so that the current time is a later one.
    pub(crate) fn refresh(&mut self, now: u64) -> bool {
        let is_old = now.saturating_sub(self.at) >= FRESH;
        if is_old {
            self.at = now;
            self.last = self.look();
        }
        is_old
    }

    /// The times since the last look, which was a short while before a poll.
    pub(crate) fn since(&self) -> Times {
        let now = self.look();
        let (ran, waited) = (now.ran.saturating_sub(self.last.ran), now.waited.saturating_sub(self.last.waited));
        Times { ran, waited }
    }

    fn look(&self) -> Times {
        let ran = clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default();
        Times { ran, waited: self.waited().unwrap_or_default() }
    }

    fn waited(&self) -> Option<Duration> {
        // Three numbers of at most 20 digits.
        let mut text = [0; 64];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        Some(Duration::from_nanos(numbers.nth(1)?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::clock;

    #[test]
    fn a_thread_that_competes_for_a_processor_runs_and_waits_for_it() {
        let before = sched_getaffinity(None).unwrap();
        let mut only = CpuSet::new();
        only.set((0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap());
        let done = Arc::new(AtomicBool::new(false));
        let mut own = ThreadTimes::of_this_thread();
        sched_setaffinity(None, &only).unwrap();
        // Threads inherit where they may run, so this one and the other have one processor.
        let other = std::thread::spawn({
            let done = done.clone();
            move || while !done.load(Relaxed) {}
        });
        assert!(own.refresh(clock::look()));
        let wanted = Duration::from_millis(5);
        while own.since().waited < wanted || own.since().ran < wanted {
            std::hint::spin_loop();
        }
        done.store(true, Relaxed);
        other.join().unwrap();
        sched_setaffinity(None, &before).unwrap();
        // A fresh look is not repeated, a later one begins anew.
        let (at, last) = (own.at, own.last);
        assert!(!own.refresh(at + FRESH - 1));
        assert_eq!((own.at, own.last), (at, last));
        assert!(own.refresh(at + FRESH));
        assert!(own.last.ran >= last.ran + wanted && own.last.waited >= last.waited + wanted);
    }
}
