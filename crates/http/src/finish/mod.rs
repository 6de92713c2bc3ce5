//! After the response: zones count the request, then the log phase.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use freerun_serve::loop_state::LoopState;

use crate::log_step;
use crate::request::Request;
use crate::request::handler::{Phase, Run};

/// Counts the request in its zones, and runs the handlers of the log phase. They never wait.
pub fn finish(request: &mut Request) {
    request.answered.is_logged = true;
    request.count_end();
    log_step!(request, "answered with {} in {} bytes", request.sent.status, request.sent.bytes);
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

/// Runs a part of what answers a request, unless requests are cut off while it waits: then it is `None`, and the request has
/// still to be [finished](finish_cut). A part of this part may be cut off before, and tell how far it has come.
///
/// It is pinned where it was made, because moving it copies some ten thousand bytes for every request.
pub async fn unless_cut<T>(loop_state: &LoopState, mut answering: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|context| match answering.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if loop_state.is_cut() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Finishes a request that was cut off, unless only what follows its line in the log was.
#[cold]
pub fn finish_cut(request: &mut Request) {
    if !request.answered.is_logged {
        finish(request);
    }
}
