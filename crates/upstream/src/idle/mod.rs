//! Idle connections to one peer, kept for further requests and shared by all loops of the worker.
//!
//! Each loop has a list of its own and takes from it first, the connection used last: that one is registered with the
//! loop's epoll already and costs no system call. A loop whose list has nothing takes a sibling's connection, which
//! leaves the sibling's epoll and enters this loop's when it first has to wait. Nobody waits for a list: where another
//! loop has it for the moment, it is passed over, and in the end a new connection is made.
//!
//! A connection on which anything has come — bytes nobody asked for, or the end — is never handed out. Its
//! registration knows that without a system call as of the loop's last look at its events; for a request that must not
//! be sent twice the kernel is asked. What dies or grows too old while nobody takes it is closed within a second by a
//! task of its loop, which runs only while there is something idle.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use freerun_runtime::loops;
use freerun_transport::Transport;

/// Most lists a peer has; beyond as many loops, several share one.
pub const MAX_LISTS: usize = 256;

/// How often dead and expired connections are looked for.
pub const SWEEP: Duration = Duration::from_millis(500);

/// After how many looked-at peers the sweep lets others run.
const SWEPT_AT_ONCE: usize = 64;

/// Closing takes a system call each: after so many the sweep lets others run, and a request stops looking for a live one among
/// the dead.
const CLOSED_AT_ONCE: usize = 32;

/// When a list that another loop had is looked at again, by who has to close something in it. A loop has a list for
/// microseconds, unless its thread is stopped meanwhile.
const AGAIN: Duration = Duration::from_millis(10);

/// How often a list that another loop has for a moment is asked for before it is passed over.
const TRIES: usize = 16;

/// How long and how many connections are kept: the `keepalive*` directives of nginx's `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepAlive {
    /// `keepalive N`: how many idle connections of one group a loop keeps; beyond, the one unused for longest is closed.
    /// nginx means a worker process by it. Here, where all loops share, up to N times the number of loops are idle in all.
    pub connections: usize,
    /// The parameter `local`: connections are used again by the location that made them alone.
    pub local: bool,
    /// `keepalive_requests`: after so many requests a connection is closed.
    pub requests: u64,
    /// `keepalive_time`: after so long it is not kept again.
    pub time: Duration,
    /// `keepalive_timeout`: how long it may be idle.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    /// What nginx does where nothing is configured: `keepalive 32 local` (since 1.29.7), 1000 requests, an hour, 60 seconds.
    fn default() -> KeepAlive {
        KeepAlive {
            connections: 32,
            local: true,
            requests: 1000,
            time: Duration::from_secs(3600),
            timeout: Duration::from_secs(60),
        }
    }
}

/// Who may use a connection again: only requests of the same scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(u64);

impl Scope {
    /// All that connect in the ordinary way.
    pub const SHARED: Scope = Scope(0);

    /// A scope for all that are equal in `parts`: the address that is bound, the location with `local`. Has to mean the
    /// same in the next configuration, for connections outlive one.
    pub fn of(parts: impl Hash) -> Scope {
        Scope(BuildHasherDefault::<DefaultHasher>::default().hash_one(parts) | 1)
    }
}

/// A connection to a peer between two requests, or while it serves one.
#[derive(Debug)]
pub struct Kept {
    /// The byte stream to the server.
    pub transport: Transport,
    /// Who may use it again.
    pub scope: Scope,
    /// When it was made, in [`loops::nanos`].
    pub since: u64,
    /// How many requests it has been used for, the present one included.
    pub requests: u64,
}

impl Kept {
    /// A connection that was just made, for its first request.
    pub fn new(transport: Transport, scope: Scope) -> Kept {
        Kept { transport, scope, since: loops::nanos(), requests: 1 }
    }
}

/// How many connections of one group are idle, for each loop: what `keepalive N` is held against. All peers of a group
/// share it, over reloads too.
#[derive(Debug, Default)]
pub struct Count(OnceLock<Box<[AtomicUsize]>>);

impl Count {
    fn of(&self, list: usize) -> Option<&AtomicUsize> {
        let counts = self.0.get_or_init(|| (0..lists()).map(|_| AtomicUsize::new(0)).collect());
        counts.get(within(list, counts.len()))
    }

