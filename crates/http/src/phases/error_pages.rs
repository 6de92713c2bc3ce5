//! Errors and redirects: the built-in page of a status, and what `error_page` puts in its place.

use std::num::NonZeroU16;

use bytes::Bytes;
use freerun_conf::{bytes_of, text_of};
use freerun_proto::Status;
use freerun_proto::head::Method;
use freerun_proto::status::sent_code;

use super::step::Answer;
use crate::body;
use crate::content::error_page;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::handler::Outcome;
use crate::request::response::Response;
use crate::values::error_page::Target;

/// The answer to a request that ends with a status: its built-in page, with this `Location`. A client that has gone, that
/// has sent nothing for too long or that is not to get a response gets none.
pub(super) fn answer(request: &mut Request, status: Status, location: Option<Bytes>) -> Answer {
    if matches!(status, Status::REQUEST_TIMEOUT | Status::NO_RESPONSE | Status::CLIENT_CLOSED_REQUEST) {
        request.sent.status = Some(status);
        return Answer::Close;
    }
    let mut response = error_page::built_in(request, status);
    response.location = location;
    Answer::Response(response)
}

/// The outcome that takes the place of an error by `error_page`. `None`: the error stays. If the request goes on, the
/// error's `Location` and the fields that the filters have added go with it, as in nginx.
pub(super) fn replacement(request: &mut Request, response: &mut Response) -> Option<Outcome> {
    if request.lineage.plain_errors || request.place.last_error_page {
        return None;
    }
    let location = request.place.location.clone();
    let core = location.settings.get::<CoreSettings>();
    let page = core.error_page.iter().find(|page| page.statuses.contains(&response.status.code()))?;
    request.place.last_error_page = !core.recursive_error_pages;
    let uri = match &page.target {
        Target::Named(name) => bytes_of(name).into_owned(),
        Target::Uri(template) => template.render(request).into_owned(),
    };
    if !matches!(uri.first(), Some(b'/' | b'@')) {
        let is_redirect = |status: &u16| matches!(status, 301 | 302 | 303 | 307 | 308);
        let status = page.overwrite.filter(is_redirect).unwrap_or(302);
        return Some(Outcome::ClientRedirect(Status::new(status), uri.into()));
    }
    leave_behind(request, response, page.overwrite);
    if uri.first() == Some(&b'@') {
        return Some(Outcome::Named(text_of(&uri).into_owned()));
    }
    if request.asked.method != Method::Head {
        request.asked.method = Method::Get;
    }
    let (path, args) = match uri.iter().position(|byte| *byte == b'?') {
        Some(mark) => (uri[..mark].to_vec(), Some(uri[mark + 1..].to_vec())),
        None => (uri, None),
    };
    Some(Outcome::Redirect(path, args))
}

/// Takes from an error what stays of it when the request goes on to the page for it.
fn leave_behind(request: &mut Request, response: &mut Response, overwrite: Option<u16>) {
    request.place.forced_status = forced(overwrite, response.status);
    body::note_replaced(request, response.status);
    if !matches!(overwrite, Some(0 | 200)) {
        // A refused client is not asked to send its body, not even by the page that stands for the error.
        request.body.refuse();
    }
    let carried = &mut request.answered.carried;
    carried.location = response.location.take().or(carried.location.take());
    carried.vary |= response.vary;
    carried.fields.extend(response.fields.take());
}

/// The status that an error page is sent with. `error_page 404 =200 /x` sends 200, and `=` alone the status of the page
/// itself. Otherwise it is the original status, as a client may see it: some of nginx's own are never sent.
fn forced(overwrite: Option<u16>, original: Status) -> Option<NonZeroU16> {
    match overwrite {
        None => NonZeroU16::new(sent_code(original.code())),
        // 0 stands for the status of the page itself.
        Some(status) => NonZeroU16::new(status),
    }
}
