//! How long the thread of a loop was ready and waited for a processor. On a busy machine a poll can take long though it
//! does little: another thread has the processor. Such a poll must not be taken for one that does too much.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The figures of the calling thread: its time on a processor, its time ready for one, both in nanoseconds, and how
/// often it was given one (proc(5), "Scheduler Statistics" of the kernel's documentation).
const SCHEDULER_STATISTICS: &str = "/proc/thread-self/schedstat";

/// How old a look at the figures may be when a poll begins, in nanoseconds. Looking costs about a microsecond.
const FRESH: u64 = 2_000_000;

/// The scheduler's figures of one thread.
pub(crate) struct RunDelay {
    /// `None` where the kernel does not count.
    file: Option<File>,
    /// What the thread had waited at the last look, in nanoseconds.
    waited: u64,
    /// When that was, in nanoseconds since [`epoch`](crate::clock::epoch).
    at: u64,
}

impl RunDelay {
    /// The figures of the calling thread.
    pub(crate) fn of_this_thread() -> RunDelay {
        RunDelay { file: File::open(SCHEDULER_STATISTICS).ok(), waited: 0, at: 0 }
    }

    /// Looks at the figures if the last look is not fresh any more: to be called before polls, with the current time.
    pub(crate) fn refresh(&mut self, now: u64) {
        if now.saturating_sub(self.at) >= FRESH {
            self.at = now;
            self.waited = self.read().unwrap_or(0);
        }
    }

    /// For how long the thread has waited for a processor since the last look, which was a short while before a poll.
    /// `None` where the kernel does not count.
    pub(crate) fn since(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.read()?.saturating_sub(self.waited)))
    }

    fn read(&self) -> Option<u64> {
        // Three numbers of at most 20 digits.
        let mut text = [0; 64];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        let (waited, times) = (numbers.nth(1)?, numbers.next()?);
        // A kernel that does not count says that this thread was never given a processor.
        if times == "0" { None } else { waited.parse().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_thread_that_competes_for_a_processor_has_waited_for_it() {
        let Some(processor) = (0..1024).find(|cpu| allowed().is_set(*cpu)) else { panic!("none is allowed") };
        let mut own = RunDelay::of_this_thread();
        assert!(own.file.is_some() && own.read().is_some(), "this kernel counts");
        let only = {
            let mut set = rustix::thread::CpuSet::new();
            set.set(processor);
            set
        };
        let (before, done) = (allowed(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        // Threads inherit where they may run, so this one and the other have one processor.
        let other = std::thread::spawn({
            let done = done.clone();
            move || while !done.load(std::sync::atomic::Ordering::Relaxed) {}
        });
        own.refresh(clock::look());
        let wanted = Duration::from_millis(5);
        while own.since().unwrap() < wanted {
            std::hint::spin_loop();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        other.join().unwrap();
        rustix::thread::sched_setaffinity(None, &before).unwrap();
        // A later look begins anew.
        own.refresh(clock::look() + FRESH);
        assert!(own.since().unwrap() < own.read().map(Duration::from_nanos).unwrap());
    }

    fn allowed() -> rustix::thread::CpuSet {
        rustix::thread::sched_getaffinity(None).unwrap()
    }
}
