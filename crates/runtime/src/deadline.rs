//! Deadlines of what a loop has in thousands, and what is seldom late: one timer of the runtime for all of them.
//!
//! A timer of the runtime's own takes more than a hundred bytes for each; here it is a place in a map.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::num::NonZeroU64;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::loops;

/// A moment in nanoseconds since the process began, made different from all others of the loop.
type Key = u64;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// What a moment too far away to count is taken for: centuries.
const FAR: Key = u64::MAX / 2;

/// Who is to be woken, and when. Bounded by whoever has deadlines.
#[derive(Default)]
struct Waiting {
    tasks: RefCell<BTreeMap<Key, Waker>>,
    /// When the task that wakes them looks next; `None` while it does not run.
    next_look: Cell<Option<Key>>,
    earlier: Notify,
}

thread_local! {
    static WAITING: Rc<Waiting> = Rc::default();
}

fn key_of(moment: Instant) -> Key {
    u64::try_from(moment.saturating_duration_since(loops::epoch()).as_nanos()).unwrap_or(u64::MAX)
}

impl Waiting {
    fn enter(self: &Rc<Waiting>, wanted: Key, waker: Waker) -> Key {
        let mut tasks = self.tasks.borrow_mut();
        let alike = tasks.range(wanted..wanted + MILLISECOND).next_back();
        let mut key = alike.map_or(wanted, |(last, _)| last + 1);
        while tasks.contains_key(&key) {
            key += 1;
        }
        tasks.insert(key, waker);
        drop(tasks);
        match self.next_look.get() {
            None => {
                self.next_look.set(Some(key));
                loops::spawn(0, "looking for what is late", self.clone().wake_late());
            }
            Some(look) if look > key => self.earlier.notify_one(),
            Some(_) => {}
        }
        key
    }

    fn take_late(&self, now: Key) -> Option<Waker> {
        let mut tasks = self.tasks.borrow_mut();
        Some(tasks.first_entry().filter(|first| *first.key() <= now)?.remove())
    }

    /// Wakes tasks when their time has come; ends when there is none.
    async fn wake_late(self: Rc<Waiting>) {
        loop {
            let next = self.tasks.borrow().keys().next().copied();
            let Some(next) = next else { break };
            self.next_look.set(Some(next));
            tokio::select! {
                () = tokio::time::sleep_until((loops::epoch() + Duration::from_nanos(next)).into()) => {}
                () = self.earlier.notified() => continue,
            }
            let now = key_of(Instant::now());
            while let Some(late) = self.take_late(now) {
                late.wake();
            }
        }
        self.next_look.set(None);
    }
}

/// A deadline. It may move further away for nothing: its old moment wakes the task, which then asks again.
#[derive(Debug, Default)]
pub struct Deadline(Option<NonZeroU64>);

impl Deadline {
    /// Ready when `moment`, in milliseconds as [`loops::millis`] counts them, has come. Otherwise the task is woken then, or
    /// earlier, to ask again: it has to be the same one each time.
    ///
    /// # Panics
    /// Outside a loop's thread.
    pub fn poll_until(&mut self, moment: u64, context: &mut Context<'_>) -> Poll<()> {
        let now = key_of(loops::now());
        let wanted = moment.saturating_mul(MILLISECOND).min(FAR);
        if wanted <= now {
            return Poll::Ready(());
        }
        let entered = self.0.map_or(0, NonZeroU64::get);
        // One that has passed is not there any more, or not for long.
        if entered > now && entered < wanted + MILLISECOND {
            return Poll::Pending;
        }
        self.leave();
        self.0 = NonZeroU64::new(WAITING.with(|waiting| waiting.enter(wanted, context.waker().clone())));
        Poll::Pending
    }

    /// Runs `future` until it ends, or until so much time has passed (`None`); in whole milliseconds, and seldom a little more.
    ///
    /// For short waits that nearly always end in time: a timer of the runtime that is due before all others interrupts the
    /// loop's next wait for events, which costs two system calls.
    ///
    /// # Panics
    /// Outside a loop's thread.
    pub async fn within<F: Future>(after: Duration, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut deadline = Deadline::default();
        let mut until = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let millis = || u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
            let until = *until.get_or_insert_with(|| loops::millis().saturating_add(millis()));
            deadline.poll_until(until, context).map(|()| None)
        })
        .await
    }

    fn leave(&mut self) {
        if let Some(key) = self.0.take() {
            // The thread may be ending.
            let _ = WAITING.try_with(|waiting| waiting.tasks.borrow_mut().remove(&key.get()));
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
    use crate::loops::LoopHandle;
    use std::sync::mpsc::{Sender, channel};

    /// A task that waits until `moments` have come, one after the other; before each it asks for a later one.
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
            // Never woken: the last to have the channel.
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
                let count = || WAITING.with(|waiting| waiting.tasks.borrow().len());
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
