//! `post_action`: where a request goes on inside the server when its response is over.

use freerun_conf::bytes_of;
use freerun_proto::Status;

use super::redirects::follow;
use super::{Answer, walk};
use crate::request::handler::Outcome;
use crate::request::observer::NoObserver;
use crate::request::{Request, SentAmounts};

/// Takes the request to the location that its own location names for the time after the response, and from there on to
/// the next one. What they answer is dropped, bodies are not asked for.
#[cold]
pub async fn run(request: &mut Request) {
    let persistence = request.answered.persistence;
    let behind = request.client.in_background();
    let client = std::mem::replace(&mut request.client, behind);
    // What of the body nobody has read yet is not for these locations.
    request.body.give_up();
    // Internal redirects are limited, so this ends.
    while let Some(status) = once(request).await {
        let sent = request.sent;
        // The status of an error stays, as in nginx.
        let is_kept = |status: Status| sent.code() >= 300 && status.code() < 300;
        let status = status.filter(|status| !is_kept(*status)).or(sent.status);
        request.sent = SentAmounts { status, ..sent };
    }
    request.client = client;
    request.answered.persistence = persistence;
}

/// Takes the request to the next location. Returns the status of its answer, if there is one; `None`: there is no
/// next location.
async fn once(request: &mut Request) -> Option<Option<Status>> {
    let from = request.place.location.clone();
    let target = from.core.post_action.as_ref().filter(|_| request.place.redirects_left > 0)?;
    let outcome = if target.starts_with('/') {
        Outcome::Redirect(bytes_of(target).into_owned(), None)
    } else {
        Outcome::Named(target.clone())
    };
    let sent = request.sent;
    let step = follow(request, outcome);
    let answer = walk(request, step, NoObserver).await;
    request.sent = sent;
    if request.place.location.is_same(&from) {
        // A location that does not exist, or that names itself.
        request.place.redirects_left = 0;
    }
    Some(match answer {
        Answer::Response(response) => Some(response.status),
        Answer::Close => None,
    })
}
