//! The access phase: all its handlers have to let a request pass, or one of them (`satisfy`).

use bytes::Bytes;
use freerun_proto::Status;

use super::handlers;
use crate::log_error;
use crate::request::Request;
use crate::request::core_settings::{CoreSettings, Satisfy};
use crate::request::handler::{Outcome, Phase};
use crate::request::observer::Observer;

/// Runs the handlers of the access phase, from the one at `index` on. `None` if the request may pass.
pub(super) async fn run<O: Observer>(request: &mut Request, index: usize, observer: O) -> Option<Outcome> {
    let refusal = judge(request, index, observer).await;
    if let Some(Outcome::Status(Status::UNAUTHORIZED | Status::PROXY_AUTHENTICATION_REQUIRED)) = refusal {
        let delay = request.settings().get::<CoreSettings>().auth_delay;
        if !delay.is_zero() && !O::OBSERVES {
            tokio::select! {
                () = freerun_runtime::timer::sleep(delay) => {}
                () = request.client.gone() => return Some(Outcome::Status(Status::CLIENT_CLOSED_REQUEST)),
            }
        }
    }
    refusal
}

async fn judge<O: Observer>(request: &mut Request, index: usize, observer: O) -> Option<Outcome> {
    // Challenges of this location take the place of an earlier location's challenges.
    let mut earlier = std::mem::take(&mut request.answered.challenges);
    let refusal = ask_handlers(request, index, &mut earlier, observer).await;
    if request.answered.challenges.is_empty() {
        request.answered.challenges = earlier;
    }
    refusal
}

async fn ask_handlers<O: Observer>(
    request: &mut Request,
    index: usize,
    earlier: &mut Vec<Bytes>,
    observer: O,
) -> Option<Outcome> {
    let any = request.settings().get::<CoreSettings>().satisfy == Satisfy::Any;
    let mut refusal = None;
    for index in index..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase != Phase::Access {
            break;
        }
        match handlers::run(request, (index, handler.run), observer).await {
            Outcome::Declined => {}
            Outcome::Allowed if any => {
                request.answered.challenges.clear();
                earlier.clear();
                return None;
            }
            Outcome::Allowed => {}
            // 401 (or 407) tells the client how to get access, so it is the better response of the two.
            Outcome::Status(
                status @ (Status::UNAUTHORIZED | Status::FORBIDDEN | Status::PROXY_AUTHENTICATION_REQUIRED),
            ) if any => {
                if refusal.is_none_or(|earlier| earlier == Status::FORBIDDEN) {
                    refusal = Some(status);
                }
            }
            outcome => return Some(outcome),
        }
    }
    let status = refusal?;
    // A single handler does not know whether another one lets the request pass.
    if status == Status::FORBIDDEN {
        log_error!(request, Error, "access forbidden by rule");
    }
    Some(Outcome::Status(status))
}
