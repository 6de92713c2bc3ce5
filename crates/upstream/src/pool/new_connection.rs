//! Requests of a loop that share a connection before there is one.
//!
//! A thousand requests that come at once for a new server should not make a thousand connections, if each of these
//! carries a hundred exchanges at a time. So a request that finds no slot ([`Pool::find`]) waits for a connection that
//! another one makes, as long as that is expected to have room for it. As many exchanges are expected as the server
//! allowed on its last connection.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use freerun_runtime::loops;
use rustc_hash::FxHashMap;

use super::Pool;
use super::keepalive::Scope;
use super::lists::Lists;
use super::slot::{ExchangeSlot, SharedSlot};

/// Number of exchanges that a connection is expected to carry if nothing is known of the server. RFC 9113 section 6.5.2
/// recommends it as the least that a server allows.
const EXPECTED: usize = 100;

/// The requests of one scope that wait together for one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WaitingRequests {
    /// The address of the pool's lists, which are there as long as anything is.
    lists: usize,
    pub(super) scope: Scope,
}

/// Result of looking for a slot.
#[derive(Debug)]
pub enum JoinResult {
    /// A slot.
    Slot(SharedSlot),
    /// No slot: it has to make a connection, for which others may wait.
    Make(NewConnection),
    /// No slot: it waits for a connection that others make.
    Wait(SlotWaiter),
}

/// Reason why a request does not wait any more.
#[derive(Debug)]
pub enum WakeReason {
    /// The request has a slot.
    Slot(SharedSlot),
    /// There may be something to be found: it has to look again.
    Again,
    /// The connection that it has waited for cannot be made. This is what [`NewConnection::failed`] was told.
    Failed(Rc<dyn Any>),
}

/// The requests in one place.
///
/// Invariants: no more wait than connections that are being made have room for. Each connection that is made is there once.
/// A slot that was promised is taken, or given to the next one.
struct Joint {
    /// Keeps the address.
    lists: Arc<Lists>,
    /// The connections that are being made, by their numbers, and for how many waiting requests each is expected to have
    /// room.
    making: Vec<(u64, usize)>,
    waiting: VecDeque<Rc<Waiter>>,
    /// Number of woken requests that have not taken the slot which they were promised.
    promised: usize,
}

/// A request that waits.
#[derive(Default)]
struct Waiter {
    told: RefCell<Option<JoinNews>>,
    waker: RefCell<Option<Waker>>,
}

enum JoinNews {
    Slot,
    Again,
    Failed(Rc<dyn Any>),
}

