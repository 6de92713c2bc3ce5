//! After the response: zones count the request, then the log phase.

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
