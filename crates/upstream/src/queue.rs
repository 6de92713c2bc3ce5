//! Requests that wait until a server has room (`queue`). The oldest request is asked first whether it can use the room.
//!
//! One request at a time has the turn, and asks the group. A request that can use the room leaves with it. A request
//! that has been at the server already, or is bound to another one, keeps its place, and the next one has the turn.
//! Only the oldest looks by itself.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;

/// The room that a look offers: enough for all requests.
const ANY_ROOM: u32 = u32::MAX;

/// The requests that wait for a server of a group.
#[derive(Debug, Default)]
pub(crate) struct WaitingQueue {
    /// Number of requests that wait: written by the holder of the lock, so that a release with an empty queue does not
    /// need the lock.
    waiting: AtomicU32,
    /// Number of requests that found it full.
    overflows: AtomicU64,
    line: Mutex<WaiterLine>,
}

/// Wakers to wake when the lock is free again, and unused wakers to drop then: dropping one may end a task that waits
/// here.
type Wakes = SmallVec<[Waker; 2]>;

/// The waiting requests, by the numbers that they got when they came.
///
/// Invariants: the request whose turn it is waits. A round has room. What became free meanwhile waits for a round to end.
/// `particular` is the number of particular requests. Numbers only grow.
#[derive(Debug, Default)]
struct WaiterLine {
    next: u64,
    waiters: BTreeMap<u64, QueuedWaiter>,
    /// Number of requests that are [`QueuedWaiter::particular`].
    particular: usize,
    /// The address of the group that the requests that are not particular belong to, which is the group of one of them.
    group: usize,
    /// The round of offers to one request after the other, and the request whose turn it is.
    round: Option<Round>,
    /// Number of places that became free during the round: they are offered from the beginning again.
    more: u32,
}

#[derive(Debug, Default)]
struct QueuedWaiter {
    waker: Option<Waker>,
    /// Whether the request was notified that it has the turn, or is the oldest now.
    told: bool,
    /// Whether the request may be unable to use room that others can, or the reverse. Such a request is bound to a
    /// server, has been at some already, or belongs to the servers of another generation.
    particular: bool,
}

#[derive(Debug)]
struct Round {
    turn: u64,
    /// Number of requests that may be served.
    room: u32,
}

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnOutcome {
    /// The request has a server.
    Served,
    /// The request could not use the room.
    Refused,
    /// The request left without asking, or with an error.
    Left,
}

impl WaiterLine {
    /// Asserts the invariants. Debug builds call it after each change.
    fn check_invariants(&self) {
        if let Some(round) = &self.round {
            debug_assert!(self.waiters.contains_key(&round.turn), "a request has the turn that does not wait");
            debug_assert!(round.room > 0, "a round goes on without room");
        }
        debug_assert!(self.more == 0 || self.round.is_some(), "room that became free is offered to nobody");
        debug_assert!(self.particular <= self.waiters.len(), "more requests are particular than there are");
        debug_assert!(self.waiters.last_key_value().is_none_or(|(last, _)| *last < self.next), "a number comes again");
        debug_assert!(self.particular > 0 || !self.waiters.values().take(8).any(|one| one.particular), "a wrong count");
    }

    fn oldest(&self) -> Option<u64> {
        self.waiters.keys().next().copied()
    }

    fn enter(&mut self, group: usize, particular: bool) -> u64 {
        if self.group != group {
            self.group = group;
            self.waiters.values_mut().for_each(|waiter| waiter.particular = true);
            self.particular = self.waiters.len();
        }
        let number = self.next;
        self.next += 1;
        let before = self.waiters.insert(number, QueuedWaiter { particular, ..QueuedWaiter::default() });
        debug_assert!(before.is_none(), "two requests have number {number}");
        self.particular += usize::from(particular);
        number
    }

