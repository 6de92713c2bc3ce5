//! After the response: the log phase.

use crate::request::Request;
use crate::request::handler::{Phase, Run};

/// Runs the handlers of the log phase. They never wait.
pub fn finish(request: &mut Request) {
    request.is_logged = true;
    // They are the last ones.
    if request.location.handlers.last().is_none_or(|handler| handler.phase != Phase::Log) {
        return;
    }
    for index in 0..request.location.handlers.len() {
        let handler = request.location.handlers[index];
        if handler.phase == Phase::Log
            && let Run::Now(run) = handler.run
        {
            run(request);
        }
    }
}
