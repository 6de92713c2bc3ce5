//! The task of one request.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use freerun_runtime::log::Level;
use freerun_serve::accept::service::words_of_panic;

use crate::protocol::h2::Driver;
use crate::protocol::h2::runner::{RequestRunner, Work};
use crate::protocol::h2::stream::H2Stream;

/// One request of a connection, from its head to its line in the log.
pub struct RequestTask {
    driver: Rc<Driver>,
    stream: Rc<H2Stream>,
    /// `None` when it has ended.
    runner: Option<RequestRunner>,
}

impl RequestTask {
    pub(super) fn new(driver: &Rc<Driver>, stream: Rc<H2Stream>, work: Work) -> RequestTask {
        let runner = Some(driver.runners.take(work));
        RequestTask { driver: driver.clone(), stream, runner }
    }
}

impl RequestTask {
    /// Ends the request if it has led to a tunnel, and has begun with this generation.
    pub fn end_tunnel(&self, generation: u64) {
        self.stream.end_tunnel(generation);
    }
}

impl Future for RequestTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut runner) = self.runner.take() else { return Poll::Ready(()) };
        let is_cut = || self.stream.connection().loop_state.is_cut();
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _ = runner.future.as_mut().poll(context);
            // A request that is cut off logs itself when it is dropped.
            (runner.post.is_done.get() || !is_cut()).then_some(runner)
        }));
        // A panic ends the request alone.
        match polled {
            Ok(Some(runner)) if runner.post.is_done.get() => {
                self.driver.keep_head(runner.post.spare.take());
                self.driver.runners.give_back(runner);
                Poll::Ready(())
            }
            Ok(Some(runner)) => {
                self.runner = Some(runner);
                Poll::Pending
            }
            Ok(None) => Poll::Ready(()),
            Err(panic) => {
                let message = format_args!("request ended by a panic: {}", words_of_panic(&*panic));
                self.stream.connection().log(Level::Alert, message);
                Poll::Ready(())
            }
        }
    }
}

impl Drop for RequestTask {
    fn drop(&mut self) {
        // The request's future may still use the stream while it is dropped.
        drop(self.runner.take());
        self.stream.release();
    }
}
