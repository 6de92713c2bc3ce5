//! Relief for the log thread: while a write takes long, another thread goes on with the other logs.
//!
//! The log thread holds the state of all logs, the [`Baton`]'s load. Before a call that may wait the thread lays it
//! down, and takes it up again afterwards. Another thread stands by and looks at it, once a second while logs are
//! written and not at all otherwise. If the load has been lying there for [`PATIENCE`], that thread takes it up and is
//! the log thread from then on. The thread that was held up hands in the result of its call when that ends, and then
//! stands by or ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::file::LogFile;

/// Time that a write may take before another thread goes on with the other logs.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The most threads for logs, including those that are held up. If all of them are held up, all logs wait.
pub const MAX_LOG_THREADS: usize = 8;

/// The state that one thread at a time holds.
pub(super) struct Baton<L> {
    inner: Mutex<ReliefState<L>>,
    /// The number of threads, including the thread that stands by. It is changed under the lock; loops read it.
    threads: AtomicUsize,
}

struct ReliefState<L> {
    /// The load that was laid down, since when, and the log that is being written meanwhile.
    lying: Option<(L, Instant, Option<LogFile>)>,
    /// Counts how often the load was laid down, so that no thread takes up a load that another one has laid down.
    ticket: u64,
    standby: Standby,
    ended: bool,
}

/// The thread that stands by.
enum Standby {
    /// There is no such thread.
    Missing,
    /// The thread sleeps until the load is laid down.
    Asleep(Thread),
    /// The thread looks again after a while.
    Awake,
}

/// The next step of the thread that stands by.
pub(super) enum Look<L> {
    /// Look again after so long.
    After(Duration),
    /// Sleep until the load is laid down.
    Sleep,
    /// Continue with this load, while the thread that laid it down is held up with the log. With `true` another thread
    /// has to be started, which stands by.
    TakeOver(L, Option<LogFile>, bool),
    /// The thread ends.
    End,
}

impl<L> Baton<L> {
    /// A baton that is held by the calling thread, or by a thread that it starts.
    pub(super) fn new() -> Baton<L> {
        let inner = ReliefState { lying: None, ticket: 0, standby: Standby::Missing, ended: false };
        Baton { inner: Mutex::new(inner), threads: AtomicUsize::new(1) }
    }

    fn inner(&self) -> MutexGuard<'_, ReliefState<L>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays the load down for the time of a call that may wait.
    pub(super) fn lay_down(&self, load: L, file: Option<&LogFile>, now: Instant) -> u64 {
        let mut inner = self.inner();
        inner.lying = Some((load, now, file.cloned()));
        inner.ticket += 1;
        if let Standby::Asleep(thread) = &inner.standby {
            thread.unpark();
            inner.standby = Standby::Awake;
        }
        inner.ticket
    }

    /// Takes the load up again, unless another thread has it.
    pub(super) fn take_up(&self, ticket: u64) -> Option<L> {
        let mut inner = self.inner();
        if inner.ticket != ticket {
            return None;
        }
        inner.lying.take().map(|(load, ..)| load)
    }

    /// Returns the next step of the thread that stands by.
    pub(super) fn look(&self, patience: Duration, now: Instant) -> Look<L> {
        let mut inner = self.inner();
        if inner.ended {
            return Look::End;
        }
        let lies =
            inner.lying.as_ref().map(|(_, since, _)| patience.saturating_sub(now.saturating_duration_since(*since)));
        match lies {
            None => {
                inner.standby = Standby::Asleep(std::thread::current());
                Look::Sleep
            }
            Some(left) if !left.is_zero() => Look::After(left),
            Some(_) => {
                // The ticket of the thread that is held up is no longer valid.
                inner.ticket += 1;
                let more = self.threads() < MAX_LOG_THREADS;
                inner.standby = if more { Standby::Awake } else { Standby::Missing };
                self.threads.fetch_add(usize::from(more), Ordering::Relaxed);
                match inner.lying.take() {
                    Some((load, _, file)) => Look::TakeOver(load, file, more),
                    None => Look::Sleep,
                }
            }
        }
    }

    /// Whether a thread that is not needed any more has to stand by; otherwise it ends, and is not counted from here
    /// on.
    pub(super) fn is_vacant(&self) -> bool {
        let mut inner = self.inner();
        let vacant = matches!(inner.standby, Standby::Missing) && !inner.ended;
        if vacant {
            inner.standby = Standby::Awake
        } else {
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
        vacant
    }

    /// Notes that a thread could not be started.
    pub(super) fn not_started(&self) {
        let mut inner = self.inner();
        self.threads.fetch_sub(1, Ordering::Relaxed);
        inner.standby = Standby::Missing;
    }

    /// Ends the thread that stands by.
    pub(super) fn end(&self) {
        let mut inner = self.inner();
        inner.ended = true;
        if let Standby::Asleep(thread) = &inner.standby {
            thread.unpark();
        }
    }

    /// Counts a thread that is about to stand by.
    pub(super) fn announce(&self) {
        let mut inner = self.inner();
        self.threads.fetch_add(1, Ordering::Relaxed);
        inner.standby = Standby::Awake;
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }
}
