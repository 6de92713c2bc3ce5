//! The answer of `return`.

use std::num::NonZeroU16;

use bytes::Bytes;

use crate::body;
use crate::content::{error_page, media_type};
use crate::request::Request;
use crate::request::handler::Outcome;
use crate::request::response::{Body, Response};
use crate::script::returns::Return;

/// The answer of the directive to a request.
pub(super) fn answer(answer: &Return<Request>, request: &mut Request) -> Outcome {
    let status = answer.status;
    // `$status` in the text is the status of this answer, or of the error that led here.
    request.sent.status = request.place.forced_status.map_or(status, NonZeroU16::get);
    let redirects = matches!(status, 301 | 302 | 303 | 307 | 308);
    let text: Bytes = match &answer.text {
        Some(text) => match text.constant() {
            Some(text) => request.generation.text(text),
            None => text.render(request).into_owned().into(),
        },
        None if redirects || status < 400 => Bytes::new(),
        // Errors have their page; 444 closes the connection.
        None => return Outcome::Status(status),
    };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    if redirects {
        return redirect(request, status, text);
    }
    let media_type = media_type(request, &request.asked.path);
    let body = if text.is_empty() { Body::Empty } else { Body::Bytes(text) };
    Response::typed_by_uri(status, media_type, body).into()
}

/// A redirect with nginx's page.
pub(crate) fn redirect(request: &mut Request, status: u16, location: Bytes) -> Outcome {
    let mut response = error_page::built_in(request, status);
    response.location = Some(location);
    response.into()
}
