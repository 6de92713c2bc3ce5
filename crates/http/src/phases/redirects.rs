//! Internal redirects: the outcome of a handler as the next step of its request.

use freerun_conf::{bytes_of, text_of};
use freerun_proto::Status;

use super::keepalive;
use super::step::Step;
use crate::log_error;
use crate::request::handler::Outcome;
use crate::request::{MAX_INTERNAL_REDIRECTS, Request};

/// The step that follows from an outcome.
pub(super) fn follow(request: &mut Request, outcome: Outcome) -> Step {
    match outcome {
        Outcome::Response(response) => Step::Answer(response),
        Outcome::Status(status) => Step::status(status),
        Outcome::ClientRedirect(status, location) => Step::Status(status, Some(location)),
        Outcome::Close => Step::Close,
        Outcome::Declined | Outcome::Allowed => Step::status(Status::NOT_FOUND),
        Outcome::Redirect(path, args) => redirect(request, path, args),
        Outcome::Named(name) => go_to_named(request, &name),
    }
}

/// Starts again with another URI.
fn redirect(request: &mut Request, path: Vec<u8>, args: Option<Vec<u8>>) -> Step {
    if !take_redirect(request) {
        return end_cycle(request, "internally redirecting to", &path);
    }
    request.asked.path = path;
    request.asked.args = args;
    request.asked.uri_kept = false;
    request.place.internal = true;
    request.place.rewritten_here = false;
    // The keep-alive settings of the server are applied again, as in nginx.
    request.place.location = request.generation.location(&request.place.server.entry);
    keepalive::in_location(request);
    Step::Route
}

/// Goes on in a named location.
fn go_to_named(request: &mut Request, name: &str) -> Step {
    if request.asked.path.is_empty() {
        // The request line was not understood, so there is no path.
        log_error!(request, Error, "empty URI in redirect to named location \"{name}\"");
        return Step::status(Status::INTERNAL_SERVER_ERROR);
    }
    if !take_redirect(request) {
        return end_cycle(request, "redirect to named location", &bytes_of(name));
    }
    let server = request.place.server.clone();
    let Some(location) = server.locations.named(name) else {
        log_error!(request, Error, "could not find named location \"{name}\"");
        return Step::status(Status::INTERNAL_SERVER_ERROR);
    };
    request.place.location = request.generation.location(location.for_method(request.asked.method));
    request.place.internal = true;
    request.place.path_behind_alias = false;
    keepalive::in_location(request);
    Step::Location
}

/// Uses up one of the internal redirects; `false` if none is left.
pub(super) fn take_redirect(request: &mut Request) -> bool {
    debug_assert!(request.place.redirects_left <= MAX_INTERNAL_REDIRECTS, "a request may be redirected without end");
    let left = request.place.redirects_left.checked_sub(1);
    request.place.redirects_left = left.unwrap_or(0);
    left.is_some()
}

/// Ends a request that has used up its redirects, with an error that no error page replaces, because that would be
/// another redirect.
pub(super) fn end_cycle(request: &mut Request, doing: &str, target: &[u8]) -> Step {
    let target = text_of(target);
    log_error!(request, Error, "rewrite or internal redirection cycle while {doing} \"{target}\"");
    request.lineage.plain_errors = true;
    Step::status(Status::INTERNAL_SERVER_ERROR)
}
