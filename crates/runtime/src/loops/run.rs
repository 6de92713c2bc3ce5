//! The course of a loop: it polls the tasks that are ready, asks the kernel for events, and wakes the tasks that waited
//! for them.
//!
//! If no task is ready, it waits in epoll_wait(2): for an event, the next deadline, or a call from another thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::clock::{self, nanos};
use crate::loop_stats::LoopStats;
use crate::mailbox::Mailbox;
use crate::stalls::{self, Local, Row, STALL};
use crate::tasks::WaitingKinds;
use crate::turn::fill_budget;
use crate::{arrival_era, deadline, events, tasks};

thread_local! {
    static AFTER_EVENTS: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// Time for which tasks are polled before the loop asks the kernel for events, in nanoseconds: a new request has to be
/// noticed even if a thousand connections have work. While only tasks at long work are ready, the loop asks the kernel
/// after each turn of them.
pub const UNASKED: u64 = 1_000_000;

const _: () = assert!((UNASKED as u128) < STALL.as_nanos(), "a new request is noticed before a poll counts as a stall");

/// The loop of this thread, which ends with it.
pub(super) struct RunningLoop {
    mailbox: Arc<Mailbox>,
    local: Rc<Local>,
}

impl RunningLoop {
    pub(super) fn new(stats: Arc<LoopStats>) -> io::Result<RunningLoop> {
        let mailbox = Arc::new(Mailbox::new()?);
        let local = stalls::set_up(stats);
        events::set_up(Some(&mailbox));
        tasks::set_up(&mailbox);
        clock::look();
        Ok(RunningLoop { mailbox, local })
    }

    /// Runs all tasks until `root` ends.
    pub(super) fn run<T>(&self, root: impl Future<Output = T>) -> T {
        let mut root = pin!(root);
        let woken = tasks::Root::new(&self.mailbox);
        let waker = woken.waker();
        let mut told = Vec::with_capacity(events::EVENTS);
        let mut after = Vec::new();
        let mut row = Row::new(&self.local);
        let mut asked = row.last();
        loop {
            tasks::take_from_others(&self.mailbox);
            if woken.is_woken() {
                fill_budget();
                let polled = row.uncounted(|| root.as_mut().poll(&mut Context::from_waker(&waker)));
                if let Poll::Ready(answer) = polled {
                    return answer;
                }
            }
            row.begin();
            tasks::turn(&mut row);
            let waiting = tasks::waiting();
            if waiting == WaitingKinds::Others && row.last().saturating_sub(asked) < UNASKED {
                continue;
            }
            let busy = waiting != WaitingKinds::Nobody;
            AFTER_EVENTS.with_borrow_mut(|wakers| std::mem::swap(wakers, &mut after));
            let waits = !busy && after.is_empty() && self.mailbox.fall_asleep();
            told.clear();
            self.ask(&mut told, if waits { deadline::next() } else { Some(0) });
            self.mailbox.wake_up();
            if waits {
                self.local.stats().runs_again();
            }
            row.look();
            asked = row.last();
            arrival_era::begin();
            events::tell(&told);
            deadline::wake_late(asked);
            after.drain(..).for_each(Waker::wake);
        }
    }

    /// Asks the kernel for events, and waits for one until a moment comes, in nanoseconds since [`epoch`](super::epoch); `None`: without end.
    fn ask(&self, told: &mut Vec<epoll::Event>, until: Option<u64>) {
        let timeout = until.map(|until| {
            // The time is in whole milliseconds, rounded up: deadlines that are close together come at once.
            let millis = until.saturating_sub(nanos()).div_ceil(1_000_000).min(LONGEST);
            Timespec { tv_sec: (millis / 1000) as i64, tv_nsec: (millis % 1000 * 1_000_000) as i64 }
        });
        match epoll::wait(&self.mailbox.epoll, rustix::buffer::spare_capacity(told), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_wait() failed ({error})"),
        }
    }
}

impl Drop for RunningLoop {
    fn drop(&mut self) {
        // The objects that tasks wait for are torn down after the tasks.
        tasks::tear_down();
        AFTER_EVENTS.with_borrow_mut(Vec::clear);
        events::set_up(None);
        stalls::tear_down();
        clock::tear_down();
    }
}

/// The longest wait in milliseconds, which fits the timeout of epoll_wait(2).
const LONGEST: u64 = 1 << 30;

const _: () = assert!(LONGEST <= i32::MAX as u64, "the kernel counts milliseconds in 31 bits");

/// Runs a future on a loop of this thread that ends with it: for tests and examples, which have no [`LoopHandle`](super::LoopHandle).
///
/// # Errors
/// Its epoll instance could not be made.
pub fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    Ok(RunningLoop::new(Arc::default())?.run(future))
}

/// Lets the other tasks have their turn until the kernel was asked for events, which does not wait for one then.
pub async fn after_events() {
    let mut asked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        wake_after_events(context);
        Poll::Pending
    })
    .await;
}

/// Wakes the task when the kernel was asked for events, which does not wait for one then. On other threads than a
/// loop's, wakes it at once.
pub fn wake_after_events(context: &Context<'_>) {
    if tasks::on_a_loop() {
        AFTER_EVENTS.with_borrow_mut(|after| after.push(context.waker().clone()))
    } else {
        context.waker().wake_by_ref()
    }
}
