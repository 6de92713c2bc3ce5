//! How many connections a loop may have (`worker_connections`): one account for connections of every kind.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::log::{ErrorLog, Level};
use freerun_runtime::loops::{self, LoopStats};
use tokio::sync::Notify;

/// How often the log tells that there is no room.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The connections of a loop, as far as they are counted.
pub struct Admission {
    limit: usize,
    stats: Arc<LoopStats>,
    open: Cell<usize>,
    room: Notify,
    /// A task will look for room when a connection may be asked to leave.
    looks_later: Cell<bool>,
    told: Cell<Option<Instant>>,
}

impl Admission {
    /// Room for `limit` connections; `stats` show how many there are.
    pub fn new(limit: usize, stats: Arc<LoopStats>) -> Admission {
        let (open, room, looks_later, told) = Default::default();
        Admission { limit, stats, open, room, looks_later, told }
    }

    /// How many connections there are.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// Whether there are as many connections as there may be.
    pub fn is_full(&self) -> bool {
        self.open.get() >= self.limit
    }

    /// A connection has begun.
    pub fn begin(&self) {
        self.open.set(self.open.get() + 1);
        self.stats.accepted.add_alone();
        self.stats.active.add_alone();
    }

    /// A connection has ended.
    pub fn end(&self) {
        let was_full = self.is_full();
        debug_assert!(self.open.get() > 0, "a connection ends that never began");
        self.open.set(self.open.get().saturating_sub(1));
        self.stats.active.sub_alone();
        if was_full {
            // Each listening socket's task may wait here, and the one that is told first may have nobody to let in.
            self.room.notify_waiters();
        }
    }

    /// A connection can be asked to leave, if others wait.
    pub fn one_may_leave(&self) {
        if self.is_full() {
            self.room.notify_waiters();
        }
    }

    /// Resolves when a connection has ended, or has become one that can be asked to leave.
    pub async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    /// Whether nobody has begun yet to look for room later; whoever is told so calls [`Admission::look`] when it has.
    pub fn may_look_later(&self) -> bool {
        !self.looks_later.replace(true)
    }

    /// Has those who wait look for room.
    pub fn look(&self) {
        self.looks_later.set(false);
        self.room.notify_waiters();
    }

    /// Says in the log, once in a while, that there is no room; `made_room` is whether a connection is closed for another one.
    pub fn log_full(&self, log: &ErrorLog, made_room: bool) {
        let now = loops::now();
        if self.told.get().is_some_and(|last| now.saturating_duration_since(last) < TOLD_EVERY) {
            return;
        }
        self.told.set(Some(now));
        let limit = self.limit;
        if made_room {
            let message = format_args!("{limit} worker_connections are not enough, reusing connections");
            log.write(Level::Warn, None, message);
        } else {
            log.write(Level::Alert, None, format_args!("{limit} worker_connections are not enough"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_any_kind_share_the_room() {
        loops::block_on(async {
            let admission = Admission::new(2, Arc::default());
            admission.begin();
            assert!(!admission.is_full());
            admission.begin();
            assert!(admission.is_full());
            let mut waiting = std::pin::pin!(admission.wait_for_room());
            let poll =
                std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context).is_ready()));
            assert!(!poll.await);
            admission.end();
            waiting.await;
            assert_eq!(admission.open(), 1);
        })
        .unwrap();
    }
}
