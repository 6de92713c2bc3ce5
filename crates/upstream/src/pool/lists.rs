//! The lists of connections that have room: one for each loop, and no loop waits for a list.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::keepalive::{IdleCount, Scope, lists, within};
use super::slot::{Carrier, Exclusive, SharedSlot};

/// Number of tries to take a list that another loop has locked, before it is passed over.
const TRIES: usize = 16;

/// A connection in a list.
pub(super) struct IdleEntry<T> {
    pub(super) held: T,
    /// The count that the connection belongs to, if it is not the count of the peer's lists.
    pub(super) count: Option<Arc<IdleCount>>,
}

/// A connection that is idle.
pub(super) struct Idle {
    pub(super) connection: Exclusive,
    /// The time since when it is idle and the time of its end, both in [`freerun_runtime::loops::nanos`].
    pub(super) since: u64,
    pub(super) expires: u64,
}

impl Idle {
    /// Whether it is too old, or dead: as far as the loop knows, or with `surely` as the kernel says.
    pub(super) fn is_over(&self, now: u64, surely: bool) -> bool {
        now >= self.expires || !self.connection.transport.is_quiet(surely)
    }
}

/// A connection of either kind, as a list holds it.
pub(super) enum IdleConnection {
    Idle(Idle),
    Shared(Arc<Carrier>),
}

/// The result of looking for a connection in a list.
pub(super) enum ListResult {
    /// A connection that was idle; it has left the list.
    Idle(IdleEntry<Idle>),
    /// A slot of a shared connection.
    Slot(SharedSlot),
    /// A connection that is over; it has left the list.
    Over(IdleEntry<Arc<Carrier>>),
}

#[derive(Default)]
pub(super) struct List {
    /// The idle connections, the one used last at the end.
    idle: VecDeque<IdleEntry<Idle>>,
    /// The connections that carry several exchanges at a time, used or not.
    shared: VecDeque<IdleEntry<Arc<Carrier>>>,
    /// Whether the sweep task of the list's loop knows the peer.
    pub(super) swept: bool,
}

impl List {
    fn len(&self) -> usize {
        self.idle.len() + self.shared.len()
    }

    /// Puts a connection into the list.
    pub(super) fn put(&mut self, held: IdleConnection, count: Option<Arc<IdleCount>>) {
        match held {
            IdleConnection::Idle(held) => self.idle.push_back(IdleEntry { held, count }),
            IdleConnection::Shared(held) => self.shared.push_back(IdleEntry { held, count }),
        }
    }

    /// Finds a connection for a request of this scope: the one used last.
    pub(super) fn find(&mut self, scope: Scope, now: u64) -> Option<ListResult> {
        match self.idle.back() {
            Some(last) if last.held.connection.scope == scope => return self.idle.pop_back().map(ListResult::Idle),
            _ => {}
        }
        if let Some(position) = self.idle.iter().rposition(|entry| entry.held.connection.scope == scope) {
            return self.idle.remove(position).map(ListResult::Idle);
        }
        let position = self.shared.iter().rposition(|entry| entry.held.offers(scope))?;
        debug_assert!(!self.idle.iter().any(|entry| entry.held.connection.scope == scope), "an idle one comes first");
        match self.shared[position].held.acquire(now) {
            Some(slot) => Some(ListResult::Slot(slot)),
            None => self.shared.remove(position).map(ListResult::Over),
        }
    }

    /// Number of slots of shared connections for requests of this scope.
    pub(super) fn free(&self, scope: Scope) -> usize {
        self.shared.iter().map(|entry| entry.held.free(scope)).sum()
    }

    /// The time since when the longest unused connection is unused; `None`: all connections are in use.
    pub(super) fn unused_since(&self) -> Option<u64> {
        let idle = self.idle.front().map(|entry| entry.held.since);
        idle.into_iter().chain(self.unused_share().map(|(_, since)| since)).min()
    }

    fn unused_share(&self) -> Option<(usize, u64)> {
        let shared = self.shared.iter().enumerate().filter(|(_, entry)| !entry.held.is_used());
        shared.map(|(position, entry)| (position, entry.held.unused_since())).min_by_key(|(_, since)| *since)
    }

