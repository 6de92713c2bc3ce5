//! Closes connections that will not be used any more: dead or expired ones, and those beyond the group's limit.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use freerun_runtime::loops;
use smallvec::SmallVec;

use super::keepalive::IdleCount;
use super::lists::Lists;

/// The interval at which dead and expired connections are looked for.
const SWEEP: Duration = Duration::from_millis(500);

/// The number of peers after which the sweep task yields.
const SWEPT_AT_ONCE: usize = 64;

/// The number of connections that are closed in one go, as closing takes a system call each. After this number the
/// sweep task yields, and a request stops looking for a live connection among the dead.
pub(super) const CLOSED_AT_ONCE: usize = 32;

/// The peers with connections in this loop's lists, by the address of their group's count.
pub(super) type Swept = HashMap<usize, Vec<Weak<Lists>>>;

thread_local! {
    pub(super) static SWEPT: RefCell<Swept> = RefCell::default();
}

fn key(count: &Arc<IdleCount>) -> usize {
    Arc::as_ptr(count).addr()
}

/// Makes room in the share of a group that the loop with the number `me` has, by closing the connection that was unused
/// for longest.
pub(super) fn close_oldest(me: usize, count: &Arc<IdleCount>) -> bool {
    // Closing a connection runs code of its protocol, which may use the pools: nothing is borrowed meanwhile.
    let known: SmallVec<[Arc<Lists>; 8]> =
        SWEPT.with_borrow(|swept| swept.get(&key(count)).into_iter().flatten().filter_map(Weak::upgrade).collect());
    let mut oldest: Option<(u64, &Lists)> = None;
    for lists in &known {
        let since = lists.try_lock(lists.of(me)).and_then(|list| list.unused_since());
        if let Some(since) = since
            && oldest.is_none_or(|(before, _)| since < before)
        {
            oldest = Some((since, lists));
        }
    }
    let Some((_, lists)) = oldest else { return false };
    let index = lists.of(me);
    let Some(entry) = lists.try_lock(index).and_then(|mut list| list.take_oldest()) else { return false };
    lists.left(index, entry.count.as_ref());
    true
}

/// Registers a peer with this loop's sweep task, and starts the task if it does not run.
pub(super) fn have_swept(lists: &Arc<Lists>, count: &Arc<IdleCount>) {
    let first = SWEPT.with_borrow_mut(|swept| {
        let first = swept.is_empty();
        swept.entry(key(count)).or_default().push(Arc::downgrade(lists));
        first
    });
    if first && loops::index().is_some() {
        loops::spawn(0, "closing unused upstream connections", sweep());
    }
}

/// Closes the connections in this loop's lists, because the loop ends: nobody would look at them any more. Requests of other
/// loops that have slots of them keep these.
pub fn leave() {
    let me = loops::index().unwrap_or(0);
    // The sweep task ends when it finds nothing to sweep.
    for lists in SWEPT.take().into_values().flatten().filter_map(|lists| lists.upgrade()) {
        let index = lists.of(me);
        // Another loop has a list for a few instructions only, and this one has nothing else to do.
        while !lists.clear(index) {
            std::thread::yield_now();
        }
    }
}

/// Sweeps this loop's lists until there is no connection in them.
async fn sweep() {
    loop {
        freerun_runtime::timer::sleep(SWEEP).await;
        let me = loops::index().unwrap_or(0);
        let keys: Vec<usize> = SWEPT.with_borrow(|swept| swept.keys().copied().collect());
        let (mut looked_at, mut closed) = (0, 0);
        for key in keys {
            // The list is taken out while it is swept; peers that are added meanwhile go to a new list, which is joined
            // afterwards.
            let known = SWEPT.with_borrow_mut(|swept| swept.get_mut(&key).map(std::mem::take)).unwrap_or_default();
            let (mut kept, mut over) = (Vec::new(), Vec::new());
            for lists in known {
                let Some(upgraded) = lists.upgrade() else { continue };
                let (mut found, again) = upgraded.sweep(upgraded.of(me), loops::nanos());
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
            for held in over {
                drop(held);
                closed += 1;
                if closed % CLOSED_AT_ONCE == 0 {
                    loops::after_events().await;
                }
            }
            // The key is removed only now: as long as there is a key, this task is the loop's sweep.
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
