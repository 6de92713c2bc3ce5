//! The idle connections of a loop, in the order in which their time is up.
//!
//! One task of the loop closes those whose time is up, so that a connection needs no timer of its own: neither its
//! memory, nor the cost of setting it after every request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::loops::{self, LoopStats};
use freerun_runtime::stats::Counter;
use freerun_serve::service::Asked;
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::connection::queues::{Place, Queues};

/// What an idle connection has, to be taken out again.
pub type Key = Place;

/// A moment in nanoseconds since the process began.
type Moment = u64;

/// What an idle connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Its next request.
    Next,
    /// Its first one.
    First,
}

/// Connections of one kind are idle in the order in which they came, and in that order their time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    waiting: Waiting,
    /// For how long they are kept, in nanoseconds.
    keep: u64,
}

/// A connection that is idle since [`Connection::idle_since`].
struct Entry<C> {
    connection: Rc<Connection<C>>,
    /// Until when it may not be asked to leave (`keepalive_min_timeout`); 0 for no such time.
    stays_until: Moment,
}

/// The idle connections of one loop.
pub struct Idle<C> {
    stats: Arc<LoopStats>,
    connections: RefCell<Queues<Kind, Entry<C>>>,
    /// When the closing task looks next; `None` while it does not run.
    next_look: Cell<Option<Moment>>,
    earlier: Notify,
}

/// How many connections are visited before other tasks have their turn.
const IN_A_ROW: usize = 128;

/// What a time too long to count is taken for: a century.
const FAR: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

/// How many connections that may not be asked to leave are passed over to find one that may.
const LOOKED_AT: usize = 64;

fn moment_of(instant: Instant) -> Moment {
    let since = instant.saturating_duration_since(loops::epoch());
    u64::try_from(since.as_nanos()).unwrap_or(FAR)
}

fn instant_of(moment: Moment) -> Instant {
    loops::epoch() + Duration::from_nanos(moment)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(FAR).min(FAR)
}

impl Kind {
    /// When the time of a connection of this kind is up.
    fn end<C>(self, entry: &Entry<C>) -> Moment {
        entry.connection.idle_since.get().saturating_add(self.keep)
    }
}

impl<C: 'static> Idle<C> {
    /// None yet; `stats` show how many there are.
    pub fn new(stats: Arc<LoopStats>) -> Rc<Idle<C>> {
        let (connections, next_look, earlier) = (RefCell::new(Queues::default()), Cell::default(), Notify::default());
        Rc::new(Idle { stats, connections, next_look, earlier })
    }

    /// The figure that counts connections waiting for this.
    fn gauge(&self, waiting: Waiting) -> &Counter {
        match waiting {
            Waiting::First => &self.stats.fresh,
            Waiting::Next => &self.stats.idle,
        }
    }

    /// Enters a connection that is kept for `keep`, and cannot be asked to leave for `least`. The key takes it out again.
    pub fn enter(
        self: &Rc<Self>,
        connection: &Rc<Connection<C>>,
        waiting: Waiting,
        keep: Duration,
        least: Duration,
    ) -> Key {
        let now = loops::nanos();
        connection.idle_since.set(now);
        let keep = nanos(keep);
        let stays_until = if least.is_zero() { 0 } else { now.saturating_add(nanos(least)) };
        let entry = Entry { connection: connection.clone(), stays_until };
        let key = self.connections.borrow_mut().enter(Kind { waiting, keep }, entry);
        self.gauge(waiting).add_alone();
        let end = now.saturating_add(keep);
        match self.next_look.get() {
            None => {
                self.next_look.set(Some(end));
                let idle = self.clone();
                loops::spawn(0, "closing idle connections", async move { idle.close_expired().await });
            }
            Some(look) if look > end => self.earlier.notify_one(),
            Some(_) => {}
        }
        key
    }

    /// Calls `visit` for all of them, some at a time, so that other tasks have their turn.
    pub fn for_each(self: &Rc<Self>, name: &'static str, visit: impl Fn(&Connection<C>) + 'static) {
        if self.connections.borrow().is_empty() {
            return;
        }
        let idle = self.clone();
        loops::spawn(0, name, async move {
            let mut from = 0;
            loop {
                let (some, next): (Vec<Rc<Connection<C>>>, usize) = {
                    let connections = idle.connections.borrow();
                    let Some((part, next)) = connections.part(from, IN_A_ROW) else { break };
                    (part.map(|entry| entry.connection.clone()).collect(), next)
                };
                from = next;
                some.iter().for_each(|connection| visit(connection));
                drop(some);
                loops::yield_now().await;
            }
        });
    }

    /// Takes a connection out.
    pub fn leave(&self, key: Key) {
        let left = self.connections.borrow_mut().leave(key);
        if let Some((kind, _)) = left {
            self.gauge(kind.waiting).sub_alone();
        }
    }

    /// Asks connections to leave when their time is up, each once; ends when there is none left to be asked.
    async fn close_expired(&self) {
        // Those that were asked take themselves out when it is their turn: of thousands, long after this has looked again.
        let stays = |entry: &&Entry<C>| !entry.connection.is_closing();
        loop {
            let next = {
                let connections = self.connections.borrow();
                let firsts = connections.iter().filter_map(|(kind, mut entries)| Some(kind.end(entries.find(stays)?)));
                firsts.min()
            };
            let Some(next) = next else { break };
            self.next_look.set(Some(next));
            tokio::select! {
                () = freerun_runtime::timer::sleep_until(instant_of(next)) => {}
                () = self.earlier.notified() => continue,
            }
            let now = moment_of(Instant::now());
            let expired: Vec<_> = {
                let connections = self.connections.borrow();
                let expired = connections
                    .iter()
                    .flat_map(|(kind, entries)| entries.take_while(move |entry| kind.end(entry) <= now).filter(stays));
                expired.map(|entry| entry.connection.clone()).collect()
            };
            for connection in expired {
                connection.close_when_idle();
            }
            loops::after_events().await;
        }
        self.next_look.set(None);
    }

    /// Asks the connection that has been idle longest, and which was not asked yet, to close.
    pub fn close_oldest(&self) -> Asked {
        let now = loops::nanos();
        let mut later: Option<Moment> = None;
        let oldest = {
            let connections = self.connections.borrow();
            let firsts = connections.iter().filter_map(|(_, entries)| {
                let stay = entries.filter(|entry| !entry.connection.is_closing()).take(LOOKED_AT);
                for entry in stay {
                    if entry.stays_until <= now {
                        return Some(&entry.connection);
                    }
                    later = later.into_iter().chain([entry.stays_until]).min();
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
    pub fn close_kept(self: &Rc<Self>) {
        let now = moment_of(Instant::now());
        let mut later: Option<Moment> = None;
        let mut all = Vec::new();
        for (kind, entries) in self.connections.borrow().iter() {
            for entry in entries.filter(|_| kind.waiting == Waiting::Next) {
                match entry.stays_until > now {
                    true => later = later.into_iter().chain([entry.stays_until]).min(),
                    false => all.push(entry.connection.clone()),
                }
            }
        }
        for connection in all {
            connection.close_when_idle();
        }
        if let Some(until) = later {
            let idle = self.clone();
            loops::spawn(0, "closing idle connections", async move {
                freerun_runtime::timer::sleep_until(instant_of(until)).await;
                idle.close_kept();
            });
        }
    }

    /// Lets go of them without closing: their loop is ending.
    pub fn forget(&self) {
        let all = std::mem::take(&mut *self.connections.borrow_mut());
        drop(all);
    }
}
