//! `client_max_body_size`, for the length that a request declares.

use freerun_proto::h1::CloseReason;
use freerun_proto::head::parse_length;
use freerun_proto::{HeaderId, Status};

use crate::log_error;
use crate::request::Request;

/// Refuses a body whose declared length is beyond `client_max_body_size`.
///
/// # Errors
/// The status of the response.
#[inline]
pub(super) fn judge_length(request: &mut Request) -> Result<(), Status> {
    let limit = request.core().client_max_body_size.0;
    let declared = if request.is_subrequest() {
        // A subrequest has no body, but it is refused for the length of the client's, as in nginx.
        request.head.value(HeaderId::ContentLength).and_then(parse_length)
    } else {
        request.body.declared_length()
    };
    let judged = declared.filter(|_| !request.place.body_judged);
    let Some(length) = judged.filter(|length| limit > 0 && *length > limit) else { return Ok(()) };
    request.body.refuse();
    request.body.give_up();
    request.place.body_judged = true;
    log_error!(request, Error, "client intended to send too large body: {length} bytes");
    request.answered.persistence.close(CloseReason::BadBody);
    Err(Status::CONTENT_TOO_LARGE)
}
