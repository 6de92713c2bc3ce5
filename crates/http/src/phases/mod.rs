//! The phases: from a parsed request to a response, through handlers, internal redirects and error pages.
//!
//! [`walk`] takes a request from one [`Step`] to the next one. A step that fails names a status, and `error_pages` answers
//! with its page. A filter that refuses (412, 416, 502 of a slice) puts the page in the response's place itself, and
//! `filtering` offers it to `error_page`.

mod access;
mod body_limit;
mod early_body;
mod error_pages;
mod handlers;
pub mod keepalive;
mod location_choice;
mod location_phases;
pub mod post_action;
mod redirects;
mod response_filters;
mod server_phases;
mod step;
pub mod subrequest;
pub mod subrequest_body;

use bytes::Bytes;
use freerun_proto::Status;
use freerun_proto::head::Method;

use crate::body;
use crate::request::Request;
use crate::request::handler::{Outcome, Phase};
use crate::request::observer::{NoObserver, Observer};
use crate::request::response::{Body, Response};

pub use step::Answer;
use step::Step;

/// Takes a request through the phases. It always ends, because internal redirects are limited. A request that is refused
/// before (because of a bad head, for example) gets the page of its status; error pages apply all the same.
pub fn respond(request: &mut Request, judged: Result<(), Status>) -> impl Future<Output = Answer> {
    respond_observed(request, judged, NoObserver)
}

/// Does the same as [`respond`] while an observer looks on.
pub async fn respond_observed<O: Observer>(request: &mut Request, judged: Result<(), Status>, observer: O) -> Answer {
    let page = request.generation.http.challenges.as_ref().and_then(|challenges| challenges.page(&request.asked.path));
    let first = match (judged, page) {
        (Err(status), _) => {
            // If the head is wrong, its length of a body does not count.
            request.place.body_judged = true;
            Step::status(status)
        }
        (Ok(()), None) if early_body::is_wanted(request) => match Box::pin(early_body::read(request)).await {
            Ok(()) => Step::Route,
            Err(status) => Step::status(status),
        },
        (Ok(()), None) => Step::Route,
        (Ok(()), Some(page)) => challenge(request, page),
    };
    walk(request, first, observer).await
}

/// Answers a CA that looks at a challenge (RFC 8555, section 8.3), whatever the server's directives do with other requests.
fn challenge(request: &mut Request, page: Bytes) -> Step {
    if !matches!(request.asked.method, Method::Get | Method::Head) {
        return Step::Route;
    }
    if let Err(status) = body::begin_discarding(request) {
        return Step::status(status);
    }
    Step::Answer(Response::new(Status::OK, &b"application/octet-stream"[..], Body::Bytes(page)))
}

/// Makes the content of a request that is in its location already, without filters and `error_page`.
pub async fn make_content(request: &mut Request) -> Answer {
    for index in 0..request.place.location.handlers.len() {
        let handler = request.place.location.handlers[index];
        if handler.phase != Phase::Content {
            continue;
        }
        return match handlers::run(request, (index, handler.run), NoObserver).await {
            Outcome::Declined | Outcome::Allowed => continue,
            Outcome::Response(response) => Answer::Response(response),
            Outcome::Close => Answer::Close,
            Outcome::Status(status) => error_pages::answer(request, status, None),
            Outcome::ClientRedirect(status, location) => error_pages::answer(request, status, Some(location)),
            Outcome::Redirect(..) | Outcome::Named(_) => {
                error_pages::answer(request, Status::INTERNAL_SERVER_ERROR, None)
            }
        };
    }
    error_pages::answer(request, Status::NOT_FOUND, None)
}

/// Takes the request from step to step until it has its answer.
async fn walk<O: Observer>(request: &mut Request, mut step: Step, observer: O) -> Answer {
    loop {
        step = match step {
            Step::Route => server_phases::run(request, observer).await,
            Step::Choose => location_choice::choose(request, observer),
            Step::Location => location_phases::run(request, observer).await,
            Step::Status(status, location) => {
                observer.failed(request, status);
                error_pages::answer(request, status, location).into()
            }
            Step::Answer(response) => match filter(request, response, observer) {
                Ok(mut response) => {
                    let refused = match response_filters::prepare(request, &mut response) {
                        Some(preparing) => preparing.await.err(),
                        None => None,
                    };
                    match refused {
                        None => return Answer::Response(response),
                        Some(status) => Step::status(status),
                    }
                }
                Err(next) => next,
            },
            Step::Close => return Answer::Close,
        };
    }
}

/// Sends a response through the filters and `error_page`.
///
/// # Errors
/// The response is replaced: the request goes on with this step.
#[inline]
fn filter<O: Observer>(request: &mut Request, response: Box<Response>, observer: O) -> Result<Box<Response>, Step> {
    observer.answered(request, &response);
    let filtered = response_filters::run(request, response);
    if filtered.is_err() {
        observer.replaced(request);
    }
    filtered
}
