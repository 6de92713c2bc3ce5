//! Requests that share a connection before there is one.

use std::any::Any;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::pool::new_connection::{JoinResult, NewConnection, SlotWaiter, WakeReason};

/// A connection that carries so many exchanges.
struct Wide(Arc<AtomicUsize>);

impl MultiplexedConnection for Wide {
    fn streams(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn scope() -> Scope {
    Scope::of("wide")
}

/// A pool, and what requests of it get.
#[derive(Default)]
struct Requests {
    pool: Pool,
    settings: KeepAlive,
    count: Arc<IdleCount>,
}

impl Requests {
    fn make(&self) -> NewConnection {
        match self.pool.find(scope()) {
            JoinResult::Make(making) => making,
            other => panic!("{other:?}"),
        }
    }

    fn wait(&self) -> SlotWaiter {
        match self.pool.find(scope()) {
            JoinResult::Wait(waiting) => waiting,
            other => panic!("{other:?}"),
        }
    }

    /// Adds a connection that carries so many exchanges; its first slot.
    fn share(&self, streams: usize) -> SharedSlot {
        self.pool.share(Wide(Arc::new(AtomicUsize::new(streams))), scope(), &self.settings, &self.count)
    }
}

fn poll(waiting: &mut SlotWaiter) -> Option<WakeReason> {
    match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(woken) => Some(woken),
        Poll::Pending => None,
    }
}

#[test]
fn those_who_wait_get_the_slots_of_the_connection_and_the_next_one_makes_another() {
    let requests = Requests::default();
    let making = requests.make();
    let mut waiting: Vec<_> = (0..99).map(|_| requests.wait()).collect();
    let another = requests.make();
    waiting.extend((0..99).map(|_| requests.wait()));
    assert!(waiting.iter_mut().all(|waiting| poll(waiting).is_none()));
    let mut slots = vec![requests.share(100)];
    assert!(matches!(requests.pool.find(scope()), JoinResult::Make(_)), "those who wait come first");
    making.ready(100);
    for waiting in &mut waiting[..99] {
        let Some(WakeReason::Slot(slot)) = poll(waiting) else { panic!() };
        slots.push(slot);
    }
    assert!(waiting[99..].iter_mut().all(|waiting| poll(waiting).is_none()));
    // A slot that is free goes to one of them, and to the next one if that does not want it any more.
    slots.truncate(98);
    drop(waiting.remove(99));
    let Some(WakeReason::Slot(slot)) = poll(&mut waiting[99]) else { panic!() };
    let Some(WakeReason::Slot(_)) = poll(&mut waiting[100]) else { panic!() };
    drop(another);
    assert!(matches!(poll(&mut waiting[101]), Some(WakeReason::Slot(_) | WakeReason::Again)));
    drop((waiting, slot));
    assert!(matches!(requests.pool.find(scope()), JoinResult::Slot(_)));
}

#[test]
fn slots_that_nobody_was_promised_are_free_for_others() {
    let requests = Requests::default();
    let making = requests.make();
    let mut waiting = requests.wait();
    let first = requests.share(3);
    making.ready(3);
    let JoinResult::Slot(third) = requests.pool.find(scope()) else { panic!() };
    assert!(matches!(requests.pool.find(scope()), JoinResult::Make(_)), "the other one is promised");
    let Some(WakeReason::Slot(second)) = poll(&mut waiting) else { panic!() };
    drop((first, second, third));
    assert!(matches!(requests.pool.find(scope()), JoinResult::Slot(_)));
}

#[test]
fn as_many_are_expected_as_the_server_allowed_before() {
    let requests = Requests::default();
    let making = requests.make();
    let mut waiting: Vec<_> = (0..9).map(|_| requests.wait()).collect();
    let slot = requests.share(3);
    making.ready(3);
    let got: Vec<_> = waiting.iter_mut().map(|waiting| poll(waiting).unwrap()).collect();
    assert!(got[..2].iter().all(|got| matches!(got, WakeReason::Slot(_))));
    assert!(got[2..].iter().all(|got| matches!(got, WakeReason::Again)));
    let (first, _a, _b) = (requests.make(), requests.wait(), requests.wait());
    let (second, _c, _d) = (requests.make(), requests.wait(), requests.wait());
    drop((first, second, slot));
}

#[test]
fn a_failure_is_told_to_those_for_whom_no_other_connection_is_made() {
    let requests = Requests::default();
    let failing = requests.make();
    let mut waiting: Vec<_> = (0..99).map(|_| requests.wait()).collect();
    let other = requests.make();
    waiting.extend((0..9).map(|_| requests.wait()));
    let why: Rc<dyn Any> = Rc::new("refused");
    failing.failed(&why);
    let failed = |woken: Option<WakeReason>| match woken {
        Some(WakeReason::Failed(why)) => why.downcast_ref::<&str>() == Some(&"refused"),
        Some(other) => panic!("{other:?}"),
        None => false,
    };
    assert_eq!(waiting.iter_mut().filter_map(|waiting| failed(poll(waiting)).then_some(())).count(), 9);
    other.failed(&why);
    waiting.drain(..9);
    assert!(waiting.iter_mut().all(|waiting| failed(poll(waiting))));
    drop(requests.make());
}

#[test]
fn when_a_connection_is_given_up_one_of_those_who_wait_makes_it() {
    let requests = Requests::default();
    let given_up = requests.make();
    let mut waiting: Vec<_> = (0..5).map(|_| requests.wait()).collect();
    drop(waiting.pop());
    drop(given_up);
    assert!(waiting.iter_mut().all(|waiting| matches!(poll(waiting), Some(WakeReason::Again))));
    let making = requests.make();
    let others: Vec<_> = (0..3).map(|_| requests.wait()).collect();
    drop((making, others));
}

#[test]
fn a_request_of_another_scope_or_for_another_server_does_not_wait() {
    let requests = Requests::default();
    let _making = requests.make();
    assert!(matches!(requests.pool.find(Scope::of("other")), JoinResult::Make(_)));
    assert!(matches!(Pool::default().find(scope()), JoinResult::Make(_)));
    assert!(matches!(requests.pool.find(scope()), JoinResult::Wait(_)));
}

#[test]
fn it_is_woken() {
    struct Flag(Cell<bool>);
    let requests = Requests::default();
    let making = requests.make();
    let woken = Rc::new(Flag(Cell::new(false)));
    let mut waiting = requests.wait();
    let (told, mut slot) = (woken.clone(), None);
    loops::block_on(async move {
        let wait = async {
            assert!(matches!((&mut waiting).await, WakeReason::Slot(_)));
            told.0.set(true);
        };
        let make = async {
            loops::yield_now().await;
            slot = Some(requests.share(2));
            making.ready(2);
        };
        tokio::join!(wait, make);
    })
    .unwrap();
    assert!(woken.0.get());
}
