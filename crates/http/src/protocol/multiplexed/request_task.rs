//! The task of one request.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use freerun_runtime::log::Level;
use freerun_serve::accept::service::words_of_panic;

use crate::protocol::multiplexed::request_runner::{RequestRunner, RequestRunners, RequestWork};
use crate::request::ConnectionFacts;

/// The stream of a request, as the request's task knows it.
pub(in crate::protocol) trait RequestStream {
    /// The facts about the stream's connection.
    fn facts(&self) -> &ConnectionFacts;

    /// The runners of the loop. The stream knows them, so the task of a request is no larger than the task of a connection.
    fn runners(&self) -> &RequestRunners;

    /// Ends the stream if it is a tunnel of this generation.
    fn end_tunnel(&self, generation: u64);

    /// Notes that the request waits: what was given to the stream so far has to leave.
    fn rests(&self) {}

    /// Notes that the request has ended: it uses the stream no more.
    fn release(&self);
}

/// A request of a connection, from its head to its line in the log.
pub struct RequestTask {
    stream: Rc<dyn RequestStream>,
    /// `None` when it has ended.
    runner: Option<RequestRunner>,
}

impl RequestTask {
    /// The task of a request, which uses this stream.
    pub(in crate::protocol) fn new(stream: Rc<dyn RequestStream>, work: RequestWork) -> RequestTask {
        let runner = Some(stream.runners().take(work));
        RequestTask { stream, runner }
    }

    /// Ends the request if it has led to a tunnel, and has begun with this generation.
    pub fn end_tunnel(&self, generation: u64) {
        self.stream.end_tunnel(generation);
    }
}

impl Future for RequestTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(mut runner) = self.runner.take() else { return Poll::Ready(()) };
        let is_cut = || self.stream.facts().loop_state.is_cut();
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let answer = runner.poll(context);
            // A request that is cut off logs itself when it is dropped.
            (answer.is_ready() || !is_cut()).then_some((runner, answer))
        }));
        // A panic ends the request alone.
        match polled {
            Ok(Some((runner, Poll::Ready(spare)))) => {
                self.stream.runners().keep_head(spare);
                self.stream.runners().give_back(runner);
                Poll::Ready(())
            }
            Ok(Some((runner, Poll::Pending))) => {
                self.runner = Some(runner);
                self.stream.rests();
                Poll::Pending
            }
            Ok(None) => Poll::Ready(()),
            Err(panic) => {
                let message = format_args!("request ended by a panic: {}", words_of_panic(&*panic));
                self.stream.facts().log(Level::Alert, message);
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