    fn tell(&mut self, number: u64, wakes: &mut Wakes) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.told = true;
            wakes.extend(waiter.waker.take());
        }
    }

    /// Offers this number of places, from the oldest request on.
    fn offer(&mut self, room: u32, wakes: &mut Wakes) {
        if self.round.is_some() {
            self.more = self.more.saturating_add(room);
        } else if let Some(oldest) = self.oldest() {
            self.round = Some(Round { turn: oldest, room });
            self.tell(oldest, wakes);
        }
    }

    /// Gives the turn to the request that has just come. The requests before it were offered the room that is free now
    /// and could not use it: they may be bound to other servers, or have been at this one.
    fn ask_last(&mut self, number: u64) {
        match self.round {
            None => self.round = Some(Round { turn: number, room: ANY_ROOM }),
            // The round may end before it comes to the last one.
            Some(_) => self.more = ANY_ROOM,
        }
    }

    fn has_turn(&self, number: u64) -> bool {
        self.round.as_ref().is_some_and(|round| round.turn == number)
    }

    /// Passes the turn on.
    fn pass(&mut self, used: TurnOutcome, particular: bool, wakes: &mut Wakes) {
        let Some(Round { turn, room }) = self.round.take() else { return };
        let room = if used == TurnOutcome::Served { room - 1 } else { room };
        // Where all requests are alike, the answer for one holds for all.
        let is_vain = used == TurnOutcome::Refused && !particular && self.particular == 0;
        let next = self.waiters.range(turn + 1..).next().map(|(number, _)| *number);
        match next {
            Some(next) if room > 0 && !is_vain => {
                self.round = Some(Round { turn: next, room });
                self.tell(next, wakes);
            }
            _ => match std::mem::take(&mut self.more) {
                0 => {}
                more => self.offer(more, wakes),
            },
        }
    }

    fn refused(&mut self, number: u64, wakes: &mut Wakes) {
        if self.has_turn(number)
            && let Some(waiter) = self.waiters.get(&number)
        {
            self.pass(TurnOutcome::Refused, waiter.particular, wakes);
        }
    }

    fn leave(&mut self, number: u64, used: TurnOutcome, wakes: &mut Wakes) {
        let was_oldest = self.oldest() == Some(number);
        let waiter = self.waiters.remove(&number);
        debug_assert!(waiter.is_some(), "request {number} leaves the queue twice");
        let Some(waiter) = waiter else { return };
        wakes.extend(waiter.waker);
        debug_assert!(!waiter.particular || self.particular > 0, "a particular request was not counted");
        self.particular -= usize::from(waiter.particular);
        if self.has_turn(number) {
            self.pass(used, waiter.particular, wakes);
        }
        if was_oldest && let Some(oldest) = self.oldest() {
            self.tell(oldest, wakes);
        }
    }
}

impl WaitingQueue {
    /// Runs `act` on the line and then wakes the tasks that are to be woken. The lock is held only for a look into a
    /// table, and never across a wait.
    fn with<T>(&self, act: impl FnOnce(&mut WaiterLine, &mut Wakes) -> T) -> T {
        let mut wakes = Wakes::new();
        let result = {
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            let result = act(&mut line, &mut wakes);
            line.check_invariants();
            self.waiting.store(u32::try_from(line.waiters.len()).unwrap_or(u32::MAX), SeqCst);
            result
        };
        wakes.into_iter().for_each(Waker::wake);
        result
    }

    /// Reports that a server has room: it is offered to the request that has waited longest.
    pub(crate) fn released(&self) {
        if self.waiting() > 0 {
            self.with(|line, wakes| line.offer(1, wakes));
        }
    }

    /// Number of requests that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(SeqCst)
    }

    /// Number of requests that found the queue full.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.load(Relaxed)
    }

    /// Whether some of the waiting requests may be unable to use room that others can.
    pub(crate) fn has_particular(&self) -> bool {
        self.with(|line, _| line.particular > 0)
    }

    /// Enters the queue; `None` if it is full. A request that is alone has the turn, because room that became free
    /// before was not offered to any request.
    pub(crate) fn enter(&self, length: u32, group: usize, particular: bool) -> Option<QueuePlace<'_>> {
        let number = self.with(|line, wakes| {
            if line.waiters.len() >= length as usize {
                self.overflows.fetch_add(1, Relaxed);
                return None;
            }
            let number = line.enter(group, particular);
            if line.oldest() == Some(number) {
                line.offer(ANY_ROOM, wakes);
            } else if line.particular > 0 {
                line.ask_last(number);
            }
            Some(number)
        })?;
        // Either the task that releases a place sees the waiting request, or the request sees the place.
        fence(SeqCst);
        Some(QueuePlace { queue: self, number, served: false })
    }
}

/// A request's place in the queue.
pub(crate) struct QueuePlace<'q> {
    queue: &'q WaitingQueue,
    number: u64,
    /// Whether the request leaves with a server.
    pub(crate) served: bool,
}

impl QueuePlace<'_> {
    /// Whether the request has the turn, and whether it is the oldest.
    pub(crate) fn standing(&self) -> (bool, bool) {
        self.queue.with(|line, _| (line.has_turn(self.number), line.oldest() == Some(self.number)))
    }

    /// Reports that the group had no server for the request: the next one is asked.
    pub(crate) fn refused(&self) {
        self.queue.with(|line, wakes| line.refused(self.number, wakes));
    }

    /// Makes the oldest request look: it has the turn, or soon will. Does nothing for others.
    pub(crate) fn look(&self) {
        self.queue.with(|line, wakes| {
            if line.oldest() == Some(self.number) {
                line.offer(ANY_ROOM, wakes);
            }
        });
    }

    /// Waits until the request has the turn, or has become the oldest.
    pub(crate) async fn turn_comes(&self) {
        poll_fn(|context| self.poll_turn(context)).await;
    }

    fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        let (told, _before) = self.queue.with(|line, _| {
            let Some(waiter) = line.waiters.get_mut(&self.number) else { return (true, None) };
            if std::mem::take(&mut waiter.told) {
                return (true, None);
            }
            let known = waiter.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            (false, if known { None } else { waiter.waker.replace(context.waker().clone()) })
        });
        if told { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let used = if self.served { TurnOutcome::Served } else { TurnOutcome::Left };
        self.queue.with(|line, wakes| line.leave(self.number, used, wakes));
    }
}