    /// Takes out the connection that is unused for longest, with the count that it belongs to.
    pub(super) fn take_oldest(&mut self) -> Option<IdleEntry<IdleConnection>> {
        let idle = self.idle.front().map(|entry| entry.held.since);
        match self.unused_share() {
            Some((position, since)) if idle.is_none_or(|idle| since < idle) => self
                .shared
                .remove(position)
                .map(|IdleEntry { held, count }| IdleEntry { held: IdleConnection::Shared(held), count }),
            _ => self
                .idle
                .pop_front()
                .map(|IdleEntry { held, count }| IdleEntry { held: IdleConnection::Idle(held), count }),
        }
    }
}

/// Takes the connections that fulfil the condition out of a part of a list.
fn take_out<T>(from: &mut VecDeque<IdleEntry<T>>, is_over: impl Fn(&T) -> bool) -> impl Iterator<Item = IdleEntry<T>> {
    let mut stay = 0;
    for position in 0..from.len() {
        if !is_over(&from[position].held) {
            from.swap(stay, position);
            stay += 1;
        }
    }
    debug_assert!(stay <= from.len(), "more connections stay than there were");
    from.drain(stay..)
}

/// The connections to one peer that have room, in a list for each loop.
#[derive(Default)]
pub(super) struct Lists {
    lists: OnceLock<Box<[LoopList]>>,
    /// The count of the group that connections were first kept for; a peer seldom has a second one.
    pub(super) count: OnceLock<Arc<IdleCount>>,
    /// Set if this is a branch: one list, of one loop.
    branch: Option<Branch>,
    /// Number of connections in the lists of branches.
    in_branches: AtomicUsize,
    /// Number of exchanges that a connection carries at a time, as the peer allowed last; 0: that is not known.
    pub(super) streams: AtomicUsize,
}

/// Pool and client that a branch belongs to.
struct Branch {
    trunk: Arc<Lists>,
    /// The number of the loop that uses the branch.
    loop_index: usize,
}

/// The list of one loop, or of several.
#[derive(Default)]
struct LoopList {
    list: Mutex<List>,
    /// Number of connections in the list: written by the loop that has the lock, read by any.
    length: AtomicUsize,
}

impl Lists {
    /// Makes a separate list for connections to the same peer that only this loop uses.
    pub(super) fn branch(trunk: &Arc<Lists>, loop_index: usize) -> Lists {
        let mut lists = Lists::default();
        lists.branch = Some(Branch { trunk: trunk.clone(), loop_index });
        lists
    }

    fn all(&self) -> &[LoopList] {
        let number = || if self.branch.is_some() { 1 } else { lists() };
        self.lists.get_or_init(|| (0..number()).map(|_| Default::default()).collect())
    }

    /// Number of lists; `None`: no list was used yet.
    pub(super) fn known(&self) -> Option<usize> {
        self.lists.get().map(|lists| lists.len())
    }

    /// The index of a loop's list.
    pub(super) fn of(&self, me: usize) -> usize {
        within(me, self.all().len())
    }

    /// Number of connections in all lists, with the lists of branches.
    pub(super) fn total(&self) -> usize {
        let own = self.lists.get().map_or(0, |lists| lists.iter().map(|list| list.length.load(Relaxed)).sum());
        self.in_branches.load(Relaxed) + own
    }

    fn in_branches(&self) -> Option<&AtomicUsize> {
        self.branch.as_ref().map(|branch| &branch.trunk.in_branches)
    }

