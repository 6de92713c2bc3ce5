//! The call of a handler, which waits or does not.

use crate::request::Request;
use crate::request::handler::{Later, Outcome, Run};
use crate::request::observer::Observer;

/// Runs the handler at this index of the request's location to its end.
pub(super) async fn run<O: Observer>(request: &mut Request, (index, run): (usize, Run), observer: O) -> Outcome {
    if let Some(outcome) = observer.stand_in(request, index) {
        return outcome;
    }
    let outcome = match run_now(request, run) {
        Ok(outcome) => outcome,
        Err(later) => later(request).await,
    };
    observer.handled(request, index, &outcome);
    outcome
}

/// Runs a handler as far as it does not wait.
///
/// # Errors
/// The function to call instead, if the handler may have to wait.
#[inline]
pub(super) fn run_now(request: &mut Request, run: Run) -> Result<Outcome, Later> {
    match run {
        Run::Now(handler) => Ok(handler(request)),
        Run::Later(later) => Err(later),
        Run::NowOrLater(now, later) => now(request).ok_or(later),
    }
}
