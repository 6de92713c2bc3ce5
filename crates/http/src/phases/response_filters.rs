//! The way of a response through the filters, with `error_page` between them.

use std::sync::Arc;

use freerun_proto::head::Method;
use freerun_proto::{HeaderId, Status};

use super::error_pages::{self, replacement};
use super::redirects::follow;
use super::step::{Answer, Step};
use crate::content::{grpc_error, msie};
use crate::filters;
use crate::request::Request;
use crate::request::handler::{Outcome, Slot};
use crate::request::response::{Body, LocalBoxFuture, Response};

/// Sends a response through the filters, then lets `error_page` replace it if it is a built-in one.
///
/// # Errors
/// The response is replaced: the request goes on with this step.
#[inline]
pub(super) fn run(request: &mut Request, mut response: Box<Response>) -> Result<Box<Response>, Step> {
    if let Some(status) = request.place.forced_status.filter(|_| !response.special || response.status.code() < 300) {
        response.status = Status::new(status.get());
        if let Some(written) = response.as_written.as_mut().map(Arc::make_mut) {
            // The reason phrase belongs to the other server's status, even if the number is the same.
            written.status = 0;
        }
    }
    filters::run(request, &mut response, ..=Slot::NotModified);
    if response.special {
        request.answered.carried.drop_description();
    }
    if response.special
        && response.status.code() >= 300
        && let Some(outcome) = replacement(request, &mut response)
    {
        return replace(request, outcome);
    }
    let status = response.status;
    let is_call = grpc_error::applies(request, &response);
    if is_call {
        grpc_error::clear(&mut response);
    }
    leave(request, &mut response);
    // The last filter finds out that a requested range cannot be satisfied.
    if response.special
        && response.status != status
        && let Some(outcome) = replacement(request, &mut response)
    {
        return replace(request, outcome);
    }
    if is_call {
        grpc_error::tell(&mut response);
    }
    Ok(response)
}

/// Goes on with the outcome that replaces a response. The page of a redirect is not replaced itself, so it is the response.
fn replace(request: &mut Request, outcome: Outcome) -> Result<Box<Response>, Step> {
    let Outcome::ClientRedirect(status, location) = outcome else { return Err(follow(request, outcome)) };
    match error_pages::answer(request, status, Some(location)) {
        Answer::Response(mut redirect) => {
            leave(request, &mut redirect);
            Ok(redirect)
        }
        Answer::Close => Err(Step::Close),
    }
}

/// Has the source of a body that is going to be sent find out whether there will be one.
#[inline]
pub(super) fn prepare<'r>(
    request: &Request,
    response: &'r mut Response,
) -> Option<LocalBoxFuture<'r, Result<(), Status>>> {
    match &mut response.body {
        Body::Source(source) if request.asked.method != Method::Head => source.prepare(),
        _ => None,
    }
}

/// Runs the filters that see only the response that is really sent.
fn leave(request: &mut Request, response: &mut Response) {
    msie::refresh(request, response);
    if let Some(location) = request.answered.carried.location.take() {
        response.location.get_or_insert(location);
    }
    if let Some((content_type, charset)) = request.answered.carried.content_type.take()
        && response.takes_given_type()
    {
        (response.content_type, response.charset) = (content_type, charset);
    }
    response.vary |= request.answered.carried.vary;
    if !request.answered.carried.fields.is_empty() {
        // If no range is asked for, the range filter adds the field.
        if response.ranges && !request.head.has(HeaderId::Range) {
            request.answered.carried.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"Accept-Ranges"));
        }
        response.fields.extend(request.answered.carried.fields.drain(..));
    }
    for challenge in &request.answered.challenges {
        let name = if request.is_connect() { &b"Proxy-Authenticate"[..] } else { b"WWW-Authenticate" };
        response.add(name, challenge.clone());
    }
    if request.place.forced_status.is_none()
        || matches!(response.status, Status::OK | Status::PARTIAL_CONTENT | Status::NOT_MODIFIED)
    {
        filters::run(request, response, Slot::MoreHeaders..);
    } else {
        // `expires modified` may count from this time, but an error page does not show the resource that was asked for,
        // so the time is not sent.
        filters::run(request, response, Slot::MoreHeaders..=Slot::Headers);
        response.last_modified = None;
        filters::run(request, response, Slot::UserId..);
    }
}
