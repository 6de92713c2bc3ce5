//! The deadlines of a loop, in their order: the loop looks at the first one when it asks the kernel for events.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::clock;

/// A moment in nanoseconds since the process began, made different from all others of the loop.
type DeadlineKey = u64;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// The range of the serial numbers that distinguish deadlines of one millisecond, in nanoseconds.
const SPREAD: DeadlineKey = 1024;

/// The value for a moment that is too far away to be counted: centuries.
const FAR: DeadlineKey = u64::MAX / 2;

const _: () = assert!(SPREAD < MILLISECOND, "the order moves a deadline by less than the clock's accuracy");
const _: () = assert!(FAR < DeadlineKey::MAX - MILLISECOND - SPREAD, "what is added to a moment does not overflow");

thread_local! {
    /// The wakers of the tasks to wake, by their moments. The number of tasks with deadlines bounds it.
    static WAITING: RefCell<BTreeMap<DeadlineKey, Waker>> = const { RefCell::new(BTreeMap::new()) };
    /// Number of deadlines that were entered.
    static SERIAL: Cell<u16> = const { Cell::new(0) };
}

fn key_of(moment: Instant) -> DeadlineKey {
    let since = moment.saturating_duration_since(clock::epoch());
    u64::try_from(since.as_nanos()).unwrap_or(FAR).min(FAR)
}

fn enter(wanted: DeadlineKey, waker: Waker) -> DeadlineKey {
    let serial = SERIAL.get();
    SERIAL.set(serial.wrapping_add(1));
    let mut key = wanted + DeadlineKey::from(serial) % SPREAD;
    WAITING.with_borrow_mut(|waiting| {
        // That it is taken is rare: only if more than `SPREAD` deadlines are entered for one moment.
        if waiting.contains_key(&key) {
            let alike = waiting.range(wanted..wanted + MILLISECOND).next_back();
            key = alike.map_or(wanted, |(last, _)| last + 1);
            while waiting.contains_key(&key) {
                key += 1;
            }
        }
        let before = waiting.insert(key, waker);
        debug_assert!(before.is_none() && key >= wanted, "another task would not be woken, or this one too early");
        key
    })
}

/// The first deadline of this thread's loop.
pub(crate) fn next() -> Option<u64> {
    WAITING.with_borrow(|waiting| waiting.first_key_value().map(|(key, _)| *key))
}

/// Wakes the tasks whose deadlines have passed; `now` is in nanoseconds since the process began.
pub(crate) fn wake_late(now: u64) {
    while let Some(late) =
        WAITING.with_borrow_mut(|waiting| Some(waiting.first_entry().filter(|first| *first.key() <= now)?.remove()))
    {
        late.wake();
    }
}

/// A deadline. Moving it further away costs nothing: its old moment wakes the task, which then asks again.
#[derive(Debug, Default)]
pub struct Deadline(Option<NonZeroU64>);

impl Deadline {
    /// Ready when `moment`, in milliseconds as [`loops::millis`](crate::loops::millis) counts them, has come. Otherwise
    /// the task is woken at that moment or earlier, and has to ask again. It has to be the same task each time. This
    /// works only on a loop.
    pub fn poll_until(&mut self, moment: u64, context: &mut Context<'_>) -> Poll<()> {
        self.poll_key(moment.saturating_mul(MILLISECOND).min(FAR), context)
    }

    /// Ready when `moment` has come, like [`poll_until`](Deadline::poll_until), but to the accuracy of the loop's clock
    /// ([`loops::now`](crate::loops::now)).
    pub fn poll_instant(&mut self, moment: Instant, context: &mut Context<'_>) -> Poll<()> {
        self.poll_key(key_of(moment), context)
    }

    /// Makes the deadline wake the task that polls it from now on, for a deadline that goes from one task to another.
    pub fn belongs_to(&self, context: &Context<'_>) {
        let Some(key) = self.0 else { return };
        let before = WAITING.with_borrow_mut(|waiting| {
            let waker = waiting.get_mut(&key.get()).filter(|waker| !waker.will_wake(context.waker()))?;
            Some(std::mem::replace(waker, context.waker().clone()))
        });
        drop(before);
    }