    /// Idle connections of the group in all.
    pub fn total(&self) -> usize {
        self.0.get().map_or(0, |counts| counts.iter().map(|count| count.load(Relaxed)).sum())
    }
}

/// The list of a loop, of so many of them.
fn within(index: usize, lists: usize) -> usize {
    if index < lists { index } else { index % lists }
}

/// A time, as much of it as a number holds: five hundred years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn lists() -> usize {
    loops::count().clamp(1, MAX_LISTS)
}

struct Parked {
    kept: Kept,
    /// Both in [`loops::nanos`].
    idle_since: u64,
    expires: u64,
    /// What it is counted in, if that is not the one of the peer's lists.
    count: Option<Arc<Count>>,
}

impl Parked {
    fn is_fresh(&self, now: u64) -> bool {
        now < self.expires
    }
}

#[derive(Default)]
struct List {
    /// The one used last is at the end.
    parked: VecDeque<Parked>,
    /// Whether the sweep of the list's loop knows the peer.
    swept: bool,
}

#[derive(Default)]
struct Lists {
    lists: OnceLock<Box<[Slot]>>,
    /// The count of the group that connections were first kept for; a peer seldom has another one.
    count: OnceLock<Arc<Count>>,
}

/// The list of one loop, or of several.
#[derive(Default)]
struct Slot {
    list: Mutex<List>,
    /// How many connections are in it: written by who has the list, read by anyone.
    length: AtomicUsize,
}

impl Lists {
    fn all(&self) -> &[Slot] {
        self.lists.get_or_init(|| (0..lists()).map(|_| Default::default()).collect())
    }

    /// The list, unless another loop has it.
    fn try_lock(&self, index: usize) -> Option<Locked<'_>> {
        let Slot { list, length } = &self.all()[index];
        let locked = (0..TRIES).find_map(|_| {
            let locked = list.try_lock().ok();
            if locked.is_none() {
                std::hint::spin_loop();
            }
            locked
        });
        locked.map(|list| Locked { list, length })
    }

    /// How many connections are in a list.
    fn len(&self, index: usize) -> usize {
        self.lists.get().map_or(0, |lists| lists[index].length.load(Relaxed))
    }

    /// To be called for each connection that is taken out of a list.
    fn left(&self, index: usize, parked: &Parked) {
        let count = parked.count.as_ref().or_else(|| self.count.get());
        if let Some(count) = count.and_then(|count| count.of(index)) {
            count.fetch_sub(1, Relaxed);
        }
    }

    /// Takes what fulfils the condition out of a list, and hands it back to be closed: after the list is free again.
    fn take_out(&self, index: usize, list: &mut List, is_over: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        let mut stay = 0;
        for position in 0..list.parked.len() {
            if !is_over(&list.parked[position]) {
                list.parked.swap(stay, position);
                stay += 1;
            }
        }
        let over: Vec<Parked> = list.parked.drain(stay..).collect();
        over.iter().for_each(|parked| self.left(index, parked));
        over
    }

    /// Closes what is of a scope; whether all lists could be looked at.
    fn close(&self, scope: Scope) -> bool {
        let mut all = true;
        let lists = self.lists.get().map_or(0, |lists| lists.len());
        for index in (0..lists).filter(|index| self.len(*index) > 0) {
            let Some(mut list) = self.try_lock(index) else {
                all = false;
                continue;
            };
            let over = self.take_out(index, &mut list, |parked| parked.kept.scope == scope);
            drop(list);
            drop(over);
        }
        all
    }

    /// What is dead or too old in a list, and whether the list has to be looked at again.
    fn sweep(&self, index: usize, now: u64) -> (Vec<Parked>, bool) {
        let is_over = |parked: &Parked| !(parked.is_fresh(now) && parked.kept.transport.is_quiet(false));
        let Some(mut list) = self.try_lock(index) else { return (Vec::new(), true) };
        let over = self.take_out(index, &mut list, is_over);
        list.swept = !list.parked.is_empty();
        (over, list.swept)
    }
}