    /// The part of a group's count for the list's loop: the connections of the list belong to it.
    pub(super) fn counted<'c>(&self, index: usize, count: &'c IdleCount) -> Option<&'c AtomicUsize> {
        count.of(self.branch.as_ref().map_or(index, |branch| branch.loop_index))
    }

    /// Locks the list, unless another loop has it.
    pub(super) fn try_lock(&self, index: usize) -> Option<LockedList<'_>> {
        let LoopList { list, length } = &self.all()[index];
        let locked = (0..TRIES).find_map(|_| {
            let locked = list.try_lock().ok();
            if locked.is_none() {
                std::hint::spin_loop();
            }
            locked
        });
        locked.map(|list| LockedList { list, length, sum: self.in_branches() })
    }

    /// Number of connections in a list.
    pub(super) fn len(&self, index: usize) -> usize {
        self.lists.get().map_or(0, |lists| lists[index].length.load(Relaxed))
    }

    /// Counts a connection that left a list, with the count that it belongs to. It has to be called for each one.
    pub(super) fn left(&self, index: usize, count: Option<&Arc<IdleCount>>) {
        let count = count.or_else(|| self.count.get());
        if let Some(counted) = count.and_then(|count| self.counted(index, count)) {
            let before = counted.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "a connection leaves a list that was never counted");
        }
    }

    /// Closes all connections of a list; false if another loop has locked it.
    pub(super) fn clear(&self, index: usize) -> bool {
        let Some(mut list) = self.try_lock(index) else { return false };
        let (idle, shared) = (std::mem::take(&mut list.idle), std::mem::take(&mut list.shared));
        list.swept = false;
        drop(list);
        idle.iter().for_each(|entry| self.left(index, entry.count.as_ref()));
        shared.iter().for_each(|entry| self.left(index, entry.count.as_ref()));
        true
    }

    /// Takes out the dead and expired connections of a list, and says whether the list has to be looked at again.
    pub(super) fn sweep(&self, index: usize, now: u64) -> (Vec<IdleConnection>, bool) {
        let Some(mut list) = self.try_lock(index) else { return (Vec::new(), true) };
        let mut over = Vec::new();
        for IdleEntry { held, count } in take_out(&mut list.idle, |idle| idle.is_over(now, false)) {
            self.left(index, count.as_ref());
            over.push(IdleConnection::Idle(held));
        }
        for IdleEntry { held, count } in take_out(&mut list.shared, |carrier| carrier.is_over(now)) {
            self.left(index, count.as_ref());
            over.push(IdleConnection::Shared(held));
        }
        // While they are used, there may be more of them than are kept.
        while let Some((position, _)) = list.unused_share() {
            let IdleEntry { held, count } = &list.shared[position];
            let counted = count.as_ref().or_else(|| self.count.get()).and_then(|count| self.counted(index, count));
            if counted.is_none_or(|counted| counted.load(Relaxed) <= held.most_unused()) {
                break;
            }
            let Some(IdleEntry { held, count }) = list.shared.remove(position) else { break };
            self.left(index, count.as_ref());
            over.push(IdleConnection::Shared(held));
        }
        list.swept = list.len() > 0;
        (over, list.swept)
    }
}

impl Drop for Lists {
    /// Closes the connections that remain and no longer counts them for the group.
    fn drop(&mut self) {
        if let Some(sum) = self.in_branches() {
            let own = self.total();
            let before = sum.fetch_sub(own, Relaxed);
            debug_assert!(before >= own, "a branch has more connections than all branches");
        }
        for (index, slot) in self.lists.take().unwrap_or_default().into_iter().enumerate() {
            let list = slot.list.into_inner().unwrap_or_else(PoisonError::into_inner);
            list.idle.iter().for_each(|entry| self.left(index, entry.count.as_ref()));
            list.shared.iter().for_each(|entry| self.left(index, entry.count.as_ref()));
        }
    }
}

/// A locked list. Its length is published when it is unlocked.
pub(super) struct LockedList<'l> {
    list: MutexGuard<'l, List>,
    length: &'l AtomicUsize,
    /// For a branch: the sum of the lengths of all branches.
    sum: Option<&'l AtomicUsize>,
}

impl Deref for LockedList<'_> {
    type Target = List;

    fn deref(&self) -> &List {
        &self.list
    }
}

impl DerefMut for LockedList<'_> {
    fn deref_mut(&mut self) -> &mut List {
        &mut self.list
    }
}

impl Drop for LockedList<'_> {
    fn drop(&mut self) {
        let length = self.list.len();
        if let Some(sum) = self.sum {
            sum.fetch_add(length.wrapping_sub(self.length.load(Relaxed)), Relaxed);
        }
        self.length.store(length, Relaxed);
    }
}
