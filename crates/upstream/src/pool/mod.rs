//! Connections to one peer that have room for further requests, shared by all loops of the worker.
//!
//! The pool hands out [`ExchangeSlot`]s: the right to have one exchange on a connection. Most connections have one
//! slot, so that they are in the pool while they are idle; a connection of a protocol with streams has several
//! ([`slot`]).
//!
//! Each loop has a list of its own and takes from it first, the connection used last: it is registered with the loop's
//! epoll already and costs no system call. A loop whose list is empty takes a sibling's connection. This leaves the
//! sibling's epoll and enters this loop's when it first has to wait. No loop waits for a list: a list that another loop
//! has locked is passed over, and in the end a new connection is made.
//!
//! A connection on which anything has come (unexpected bytes, or the end) is never handed out. Its registration knows
//! this without a system call as of the loop's last poll; for a request that must not be sent twice the kernel is
//! asked. A connection that dies or expires in the pool is closed within a second by a task of its loop, which runs
//! only while there are connections in its lists.
//!
//! Requests for connections with several slots that find none wait for the connection of another request ([`new_connection`]).

pub mod keepalive;
mod lists;
pub mod new_connection;
pub mod slot;
mod sweep;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use freerun_runtime::loops;

use keepalive::within;
pub use keepalive::{IdleCount, KeepAlive, MAX_LISTS, Scope};
use lists::{Idle, IdleConnection, IdleEntry, ListResult, Lists};
use slot::Carrier;
pub use slot::{ExchangeSlot, Exclusive, MultiplexedConnection, SharedSlot};
pub use sweep::leave;
use sweep::{CLOSED_AT_ONCE, close_oldest, have_swept};

/// The connections of one peer that have room.
#[derive(Default)]
pub struct Pool(Arc<Lists>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pool({})", self.len())
    }
}

impl Pool {
    /// Number of connections in the pool and its branches, on all loops together.
    pub fn len(&self) -> usize {
        self.0.total()
    }

    /// Whether the pool has no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Acquires a slot of a live connection for a request of this scope, and counts the request. This loop's connection
    /// that was used last comes first, then a sibling's. With `surely`, the kernel is asked whether the peer has closed
    /// it meanwhile, for a request that must not be sent twice. Otherwise the state known to the loop is used.
    pub fn acquire(&self, scope: Scope, surely: bool) -> Option<ExchangeSlot> {
        let lists = self.0.known()?;
        let me = loops::index().unwrap_or(0);
        let now = loops::nanos();
        let mut index = within(me, lists);
        let mut closed = 0;
        for _ in 0..lists {
            if let Some(slot) = self.acquire_from(index, scope, surely, now, &mut closed) {
                return Some(slot);
            }
            index = if index + 1 == lists { 0 } else { index + 1 };
        }
        None
    }

    fn acquire_from(
        &self,
        index: usize,
        scope: Scope,
        surely: bool,
        now: u64,
        closed: &mut usize,
    ) -> Option<ExchangeSlot> {
        loop {
            if self.0.len(index) == 0 || *closed == CLOSED_AT_ONCE {
                return None;
            }
            let found = self.0.try_lock(index)?.find(scope, now)?;
            match found {
                ListResult::Slot(slot) => {
                    debug_assert!(slot.scope() == scope, "a connection of another scope is handed out");
                    return Some(slot.into());
                }
                ListResult::Over(entry) => self.0.left(index, entry.count.as_ref()),
                ListResult::Idle(IdleEntry { held, count }) => {
                    self.0.left(index, count.as_ref());
                    if !held.is_over(now, surely) {
                        let mut connection = held.connection;
                        if !connection.transport.is_here() {
                            connection.transport = connection.transport.moved();
                        }
                        debug_assert!(connection.scope == scope, "a connection of another scope is handed out");
                        debug_assert!(connection.requests > 0, "an idle connection has served a request");
                        connection.requests += 1;
                        return Some(connection.into());
                    }
                }
            }
            *closed += 1;
        }
    }

    /// Releases a slot whose exchange has ended cleanly, so that another request may have it. `false` if the connection
    /// was closed instead: there are too many others, it has served enough, or something has come on it. A slot
    /// whose exchange has ended otherwise is dropped instead.
    pub fn release(&self, slot: ExchangeSlot, settings: &KeepAlive, count: &Arc<IdleCount>) -> bool {
        let ExchangeSlot::Exclusive(connection) = slot else { return true };
        debug_assert!(connection.requests > 0, "a connection that was released has served a request");
        let now = loops::nanos();
        // A loop's clock may be a little behind the clock of the loop that made the connection.
        let old = now.saturating_sub(connection.since) >= loops::nanos_of(settings.time);
        if settings.connections == 0 || connection.requests >= settings.requests || old {
            return false;
        }
        if connection.transport.watch().is_err() || !connection.transport.is_quiet(false) {
            return false;
        }
        let expires = now.saturating_add(loops::nanos_of(settings.timeout));
        self.park(IdleConnection::Idle(Idle { connection, since: now, expires }), settings, count)
    }

    /// Adds a new connection that carries several exchanges at a time and returns its first slot. Other requests of
    /// this scope on this loop find further slots in the pool, as long as the connection has room. It counts as one of
    /// the group's connections, whether or not it is used; while it is used it is there even if there are more than are
    /// kept.
    pub fn share(
        &self,
        connection: impl MultiplexedConnection,
        scope: Scope,
        settings: &KeepAlive,
        count: &Arc<IdleCount>,
    ) -> SharedSlot {
        let (carrier, slot) = Carrier::new(connection, self.place(scope), settings);
        if settings.connections > 0 {
            self.park(IdleConnection::Shared(carrier), settings, count);
        }
        slot
    }

    /// Makes a pool of connections to the same peer for one client, on the client's loop: call it there. No other
    /// client uses it, so that a connection put there is always found. Its connections are counted together with the
    /// connections of this pool, and are closed with it.
    #[must_use]
    pub fn branch(&self) -> Pool {
        Pool(Arc::new(Lists::branch(&self.0, loops::index().unwrap_or(0))))
    }

    /// Puts a connection into this loop's list. `false`: there is no room for it.
    fn park(&self, held: IdleConnection, settings: &KeepAlive, count: &Arc<IdleCount>) -> bool {
        let me = loops::index().unwrap_or(0);
        let index = self.0.of(me);
        let own = self.0.count.get_or_init(|| count.clone());
        let other = (!Arc::ptr_eq(own, count)).then(|| count.clone());
        let Some(counted) = self.0.counted(index, count) else { return false };
        let is_shared = matches!(held, IdleConnection::Shared(_));
        if counted.fetch_add(1, Relaxed) >= settings.connections && !close_oldest(me, count) && !is_shared {
            let before = counted.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "the connection was counted a moment ago");
            return false;
        }
        let Some(mut list) = self.0.try_lock(index) else {
            let before = counted.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "the connection was counted a moment ago");
            return false;
        };
        list.put(held, other);
        if !std::mem::replace(&mut list.swept, true) {
            drop(list);
            have_swept(&self.0, count);
        }
        true
    }
}

#[cfg(test)]
mod tests;