impl Drop for Lists {
    /// What the server leaves behind is closed, and counts no longer against the group.
    fn drop(&mut self) {
        for (index, slot) in self.lists.take().unwrap_or_default().into_iter().enumerate() {
            let list = slot.list.into_inner().unwrap_or_else(PoisonError::into_inner);
            list.parked.iter().for_each(|parked| self.left(index, parked));
        }
    }
}

/// A list in hand. Its length is told when it is given back.
struct Locked<'l> {
    list: MutexGuard<'l, List>,
    length: &'l AtomicUsize,
}

impl Deref for Locked<'_> {
    type Target = List;

    fn deref(&self) -> &List {
        &self.list
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut List {
        &mut self.list
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.length.store(self.list.parked.len(), Relaxed);
    }
}

/// The idle connections of one peer.
#[derive(Default)]
pub struct Idle(Arc<Lists>);

impl std::fmt::Debug for Idle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Idle({})", self.len())
    }
}

impl Idle {
    /// How many connections are idle, on all loops together.
    pub fn len(&self) -> usize {
        self.0.lists.get().map_or(0, |lists| lists.iter().map(|slot| slot.length.load(Relaxed)).sum())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A live connection for a request of this scope, its request counted: the one that this loop used last, or else a
    /// sibling's. With `surely`, the kernel was asked whether the peer has closed it meanwhile (for a request that must
    /// not be sent twice); otherwise what the loop knows has to do.
    pub fn take(&self, scope: Scope, surely: bool) -> Option<Kept> {
        let lists = self.0.lists.get()?.len();
        let me = loops::index().unwrap_or(0);
        let now = loops::nanos();
        let mut index = within(me, lists);
        let mut closed = 0;
        for _ in 0..lists {
            if let Some(kept) = self.take_from(index, scope, surely, now, &mut closed) {
                return Some(kept);
            }
            index = if index + 1 == lists { 0 } else { index + 1 };
        }
        None
    }

    fn take_from(&self, index: usize, scope: Scope, surely: bool, now: u64, closed: &mut usize) -> Option<Kept> {
        loop {
            if self.0.len(index) == 0 || *closed == CLOSED_AT_ONCE {
                return None;
            }
            let parked = {
                let mut list = self.0.try_lock(index)?;
                match list.parked.back() {
                    Some(last) if last.kept.scope == scope => list.parked.pop_back()?,
                    _ => {
                        let position = list.parked.iter().rposition(|parked| parked.kept.scope == scope)?;
                        list.parked.remove(position)?
                    }
                }
            };
            self.0.left(index, &parked);
            let fresh = parked.is_fresh(now);
            let Parked { mut kept, .. } = parked;
            if fresh && kept.transport.is_quiet(surely) {
                if !kept.transport.is_here() {
                    kept.transport = kept.transport.moved();
                }
                kept.requests += 1;
                return Some(kept);
            }
            *closed += 1;
        }
    }

    /// Keeps a connection whose response has ended cleanly, for another request. `false` when it was closed instead:
    /// there is too much idle, it has served enough, or something has come on it.
    pub fn put(&self, kept: Kept, settings: &KeepAlive, count: &Arc<Count>) -> bool {
        let now = loops::nanos();
        // A loop's clock may be a little behind that of who made the connection.
        let old = now.saturating_sub(kept.since) >= nanos(settings.time);
        if settings.connections == 0 || kept.requests >= settings.requests || old {
            return false;
        }
        if kept.transport.watch().is_err() || !kept.transport.is_quiet(false) {
            return false;
        }
        let me = loops::index().unwrap_or(0);
        let index = within(me, self.0.all().len());
        let own = self.0.count.get_or_init(|| count.clone());
        let other = (!Arc::ptr_eq(own, count)).then(|| count.clone());
        let Some(counted) = count.of(index) else { return false };
        if counted.fetch_add(1, Relaxed) >= settings.connections && !close_oldest(index, count) {
            counted.fetch_sub(1, Relaxed);
            return false;
        }
        let Some(mut list) = self.0.try_lock(index) else {
            counted.fetch_sub(1, Relaxed);
            return false;
        };
        let expires = now.saturating_add(nanos(settings.timeout));
        list.parked.push_back(Parked { kept, idle_since: now, expires, count: other });
        if !std::mem::replace(&mut list.swept, true) {
            drop(list);
            have_swept(&self.0, count);
        }
        true
    }

    /// Closes those of a scope that has few. Where another loop has a list in hand just now, a task of this loop comes back
    /// to it: nobody else would close them before their time is over.
    pub fn close(&self, scope: Scope) {
        if self.0.close(scope) || loops::index().is_none() {
            return;
        }
        let lists = Arc::downgrade(&self.0);
        loops::spawn(0, "closing upstream connections of a client", async move {
            loop {
                freerun_runtime::timer::sleep(AGAIN).await;
                if lists.upgrade().is_none_or(|lists| lists.close(scope)) {
                    return;
                }
            }
        });
    }
}

/// The peers with idle connections on this loop, by the address of their group's count.
type Swept = HashMap<usize, Vec<Weak<Lists>>>;

thread_local! {
    static SWEPT: RefCell<Swept> = RefCell::default();
}

fn key(count: &Arc<Count>) -> usize {
    Arc::as_ptr(count).addr()
}

/// Makes room in a loop's share of a group: the connection that was unused for longest is closed.
fn close_oldest(index: usize, count: &Arc<Count>) -> bool {
    SWEPT.with_borrow(|swept| {
        let mut oldest: Option<(u64, Arc<Lists>)> = None;
        for lists in swept.get(&key(count)).into_iter().flatten().filter_map(Weak::upgrade) {
            let since = lists.try_lock(index).and_then(|list| list.parked.front().map(|parked| parked.idle_since));
            if let Some(since) = since
                && oldest.as_ref().is_none_or(|(before, _)| since < *before)
            {
                oldest = Some((since, lists));
            }
        }
        let Some((_, lists)) = oldest else { return false };
        let Some(parked) = lists.try_lock(index).and_then(|mut list| list.parked.pop_front()) else { return false };
        lists.left(index, &parked);
        true
    })
}

/// Makes a peer known to this loop's sweep, and starts that if it does not run.
fn have_swept(lists: &Arc<Lists>, count: &Arc<Count>) {
    let first = SWEPT.with_borrow_mut(|swept| {
        let first = swept.is_empty();
        swept.entry(key(count)).or_default().push(Arc::downgrade(lists));
        first
    });
    if first && loops::index().is_some() {
        loops::spawn(0, "closing idle upstream connections", sweep());
    }
}

/// Looks through what is idle on this loop until nothing is.
async fn sweep() {
    loop {
        freerun_runtime::timer::sleep(SWEEP).await;
        let index = loops::index().unwrap_or(0);
        let keys: Vec<usize> = SWEPT.with_borrow(|swept| swept.keys().copied().collect());
        let (mut looked_at, mut closed) = (0, 0);
        for key in keys {
            // Taken out while it is looked through: what is put meanwhile is a list of its own, joined afterwards.
            let known = SWEPT.with_borrow_mut(|swept| swept.get_mut(&key).map(std::mem::take)).unwrap_or_default();
            let (mut kept, mut over) = (Vec::new(), Vec::new());
            for lists in known {
                let Some(upgraded) = lists.upgrade() else { continue };
                let (mut found, again) = upgraded.sweep(index % upgraded.all().len(), loops::nanos());
                over.append(&mut found);
                if again {
                    kept.push(lists);
                }
                looked_at += 1;
                if looked_at % SWEPT_AT_ONCE == 0 {
                    loops::after_events().await;
                }
            }
            SWEPT.with_borrow_mut(|swept| swept.entry(key).or_default().append(&mut kept));
            for parked in over {
                drop(parked);
                closed += 1;
                if closed % CLOSED_AT_ONCE == 0 {
                    loops::after_events().await;
                }
            }
            // Only now: as long as there is a key, this sweep is the one of the loop.
            SWEPT.with_borrow_mut(|swept| {
                if swept.get(&key).is_some_and(Vec::is_empty) {
                    swept.remove(&key);
                }
            });
        }
        if SWEPT.with_borrow(HashMap::is_empty) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
