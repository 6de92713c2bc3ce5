//! The idle connections of a loop, in the order in which their timeouts expire.
//!
//! One task of the loop closes the connections whose timeout has expired. So a connection needs no timer of its own,
//! neither its memory nor the cost of setting it after every request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::loops::{self, LoopStats};
use freerun_runtime::stats::Counter;
use freerun_serve::accept::service::CloseAnswer;
use tokio::sync::Notify;

use crate::connection::idle_connection::IdleConnection;
use crate::connection::queues::{Place, Queues};

/// The key of an idle connection. It takes the connection out again.
pub type Key = Place;

/// A moment in nanoseconds since the process began.
type Moment = u64;

/// The time that a connection without a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The time until it is closed.
    pub most: Duration,
    /// The time until it may be closed to make room, or because the worker is shutting down (`keepalive_min_timeout`).
    pub least: Duration,
}

impl Keep {
    /// A connection that is closed after this time, and may be closed before.
    pub fn at_most(most: Duration) -> Keep {
        Keep { most, least: Duration::ZERO }
    }
}

/// The request that an idle connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedRequest {
    /// The next request of a connection that has had one.
    Next,
    /// The first request.
    First,
}

/// The kind of an idle connection. The connections of one kind expire in the order in which they became idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IdleKind {
    waiting: AwaitedRequest,
    /// The time for which the connections are kept, in nanoseconds.
    keep: u64,
}

/// A connection that has been idle since [`IdleConnection::idle_since`].
struct Entry<C> {
    connection: Rc<dyn IdleConnection<C>>,
    /// The time until which it may not be asked to close (`keepalive_min_timeout`); 0 for no such time.
    stays_until: Moment,
}

/// The idle connections of one loop, whatever carries them.
pub struct IdleConnections<C> {
    stats: Arc<LoopStats>,
    connections: RefCell<Queues<IdleKind, Entry<C>>>,
    /// The time of the closing task's next look; `None` while it does not run.
    next_look: Cell<Option<Moment>>,
    earlier: Notify,
}

/// The most connections that are visited before other tasks get their turn.
const IN_A_ROW: usize = 128;

/// The value for a time too long to count: a century.
const FAR: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

/// The most connections that are passed over because they may not be asked to close, to find another.
const LOOKED_AT: usize = 64;

fn moment_of(instant: Instant) -> Moment {
    let since = instant.saturating_duration_since(loops::epoch());
    loops::nanos_of(since)
}

fn instant_of(moment: Moment) -> Instant {
    loops::epoch() + Duration::from_nanos(moment)
}

fn nanos(time: Duration) -> u64 {
    loops::nanos_of(time).min(FAR)
}

impl IdleKind {
    /// The time at which a connection of this kind expires.
    fn end<C>(self, entry: &Entry<C>) -> Moment {
        entry.connection.idle_since().nanos().saturating_add(self.keep)
    }
}