    fn poll_key(&mut self, wanted: DeadlineKey, context: &mut Context<'_>) -> Poll<()> {
        let now = clock::nanos();
        if wanted <= now {
            return Poll::Ready(());
        }
        let entered = self.0.map_or(0, NonZeroU64::get);
        // A deadline that has passed is not entered any more, or not for long.
        if entered > now && entered < wanted + MILLISECOND {
            return Poll::Pending;
        }
        self.leave();
        debug_assert!(wanted <= FAR, "the moment {wanted} cannot be moved");
        self.0 = NonZeroU64::new(enter(wanted, context.waker().clone()));
        Poll::Pending
    }

    /// Runs `future` until it ends, or until so much time has passed (`None`). The time is counted in whole
    /// milliseconds, and is seldom a little longer.
    pub async fn within<F: Future>(after: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut deadline = Deadline::default();
        let mut until = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let millis = || u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            let until = *until.get_or_insert_with(|| clock::millis().saturating_add(millis()));
            deadline.poll_until(until, context).map(|()| None)
        })
        .await
    }

    fn leave(&mut self) {
        if let Some(key) = self.0.take() {
            // The thread may be ending.
            let left = WAITING.try_with(|waiting| waiting.borrow_mut().remove(&key.get()));
            drop(left);
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::{self, LoopHandle};
    use std::sync::mpsc::{Sender, channel};

    /// Starts a task that waits until `moments` have come, one after the other; before each it asks for a later one.
    fn wait(number: usize, moments: Vec<u64>, done: Sender<(usize, bool)>) {
        loops::spawn(0, "testing", async move {
            let mut deadline = Deadline::default();
            let mut in_time = true;
            for moment in moments {
                poll_fn(|context| deadline.poll_until(moment, context)).await;
                in_time &= loops::millis() >= moment;
            }
            done.send((number, in_time)).unwrap();
        });
    }

    #[test]
    fn all_are_woken_and_none_before_its_time() {
        let handle = LoopHandle::start(0, None).unwrap();
        let (done, finished) = channel();
        handle.tell(move || {
            let now = loops::millis();
            wait(0, vec![now + 20, now + 40], done.clone());
            wait(1, vec![now + 30], done.clone());
            wait(2, vec![now], done.clone());
            wait(3, vec![now + 10, now + 5, now + 15], done.clone());
            // This task is never woken: it is the last to have the channel.
            loops::spawn(0, "testing", async move {
                let mut never = Deadline::default();
                poll_fn(|context| never.poll_until(u64::MAX, context)).await;
                done.send((9, false)).unwrap();
            });
        });
        let mut all: Vec<_> = finished.iter().take(4).collect();
        all.sort_unstable();
        assert_eq!(all, [(0, true), (1, true), (2, true), (3, true)]);
        handle.stop();
        assert!(finished.recv().is_err());
    }

    #[test]
    fn many_may_have_the_same_moment_and_those_that_are_gone_leave_nothing() {
        let handle = LoopHandle::start(0, None).unwrap();
        let (done, finished) = channel();
        const TASKS: usize = 3000;
        handle.tell(move || {
            let moment = loops::millis() + 20;
            for number in 0..TASKS {
                wait(number, vec![moment], done.clone());
            }
            loops::spawn(0, "testing", async move {
                let mut gone = Deadline::default();
                poll_fn(|context| {
                    assert!(gone.poll_until(moment + 3_600_000, context).is_pending());
                    Poll::Ready(())
                })
                .await;
                let count = || WAITING.with_borrow(BTreeMap::len);
                let before = count();
                drop(gone);
                assert_eq!(count(), before - 1);
                done.send((TASKS, true)).unwrap();
            });
        });
        let mut numbers: Vec<_> =
            finished.iter().take(TASKS + 1).filter(|(_, in_time)| *in_time).map(|(n, _)| n).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..=TASKS).collect::<Vec<_>>());
        handle.stop();
    }
}
