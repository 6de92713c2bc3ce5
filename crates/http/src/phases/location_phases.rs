//! The phases in a location: its script, then its handlers, until one of them has made the content.

use freerun_conf::text_of;
use freerun_proto::Status;

use super::access;
use super::handlers::{run as run_handler, run_now};
use super::redirects::{end_cycle, follow, take_redirect};
use super::step::Step;
use crate::content::path;
use crate::log_error;
use crate::request::Request;
use crate::request::handler::{Outcome, Phase};
use crate::request::observer::Observer;
use crate::rewrite::{self, ScriptEnd};

/// Runs the script and the handlers of the location.
pub(super) async fn run<O: Observer>(request: &mut Request, observer: O) -> Step {
    request.is_handled = false;
    // If no location was chosen, the server's own script has run already.
    if !request.place.location.script.is_empty() && !request.place.location.is(&request.place.server.entry) {
        let ended = match rewrite::at_once(request, observer) {
            Some(ended) => ended,
            None => rewrite::script(request, observer).await,
        };
        match ended {
            ScriptEnd::Stays => {}
            ScriptEnd::Moved if take_redirect(request) => {
                rewrite_tail(request, observer).await;
                request.place.rewritten_here = false;
                return Step::Choose;
            }
            ScriptEnd::Moved => {
                let path = request.asked.path.clone();
                return end_cycle(request, "processing", &path);
            }
            ScriptEnd::Answer(outcome) => return follow(request, outcome),
        }
    }
    request.is_handled = true;
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        match handler.phase {
            Phase::PostRead | Phase::ServerRewrite | Phase::Log => {}
            Phase::Access => {
                // The first access handler runs all of them. Subrequests are parts of a page, and were allowed with the
                // page.
                let first = index == 0 || request.place.location.handlers[index - 1].phase < Phase::Access;
                if first
                    && !request.is_subrequest()
                    && let Some(outcome) = access::run(request, index, observer).await
                {
                    return follow(request, outcome);
                }
            }
            _ => {
                // The future is awaited here and not in `handlers::run`: few handlers wait, and each call would be a future
                // more.
                let outcome = match observer.stand_in(request, index) {
                    Some(outcome) => outcome,
                    None => {
                        let outcome = match run_now(request, handler.run) {
                            Ok(outcome) => outcome,
                            Err(later) => later(request).await,
                        };
                        observer.handled(request, index, &outcome);
                        outcome
                    }
                };
                if !matches!(outcome, Outcome::Declined | Outcome::Allowed) {
                    return follow(request, outcome);
                }
            }
        }
    }
    if request.asked.path.last() == Some(&b'/') {
        let folder = path::file_name(request);
        log_error!(request, Error, "directory index of \"{}\" is forbidden", text_of(&folder));
        return Step::status(Status::FORBIDDEN);
    }
    Step::status(Status::NOT_FOUND)
}

/// Runs the handlers behind a script that has changed the path. They change the request, and have no answers.
async fn rewrite_tail<O: Observer>(request: &mut Request, observer: O) {
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase == Phase::Rewrite {
            run_handler(request, (index, handler.run), observer).await;
        }
    }
}
