//! The limit of the connections of a loop (`worker_connections`): one count for connections of every kind.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::log::{ErrorLog, Level};
use freerun_runtime::loops::{self, LoopStats};
use tokio::sync::Notify;

/// The shortest time between two messages that there is no room.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The counted connections of a loop.
pub struct Admission {
    limit: usize,
    stats: Arc<LoopStats>,
    open: Cell<usize>,
    room: Notify,
    /// Whether a task will look for room when a connection may be asked to leave.
    looks_later: Cell<bool>,
    told: Cell<Option<Instant>>,
}

impl Admission {
    /// Room for `limit` connections; `stats` count them.
    pub fn new(limit: usize, stats: Arc<LoopStats>) -> Admission {
        let (open, room, looks_later, told) = Default::default();
        Admission { limit, stats, open, room, looks_later, told }
    }

    /// The number of connections.
    pub fn open(&self) -> usize {
        self.open.get()
    }

    /// The limit.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the limit is reached.
    pub fn is_full(&self) -> bool {
        self.open.get() >= self.limit
    }

    /// Counts a connection that has begun.
    pub fn begin(&self) {
        self.open.set(self.open.get() + 1);
        self.stats.accepted.add_alone();
        self.stats.active.add_alone();
    }

    /// Counts a connection that another loop has accepted.
    pub fn adopt(&self) {
        self.open.set(self.open.get() + 1);
        self.stats.active.add_alone();
    }

    /// Counts a connection that has ended.
    pub fn end(&self) {
        let was_full = self.is_full();
        debug_assert!(self.open.get() > 0, "a connection ends that never began");
        debug_assert!(self.stats.active.get() >= self.open.get() as u64, "the figures have fewer connections");
        self.open.set(self.open.get().saturating_sub(1));
        self.stats.active.sub_alone();
        if was_full {
            // Each listening socket's task may wait here, and the first one may have no connection to accept, so all
            // are woken.
            self.room.notify_waiters();
        }
    }

    /// Counts a connection that was closed at once, for want of room.
    pub fn drop_one(&self) {
        self.stats.dropped.add_alone();
    }

    /// Notes that a connection can be asked to leave, if others wait.
    pub fn one_may_leave(&self) {
        if self.is_full() {
            self.room.notify_waiters();
        }
    }

    /// Resolves when a connection has ended, or can be asked to leave now.
    pub async fn wait_for_room(&self) {
        self.room.notified().await;
    }

    /// Whether no task has begun to look for room later; a caller that gets `true` calls [`Admission::look`] when it
    /// has looked.
    pub fn may_look_later(&self) -> bool {
        !self.looks_later.replace(true)
    }

    /// Wakes the tasks that wait for room.
    pub fn look(&self) {
        self.looks_later.set(false);
        self.room.notify_waiters();
    }

    /// Logs, at most once in a while, that there is no room; `made_room` is whether a connection is closed for another
    /// one.
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
