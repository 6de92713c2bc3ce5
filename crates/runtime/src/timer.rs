//! A timer for one connection that is cheap to set again for every request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::loops;

/// One deadline at a time. Moving it further away costs nothing until the earlier one passes: only then is the
/// loop's timer wheel touched again. A keep-alive connection so registers once a minute, not once a request.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl Timer {
    /// Sets the deadline `after` from [`loops::now`].
    pub fn set(&mut self, after: Duration) {
        self.deadline = Instant::from_std(loops::now()).checked_add(after);
    }

    /// No deadline: the timer never expires.
    pub fn clear(&mut self) {
        self.deadline = None;
    }

    /// Ready when the deadline has passed.
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() > deadline || sleep.is_elapsed() {
            sleep.as_mut().reset(deadline);
        }
        loop {
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if sleep.deadline() >= deadline => {
                    self.deadline = None;
                    return Poll::Ready(());
                }
                Poll::Ready(()) => sleep.as_mut().reset(deadline),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_may_move_both_ways_and_be_used_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut timer = Timer::default();
            assert_eq!(timer.within(Duration::from_secs(3600), async { 7 }).await, Some(7));
            let never = std::future::pending::<()>;
            assert_eq!(timer.within(Duration::from_secs(3600), std::future::ready(1)).await, Some(1));
            for ms in [20, 5, 10] {
                let start = Instant::now();
                assert_eq!(timer.within(Duration::from_millis(ms), never()).await, None);
                assert!(start.elapsed() >= Duration::from_millis(ms));
            }
        });
    }
}
