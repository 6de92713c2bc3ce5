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
    /// Until when those may not be asked to leave that have such a time (`keepalive_min_timeout`).
    protected: RefCell<BTreeMap<Key, Key>>,
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

/// How many connections that may not be asked to leave are passed over to find one that may.
const LOOKED_AT: usize = 64;

fn instant_of(key: Key) -> Instant {
    loops::epoch() + Duration::from_nanos(key)
}

/// Who was asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The connection that has been idle longest.
    One,
    /// Nobody yet: there is one from this time on.
    Later(Instant),
    /// Nobody: none is idle.
    Nobody,
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
    /// Enters a connection that is kept for `keep`, and cannot be asked to leave for `least`. The key takes it out again.
    pub fn enter(
        &self,
        home: &Rc<LoopState>,
        connection: &Rc<Connection>,
        waiting: Waiting,
        keep: Duration,
        least: Duration,
    ) -> Key {
        connection.idle_since.set(loops::nanos());
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(FAR).min(FAR);
        let keep = nanos(keep);
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
        if !least.is_zero() {
            self.protected.borrow_mut().insert(key, connection.idle_since.get().saturating_add(nanos(least)));
        }
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
        self.protected.borrow_mut().remove(&key);
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
                () = tokio::time::sleep_until(instant_of(next).into()) => {}
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

    /// Until when a connection may not be asked to leave.
    fn protected_until(&self, key: Key, now: Key) -> Option<Key> {
        let protected = self.protected.borrow();
        if protected.is_empty() { None } else { protected.get(&key).copied().filter(|until| *until > now) }
    }

    /// Asks the connection that has been idle longest, and which was not asked yet, to close.
    pub fn close_oldest(&self) -> Asked {
        let now = loops::nanos();
        let mut later: Option<Key> = None;
        let oldest = {
            let connections = self.connections.borrow();
            let firsts = connections.iter().filter_map(|alike| {
                // Those that wait for the same are, nearly, in the order in which they came.
                let stay = alike.iter().filter(|(_, connection)| !connection.is_closing()).take(LOOKED_AT);
                for (key, connection) in stay {
                    match self.protected_until(*key, now) {
                        Some(until) => later = later.into_iter().chain([until]).min(),
                        None => return Some(connection),
                    }
                }
                None
            });
            firsts.min_by_key(|connection| connection.idle_since.get()).cloned()
        };
        match (oldest, later) {
            (Some(connection), _) => {
                connection.close_when_idle();
                Asked::One
            }
            (None, Some(until)) => Asked::Later(instant_of(until)),
            (None, None) => Asked::Nobody,
        }
    }

    /// Asks all that wait for a next request to close; those that may not be asked yet as soon as they may. The first request
    /// of others may be on its way, and is answered.
    pub fn close_kept(home: &Rc<LoopState>) {
        let now = key_of(Instant::now());
        let mut later: Option<Key> = None;
        let mut all = Vec::new();
        for (key, connection) in &home.idle.connections.borrow()[Waiting::Next as usize] {
            match home.idle.protected_until(*key, now) {
                Some(until) => later = later.into_iter().chain([until]).min(),
                None => all.push(connection.clone()),
            }
        }
        for connection in all {
            connection.close_when_idle();
        }
        if let Some(until) = later {
            let home = home.clone();
            loops::spawn(0, "closing idle connections", async move {
                tokio::time::sleep_until(instant_of(until).into()).await;
                Idle::close_kept(&home);
            });
        }
    }

    /// Lets go of them without closing: their loop is ending.
    pub fn forget(&self) {
        for alike in self.connections.borrow_mut().iter_mut() {
            alike.clear();
        }
        self.protected.borrow_mut().clear();
    }
}
