//! The phases at the level of the server: its handlers and its script run before a location is chosen.

use super::handlers;
use super::location_choice::{choose, enter_server};
use super::redirects::follow;
use super::step::Step;
use crate::request::Request;
use crate::request::handler::{Outcome, Phase};
use crate::request::observer::Observer;
use crate::rewrite::{self, ScriptEnd};

/// Runs the server's own handlers and its script, and chooses the location.
pub(super) async fn run<O: Observer>(request: &mut Request, observer: O) -> Step {
    enter_server(request);
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        // The handlers are in the order of their phases.
        if handler.phase > Phase::ServerRewrite {
            break;
        }
        match handlers::run(request, (index, handler.run), observer).await {
            Outcome::Declined | Outcome::Allowed => {}
            outcome => return follow(request, outcome),
        }
    }
    if !request.place.location.script.is_empty() {
        match rewrite::script(request, observer).await {
            ScriptEnd::Stays => {}
            ScriptEnd::Moved => request.place.rewritten_here = false,
            ScriptEnd::Answer(outcome) => return follow(request, outcome),
        }
    }
    choose(request, observer)
}
