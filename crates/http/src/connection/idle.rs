//! The idle connections of a loop, in the order in which their time is up.
//!
//! One task of the loop closes those whose time is up, so that a connection needs no timer of its own: neither its
//! memory, nor the cost of setting it after every request.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::{Duration, Instant};

use freerun_runtime::loops;
use freerun_runtime::stats::Counter;
use tokio::sync::Notify;

use crate::request::Connection;
use crate::worker::LoopState;

/// When a connection's time is up, in nanoseconds since the process began; made unique by moving it a little. The lowest
/// bit says what it waits for.
pub type Key = u64;

/// What an idle connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Its next request.
    Next = 0,
    /// Its first one.
    First = 1,
}

/// The idle connections of one loop.
#[derive(Default)]
pub struct Idle {
    /// By what they wait for: the time they are given differs, and so would the order in which they came.
    connections: RefCell<[BTreeMap<Key, Rc<Connection>>; 2]>,
    /// When the closing task looks next; `None` while it does not run.
    next_look: Cell<Option<Key>>,
    earlier: Notify,
}

/// How many connections take over a new configuration before other tasks have their turn.
const RENEWED: usize = 128;

/// What a time too long to count is taken for: a century.
const FAR: Key = 100 * 365 * 24 * 3600 * 1_000_000_000;

fn key_of(moment: Instant) -> Key {
    let since = moment.saturating_duration_since(loops::epoch());
    u64::try_from(since.as_nanos()).unwrap_or(FAR)
}

/// The figure that counts connections waiting for this.
fn gauge(home: &LoopState, waiting: Waiting) -> &Counter {
    match waiting {
        Waiting::First => &home.stats.fresh,
        Waiting::Next => &home.stats.idle,
    }
}

/// The map that a key belongs to.
fn class(key: Key) -> usize {
    usize::from(key & 1 == 1)
}

impl Idle {
    /// Enters a connection that is kept for `keep`. The key takes it out again.
    pub fn enter(&self, home: &Rc<LoopState>, connection: &Rc<Connection>, waiting: Waiting, keep: Duration) -> Key {
        connection.idle_since.set(key_of(loops::now()));
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(FAR).min(FAR);
        let mut key = (connection.idle_since.get().saturating_add(keep) & !1) | waiting as Key;
        let mut connections = self.connections.borrow_mut();
        let connections_alike = &mut connections[class(key)];
        loop {
            match connections_alike.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(connection.clone());
                    break;
                }
                Entry::Occupied(_) => key += 2,
            }
        }
        drop(connections);
        gauge(home, waiting).add();
        match self.next_look.get() {
            None => {
                self.next_look.set(Some(key));
                let home = home.clone();
                loops::spawn(0, "closing idle connections", async move { home.idle.close_expired().await });
            }
            Some(look) if look > key => self.earlier.notify_one(),
            Some(_) => {}
        }
        key
    }

    /// Has all connections let go of the configuration of their last request, which takes memory, for the one that counts
    /// now. To be called when there is another one.
    pub fn renew(home: &Rc<LoopState>) {
        if home.idle.connections.borrow().iter().all(BTreeMap::is_empty) {
            return;
        }
        let home = home.clone();
        loops::spawn(0, "renewing idle connections", async move {
            for class in 0..2 {
                let mut from = 0;
                loop {
                    let some: Vec<(Key, Rc<Connection>)> = {
                        let connections = home.idle.connections.borrow();
                        let rest = connections[class].range(from..).take(RENEWED);
                        rest.map(|(key, connection)| (*key, connection.clone())).collect()
                    };
                    let Some((last, _)) = some.last() else { break };
                    from = last.saturating_add(1);
                    some.iter().for_each(|(_, connection)| connection.renew());
                    drop(some);
                    loops::yield_now().await;
                }
            }
        });
    }

    /// Takes a connection out.
    pub fn leave(&self, home: &LoopState, key: Key) {
        let was_there = self.connections.borrow_mut()[class(key)].remove(&key).is_some();
        if was_there {
            gauge(home, if class(key) == Waiting::Next as usize { Waiting::Next } else { Waiting::First }).sub();
        }
    }

    /// Closes connections when their time is up; ends when there is none left.
    async fn close_expired(&self) {
        loop {
            let next = self.connections.borrow().iter().filter_map(|alike| alike.keys().next().copied()).min();
            let Some(next) = next else { break };
            self.next_look.set(Some(next));
            tokio::select! {
                () = tokio::time::sleep_until((loops::epoch() + Duration::from_nanos(next)).into()) => {}
                () = self.earlier.notified() => continue,
            }
            let now = key_of(Instant::now());
            let expired: Vec<_> = {
                let connections = self.connections.borrow();
                let expired = connections.iter().flat_map(|alike| alike.range(..=now));
                expired.map(|(_, connection)| connection.clone()).collect()
            };
            for connection in expired {
                connection.close_when_idle();
            }
            // The connections take themselves out when their tasks run, which is before this one runs again.
            tokio::task::yield_now().await;
        }
        self.next_look.set(None);
    }

    /// Asks the connection that has been idle longest, and which was not asked yet, to close. `false`: there is none.
    pub fn close_oldest(&self) -> bool {
        let oldest = {
            let connections = self.connections.borrow();
            let firsts = connections.iter().filter_map(|alike| {
                // Those that wait for the same are, nearly, in the order in which they came.
                alike.values().find(|connection| !connection.is_closing())
            });
            firsts.min_by_key(|connection| connection.idle_since.get()).cloned()
        };
        oldest.is_some_and(|connection| {
            connection.close_when_idle();
            true
        })
    }

    /// Asks all to close.
    pub fn close_all(&self) {
        let all: Vec<_> = self.connections.borrow().iter().flat_map(BTreeMap::values).cloned().collect();
        for connection in all {
            connection.close_when_idle();
        }
    }

    /// Lets go of them without closing: their loop is ending.
    pub fn forget(&self) {
        for alike in self.connections.borrow_mut().iter_mut() {
            alike.clear();
        }
    }
}