thread_local! {
    /// The places of this loop where anybody waits, or makes a connection.
    static JOINTS: RefCell<FxHashMap<WaitingRequests, Joint>> = RefCell::default();
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

impl Joint {
    fn is_over(&self) -> bool {
        self.making.is_empty() && self.waiting.is_empty() && self.promised == 0
    }

    /// A request that was told of a slot has taken it, or does not want it.
    fn keep_promise(&mut self) {
        debug_assert!(self.promised > 0, "a slot was taken that nobody was told of");
        self.promised -= 1;
    }

    /// Number of requests that may wait.
    fn room(&self) -> usize {
        self.making.iter().map(|(_, room)| *room).sum()
    }
}

/// Uses the joint in this place, and tells those that are taken out of it.
fn change(place: &WaitingRequests, change: impl FnOnce(&mut Joint, &mut Vec<(Rc<Waiter>, JoinNews)>)) {
    let mut told = Vec::new();
    // At the end of the thread there is nobody.
    let _ = JOINTS.try_with(|joints| {
        let mut joints = joints.borrow_mut();
        let Some(joint) = joints.get_mut(place) else { return };
        change(joint, &mut told);
        joint.promised += told.iter().filter(|(_, told)| matches!(told, JoinNews::Slot)).count();
        debug_assert!(joint.waiting.len() <= joint.room(), "a request waits for a connection that nobody makes");
        if joint.is_over() {
            joints.remove(place);
        }
    });
    for (waiter, what) in told {
        let before = waiter.told.replace(Some(what));
        debug_assert!(before.is_none(), "a request is told twice");
        let waker = waiter.waker.borrow_mut().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Tells a request that waits in this place that there is a slot.
pub(super) fn freed(place: &WaitingRequests) {
    change(place, |joint, told| {
        told.extend(joint.waiting.pop_front().map(|waiter| (waiter, JoinNews::Slot)));
    });
}

impl Pool {
    pub(super) fn place(&self, scope: Scope) -> WaitingRequests {
        WaitingRequests { lists: Arc::as_ptr(&self.0).addr(), scope }
    }

    /// Number of slots on this loop.
    fn free(&self, scope: Scope) -> usize {
        let list = self.0.try_lock(self.0.of(loops::index().unwrap_or(0)));
        list.map_or(0, |list| list.free(scope))
    }

    /// Finds a slot for a request of this scope, or says how to come to one. To be called on a loop, for connections that
    /// are [shared](Pool::share) and kept.
    pub fn find(&self, scope: Scope) -> JoinResult {
        let place = self.place(scope);
        // Those who wait come first.
        let (waiting, promised) = JOINTS
            .with_borrow(|joints| joints.get(&place).map_or((0, 0), |joint| (joint.waiting.len(), joint.promised)));
        if waiting == 0
            && (promised == 0 || self.free(scope) > promised)
            && let Some(slot) = self.acquire(scope, false).and_then(ExchangeSlot::shared)
        {
            return JoinResult::Slot(slot);
        }
        let known = self.0.streams.load(Relaxed);
        let expected = if known == 0 { EXPECTED } else { known };
        JOINTS.with_borrow_mut(|joints| {
            let lists = self.0.clone();
            let joint = joints.entry(place).or_insert_with(|| {
                let (making, waiting, promised) = Default::default();
                Joint { lists, making, waiting, promised }
            });
            if joint.waiting.len() < joint.room() {
                let waiter = Rc::<Waiter>::default();
                joint.waiting.push_back(waiter.clone());
                let pool = Pool(joint.lists.clone());
                return JoinResult::Wait(SlotWaiter { pool, place, waiter, is_over: false });
            }
            let number = NUMBER.replace(NUMBER.get() + 1);
            debug_assert!(joint.making.iter().all(|(other, _)| *other != number), "a connection is made twice");
            joint.making.push((number, expected - 1));
            JoinResult::Make(NewConnection { place, number })
        })
    }
}

/// A connection that is being made, until it is known how many exchanges it carries. If it is dropped before, those who have
/// waited for it look again, and one of them makes a connection.
#[derive(Debug)]
pub struct NewConnection {
    place: WaitingRequests,
    number: u64,
}

impl NewConnection {
    /// Notes that the connection is in the pool, the number of exchanges that it carries at a time, and that one slot
    /// is taken.
    pub fn ready(self, streams: usize) {
        change(&self.place, |joint, told| {
            debug_assert!(
                joint.making.iter().any(|(number, _)| *number == self.number),
                "nobody has made the connection"
            );
            joint.lists.streams.store(streams.max(1), Relaxed);
            joint.making.retain(|(number, _)| *number != self.number);
            let count = streams.saturating_sub(1).min(joint.waiting.len());
            told.extend(joint.waiting.drain(..count).map(|waiter| (waiter, JoinNews::Slot)));
            let surplus = joint.waiting.len().saturating_sub(joint.room());
            told.extend(joint.waiting.drain(..surplus).map(|waiter| (waiter, JoinNews::Again)));
        });
    }

    /// Notes that there will be no connection, and why. The waiting requests learn it, unless other connections are
    /// being made that have room for them.
    pub fn failed(self, why: &Rc<dyn Any>) {
        self.end(|| JoinNews::Failed(why.clone()));
    }

    fn end(&self, what: impl Fn() -> JoinNews) {
        change(&self.place, |joint, told| {
            joint.making.retain(|(number, _)| *number != self.number);
            let surplus = joint.waiting.len().saturating_sub(joint.room());
            told.extend(joint.waiting.drain(..surplus).map(|waiter| (waiter, what())));
        });
    }
}

impl Drop for NewConnection {
    fn drop(&mut self) {
        // If it was ready, or has failed, there is nothing to be ended.
        self.end(|| JoinNews::Again);
    }
}

/// A request that waits for a slot. Dropping it gives that up.
#[derive(Debug)]
pub struct SlotWaiter {
    pool: Pool,
    place: WaitingRequests,
    waiter: Rc<Waiter>,
    /// The future was polled to its end.
    is_over: bool,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Waiter")
    }
}

impl Future for SlotWaiter {
    type Output = WakeReason;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WakeReason> {
        let this = self.get_mut();
        debug_assert!(!this.is_over, "a request that does not wait any more is polled");
        let told = this.waiter.told.take();
        this.is_over = told.is_some();
        match told {
            None => {
                *this.waiter.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
            Some(JoinNews::Again) => Poll::Ready(WakeReason::Again),
            Some(JoinNews::Failed(why)) => Poll::Ready(WakeReason::Failed(why)),
            Some(JoinNews::Slot) => {
                let slot = this.pool.acquire(this.place.scope, false).and_then(ExchangeSlot::shared);
                change(&this.place, |joint, _| joint.keep_promise());
                Poll::Ready(slot.map_or(WakeReason::Again, WakeReason::Slot))
            }
        }
    }
}

impl Drop for SlotWaiter {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let told = self.waiter.told.take();
        change(&self.place, |joint, tell| match told {
            None => joint.waiting.retain(|waiter| !Rc::ptr_eq(waiter, &self.waiter)),
            // The slot is for the next one.
            Some(JoinNews::Slot) => {
                joint.keep_promise();
                tell.extend(joint.waiting.pop_front().map(|waiter| (waiter, JoinNews::Slot)));
            }
            Some(_) => {}
        });
    }
}
