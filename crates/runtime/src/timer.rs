//! Waiting for a time: with a timer for one connection, which is cheap to set again for every request, or once.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use crate::deadline::Deadline;
use crate::{loops, tasks};

/// A moment that is waited for.
///
/// On other threads than a loop's it is a timer of the tokio runtime there: for the thread that looks up names, and for
/// tests.
#[derive(Debug, Default)]
struct Wait {
    deadline: Deadline,
    elsewhere: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Wait {
    fn poll_until(&mut self, moment: Instant, context: &mut Context<'_>) -> Poll<()> {
        if tasks::on_a_loop() {
            return self.deadline.poll_instant(moment, context);
        }
        let moment = tokio::time::Instant::from_std(moment);
        let sleep = self.elsewhere.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(moment)));
        if sleep.deadline() != moment {
            sleep.as_mut().reset(moment);
        }
        sleep.as_mut().poll(context)
    }
}

/// The present time on the clock of [`Wait`].
fn now() -> Instant {
    if tasks::on_a_loop() { Instant::now() } else { tokio::time::Instant::now().into_std() }
}

/// A timer with one deadline at a time. Moving it further away costs nothing until the earlier one passes: only then is
/// it entered anew among the loop's deadlines. So a keep-alive connection enters one once a minute, not once a request.
/// Between two calls of [`Timer::set`] only one task polls it.
#[derive(Debug, Default)]
pub struct Timer {
    wait: Wait,
    deadline: Option<Instant>,
    /// The timer was set since it was last polled, perhaps for another task.
    is_new: bool,
}

impl Timer {
    /// Sets the deadline `after` from [`loops::now`].
    pub fn set(&mut self, after: Duration) {
        let now = if tasks::on_a_loop() { loops::now() } else { now() };
        self.deadline = now.checked_add(after);
        self.is_new = true;
    }

    /// Removes the deadline: the timer never expires.
    pub fn clear(&mut self) {
        self.deadline = None;
    }

    /// Ready when the deadline has passed.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        if std::mem::take(&mut self.is_new) {
            self.wait.deadline.belongs_to(context);
        }
        ready!(self.wait.poll_until(deadline, context));
        self.deadline = None;
        Poll::Ready(())
    }

    /// Runs `future` until it ends or the deadline passes (`None`).
    pub async fn within<F: Future>(&mut self, after: Duration, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut armed = false;
        std::future::poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            // Only a future that has to wait pays for a deadline.
            if !armed {
                armed = true;
                self.set(after);
            }
            self.poll_expired(context).map(|()| None)
        })
        .await
    }
}

/// Waits for this time.
pub fn sleep(time: Duration) -> Sleep {
    Sleep { wait: Wait::default(), until: now().checked_add(time) }
}

/// Waits until a moment has come.
pub fn sleep_until(moment: Instant) -> Sleep {
    Sleep { wait: Wait::default(), until: Some(moment) }
}

/// The future of [`sleep`] and [`sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    wait: Wait,
    /// `None`: the moment is too far away to be counted.
    until: Option<Instant>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.until.map_or(Poll::Pending, |until| this.wait.poll_until(until, context))
    }
}

/// The error that a future did not end in the given time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct TimeElapsed;

/// Runs `future` until it ends or so much time has passed.
///
/// # Errors
/// The future has not ended.
pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, TimeElapsed> {
    Timer::default().within(time, future).await.ok_or(TimeElapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_may_move_both_ways_and_be_used_again() {
        let waits = async || {
            let mut timer = Timer::default();
            assert_eq!(timer.within(Duration::from_secs(3600), async { 7 }).await, Some(7));
            let never = std::future::pending::<()>;
            assert_eq!(timer.within(Duration::from_secs(3600), std::future::ready(1)).await, Some(1));
            for ms in [20, 5, 10] {
                // This is the loop's clock, which stands still while a task runs.
                let start = loops::now();
                assert_eq!(timer.within(Duration::from_millis(ms), never()).await, None);
                assert!(start.elapsed() >= Duration::from_millis(ms));
            }
            let start = loops::now();
            sleep(Duration::from_millis(5)).await;
            sleep_until(start).await;
            assert!(start.elapsed() >= Duration::from_millis(5));
            assert_eq!(timeout(Duration::from_millis(5), never()).await, Err(TimeElapsed));
        };
        loops::block_on(waits()).unwrap();
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(waits());
    }

    #[test]
    fn a_timer_wakes_the_task_that_has_it_now() {
        use crate::loops::LoopHandle;
        use std::sync::mpsc::channel;

        let (done, finished) = channel();
        let handle = LoopHandle::start(0, None).unwrap();
        handle.tell(move || {
            let given = std::rc::Rc::new(std::cell::Cell::new(None));
            let (gives, takes) = (given.clone(), given);
            loops::spawn(0, "has it first", async move {
                let mut timer = Timer::default();
                timer.set(Duration::from_millis(20));
                std::future::poll_fn(|context| {
                    assert!(timer.poll_expired(context).is_pending());
                    Poll::Ready(())
                })
                .await;
                timer.clear();
                gives.set(Some(timer));
            });
            loops::spawn(0, "has it then", async move {
                let mut timer: Timer = takes.take().unwrap();
                let waits = timer.within(Duration::from_millis(40), std::future::pending::<()>()).await;
                done.send(waits).unwrap();
            });
        });
        assert_eq!(finished.recv_timeout(Duration::from_secs(20)), Ok(None));
        handle.stop();
    }
}