impl<C: 'static> IdleConnections<C> {
    /// An empty set; `stats` count the connections.
    pub fn new(stats: Arc<LoopStats>) -> Rc<IdleConnections<C>> {
        let (connections, next_look, earlier) = (RefCell::new(Queues::default()), Cell::default(), Notify::default());
        Rc::new(IdleConnections { stats, connections, next_look, earlier })
    }

    /// The counter of the connections that wait for this request.
    fn gauge(&self, waiting: AwaitedRequest) -> &Counter {
        match waiting {
            AwaitedRequest::First => &self.stats.fresh,
            AwaitedRequest::Next => &self.stats.idle,
        }
    }

    /// Enters a connection. The key takes it out again.
    ///
    /// The connections of byte streams, whose number is the largest, are entered without a dynamic call.
    #[inline]
    pub fn enter<T: IdleConnection<C> + 'static>(
        self: &Rc<Self>,
        connection: &Rc<T>,
        waiting: AwaitedRequest,
        keep: Keep,
    ) -> Key {
        let now = loops::nanos();
        connection.idle_since().begin(now);
        let (keep, least) = (nanos(keep.most), keep.least);
        let stays_until = if least.is_zero() { 0 } else { now.saturating_add(nanos(least)) };
        let entry = Entry { connection: connection.clone(), stays_until };
        let key = self.connections.borrow_mut().enter(IdleKind { waiting, keep }, entry);
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

    /// Asks idle connections to close that wait for a next request, if `is_to_close` is true for them. A connection
    /// that may not be asked yet is asked as soon as it may. It is called for all connections, some at a time, so that
    /// other tasks get their turn.
    pub fn close_where(
        self: &Rc<Self>,
        name: &'static str,
        is_to_close: impl Fn(&dyn IdleConnection<C>) -> bool + 'static,
    ) {
        if self.connections.borrow().is_empty() {
            return;
        }
        let idle = self.clone();
        loops::spawn(0, name, async move {
            while let Some(later) = idle.close_some(&is_to_close).await {
                freerun_runtime::timer::sleep_until(instant_of(later)).await;
            }
        });
    }

    /// Goes through all connections once. Returns when the first of those may be asked that may not be asked yet.
    async fn close_some(&self, is_to_close: &impl Fn(&dyn IdleConnection<C>) -> bool) -> Option<Moment> {
        let (mut from, mut later) = (0, None::<Moment>);
        loop {
            let (some, next) = {
                let connections = self.connections.borrow();
                let Some((part, next)) = connections.part(from, IN_A_ROW) else { return later };
                (part.map(|entry| (entry.connection.clone(), entry.stays_until)).collect::<Vec<_>>(), next)
            };
            from = next;
            let now = loops::nanos();
            for (connection, stays_until) in some {
                // A first request may be on its way, and is answered.
                if !is_to_close(&*connection)
                    || connection.facts().requests.get() == 0
                    || connection.close_request().is_made()
                {
                    continue;
                }
                if stays_until > now {
                    later = later.into_iter().chain([stays_until]).min()
                } else {
                    connection.close_when_idle()
                }
            }
            loops::yield_now().await;
        }
    }

    /// Takes a connection out. Returns how long it was to be kept from the beginning on, and how long it may not yet be asked
    /// to close.
    #[inline]
    pub fn leave(&self, key: Key) -> Option<Keep> {
        let left = self.connections.borrow_mut().leave(key);
        let (kind, entry) = left?;
        self.gauge(kind.waiting).sub_alone();
        // Most have no such time, and the clock is not asked.
        let least = if entry.stays_until == 0 { 0 } else { entry.stays_until.saturating_sub(loops::nanos()) };
        Some(Keep { most: Duration::from_nanos(kind.keep), least: Duration::from_nanos(least) })
    }

    /// Asks connections to close when they expire, each once; ends when no connection is left to be asked.
    async fn close_expired(&self) {
        // Connections that were asked take themselves out when their tasks run: with thousands of them, long after this
        // task has looked again.
        let stays = |entry: &&Entry<C>| !entry.connection.close_request().is_made();
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

    /// The connection that has been idle longest, among those that may be asked to close and were not yet; or from when on
    /// one may be asked.
    fn oldest(&self) -> Result<Rc<dyn IdleConnection<C>>, Option<Moment>> {
        let now = loops::nanos();
        let mut later: Option<Moment> = None;
        let connections = self.connections.borrow();
        let firsts = connections.iter().filter_map(|(_, entries)| {
            let stay = entries.filter(|entry| !entry.connection.close_request().is_made()).take(LOOKED_AT);
            for entry in stay {
                if entry.stays_until <= now {
                    return Some(&entry.connection);
                }
                later = later.into_iter().chain([entry.stays_until]).min();
            }
            None
        });
        let oldest = firsts.min_by_key(|connection| connection.idle_since().nanos()).cloned();
        oldest.ok_or(later)
    }

    /// The moment at which the connection became idle that [`IdleConnections::close_oldest`] would ask, in nanoseconds since
    /// the process began.
    pub fn oldest_since(&self) -> Option<u64> {
        self.oldest().ok().map(|connection| connection.idle_since().nanos())
    }

    /// Asks the connection that has been idle longest, among those not asked yet, to close.
    pub fn close_oldest(&self) -> CloseAnswer {
        match self.oldest() {
            Ok(connection) => {
                connection.close_when_idle();
                CloseAnswer::Asked
            }
            Err(Some(until)) => CloseAnswer::NotBefore(instant_of(until)),
            Err(None) => CloseAnswer::NoneIdle,
        }
    }

    /// Asks all connections that wait for a next request to close; those that may not be asked yet are asked as soon as
    /// they may. Connections that wait for their first request stay: it may be on its way, and is answered.
    pub fn close_kept(self: &Rc<Self>) {
        let now = moment_of(Instant::now());
        let mut later: Option<Moment> = None;
        let mut all = Vec::new();
        for (kind, entries) in self.connections.borrow().iter() {
            for entry in entries.filter(|_| kind.waiting == AwaitedRequest::Next) {
                if entry.stays_until > now {
                    later = later.into_iter().chain([entry.stays_until]).min()
                } else {
                    all.push(entry.connection.clone())
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::queues::QueueEntry;

    /// There is one for each idle connection, in a vector that grows by doubling.
    #[test]
    fn the_entry_of_an_idle_connection_stays_small() {
        assert!(size_of::<QueueEntry<Entry<()>>>() <= 32, "{}", size_of::<QueueEntry<Entry<()>>>());
    }
}
