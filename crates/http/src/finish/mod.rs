//! After the response: zones count the request, then the log phase.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use freerun_proto::Status;
use freerun_serve::loops::state::LoopState;

use crate::log_step;
use crate::request::Request;
use crate::request::handler::{EndHook, Phase, Run};

/// Counts the request in its zones, and runs the handlers of the log phase. They never wait.
pub fn finish(request: &mut Request) {
    request.answered.is_logged = true;
    request.count_end();
    log_step!(request, "answered with {} in {} bytes", request.sent.code(), request.sent.bytes);
    EndHook::call(request);
    // The handlers of the log phase are the last ones.
    if request.place.location.handlers.last().is_none_or(|handler| handler.phase != Phase::Log) {
        return;
    }
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase == Phase::Log
            && let Run::Now(run) = handler.run
        {
            run(request);
        }
    }
}

/// Sends a response, unless requests are cut off while it waits: then it is `None`, and the caller tells how far it has come.
///
/// It is pinned where it was made, because moving it copies thousands of bytes for every response.
pub async fn unless_cut<T>(loop_state: &LoopState, mut sending: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match sending.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if loop_state.is_cut() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// A request while it is answered. When requests are cut off, the future that answers one is dropped; the request has its line
/// in the log nevertheless, with how far it has come.
pub struct InProgress<'r>(&'r mut Request);

impl<'r> InProgress<'r> {
    /// A request that is going to be answered.
    pub fn of(request: &'r mut Request) -> InProgress<'r> {
        InProgress(request)
    }

    /// The request.
    pub fn request(&mut self) -> &mut Request {
        self.0
    }

    /// Leaves the request to what finishes it from now on, if it is not finished yet.
    #[inline]
    pub fn release(self) {
        std::mem::forget(self);
    }
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        if self.0.answered.is_logged || !self.0.client.loop_state.is_cut() {
            return;
        }
        if self.0.sent.code() == 0 && self.0.client.is_multiplexed() {
            // The stream has ended, and with it its client.
            self.0.sent.status = Some(Status::CLIENT_CLOSED_REQUEST);
        }
        finish(self.0);
    }
}
