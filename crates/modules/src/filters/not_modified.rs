//! Conditional requests: 304 and 412 (RFC 9110 section 13).

use bytes::Bytes;
use freerun_http::content::error_page;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::response::{Body, Conditional, Response};
use freerun_proto::conditional::{Conditions, ModifiedSinceMode, Verdict};
use freerun_proto::{HeaderId, Status};

/// The module `not_modified`.
pub static MODULE: Module = Module {
    name: "not_modified",
    filters: &[Filter { slot: Slot::NotModified, wanted: |_| true, run }],
    ..Module::EMPTY
};

fn run(request: &mut Request, response: &mut Response) {
    // An upstream server has received the conditions, too, unless it was asked for a cache.
    let looked_at = response.as_written.as_ref().map_or(Conditional::Here, |written| written.conditions);
    let decided = looked_at == Conditional::There;
    if response.status != Status::OK || response.special || decided || request.is_subrequest() {
        return;
    }
    let mut conditions = Conditions {
        if_match: request.head.value(HeaderId::IfMatch),
        if_none_match: request.head.value(HeaderId::IfNoneMatch),
        if_modified_since: request.head.value(HeaderId::IfModifiedSince),
        if_unmodified_since: request.head.value(HeaderId::IfUnmodifiedSince),
    };
    if conditions.is_empty() {
        return;
    }
    let mut mode = request.settings().get::<CoreSettings>().if_modified_since.into();
    if looked_at == Conditional::ByPrecedence {
        conditions = conditions.by_precedence();
        mode = ModifiedSinceMode::Before;
    }
    match conditions.evaluate(response.etag.as_deref(), response.last_modified, mode) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            response.status = Status::NOT_MODIFIED;
            response.content_type = Bytes::new();
            response.remove(b"Content-Encoding");
            response.ranges = false;
            response.body = Body::Empty;
            response.no_length = true;
        }
        Verdict::PreconditionFailed => {
            // The page no longer stands for the redirect.
            request.answered.carried.location = None;
            request.answered.ends_untold = true;
            *response = *error_page::built_in(request, Status::PRECONDITION_FAILED);
        }
    }
}
