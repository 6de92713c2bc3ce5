//! The answer of `return`.

use bytes::Bytes;
use freerun_proto::Status;

use crate::body;
use crate::content::media_type;
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::request::response::{Body, Response};
use crate::script::returns::Return;

/// The answer of the directive to a request.
pub(super) fn answer(answer: &Return<Request>, request: &mut Request) -> Outcome {
    let status = answer.status.code();
    // `$status` in the text is the status of this answer, or of the error that led here.
    request.sent.status = Some(request.place.forced_status.map_or(answer.status, |forced| Status::new(forced.get())));
    let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
    let text: Bytes = match &answer.text {
        Some(text) => match text.constant() {
            Some(text) => request.generation.text(text),
            None => text.render(request).into_owned().into(),
        },
        None if redirects || status < 400 => Bytes::new(),
        // Errors have their page; 444 closes the connection.
        None => return Outcome::Status(answer.status),
    };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    if redirects {
        return Outcome::ClientRedirect(answer.status, text);
    }
    let media_type = media_type(request, &request.asked.path);
    let body = if text.is_empty() { Body::Empty } else { Body::Bytes(text) };
    Response::typed_by_uri(answer.status, media_type, body).into()
}
