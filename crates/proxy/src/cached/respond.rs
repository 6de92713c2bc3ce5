//! Makes a client's response from a stored response.

use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::object::{ObjectBody, StoredObject};
use freerun_cache::record::{Head, Reason};
use freerun_cache::rules::Lifetime;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, Conditional, FileRange, Response};
use freerun_http::settings::rate::LimitRate;
use freerun_proto::Status;
use freerun_proto::date::{imf_fixdate, parse_http_date};

use crate::cached::key_text::Answers;
use crate::cached::stored_head;
use crate::cached::stored_head::HeadSettings;
use crate::client::response::{content_length, has_page};
use crate::client::response_body::AnnouncedBody;
use crate::exchange::UpstreamHead;
use crate::exchange::family::{Family, PassedHead};
use crate::exchange::fields::HeadFields;
use crate::exchange::target::PassTarget;
use crate::settings::FamilySettings;
use crate::state::record::Record;

/// Sets the conditions and ranges that a stored response supports: they are evaluated here, because they were not
/// passed to the server. By nginx's rules only ranges that the server would have answered, too (or `force_ranges`); by
/// RFC 9111 any part of a complete stored response.
pub fn offer(response: &mut Response, rfc9111: bool) {
    if let Some(written) = response.as_written.as_mut().map(Arc::make_mut) {
        written.conditions = if rfc9111 { Conditional::ByPrecedence } else { Conditional::Here };
    }
    if response.status == Status::OK && (rfc9111 || response.field(b"Accept-Ranges").is_some()) {
        response.remove(b"Accept-Ranges");
        response.ranges = true;
    }
}

/// Answers with a stored response.
pub fn stored(
    request: &mut Request,
    family: &dyn Family,
    shared: &FamilySettings,
    object: &StoredObject,
    lifetime: &Lifetime,
    now: u64,
) -> Outcome {
    let head = &object.head;
    let place = HeadSettings::of(request, shared);
    if let Some(mut response) = place.filter(|_| !request.is_head()).and_then(|place| stored_head::again(object, place))
    {
        if request.generation.http.keeps_upstream_head {
            request.own.get::<Record>().show(&head.fields);
        }
        response.body = body(object);
        return Outcome::Response(response);
    }
    let outcome = respond(request, family, shared, head, lifetime, now, Some(head.body), || body(object));
    if let (Some(place), Outcome::Response(response)) = (place, &outcome) {
        stored_head::keep(object, place, request, response);
    }
    outcome
}

/// The body of a stored object.
fn body(object: &StoredObject) -> Body {
    match &object.body {
        ObjectBody::Bytes(bytes) if bytes.is_empty() => Body::Empty,
        ObjectBody::Bytes(bytes) => Body::Bytes(bytes.clone()),
        ObjectBody::File { file, offset, len } => {
            Body::File(FileRange { file: file.clone(), offset: *offset, len: *len })
        }
    }
}

/// Time of a response's generation (RFC 9110 section 6.6.1), in unix seconds. It is the response's own `Date`, or else
/// the time when the response came, or the `Date` of a 304 that has renewed it since.
fn generated(head: &Head, lifetime: &Lifetime) -> i64 {
    let own = head.field(b"Date").and_then(|date| parse_http_date(date));
    let seconds = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    own.unwrap_or(seconds(head.created)).max(seconds(lifetime.born))
}

/// Answers with a stored head and a body. `length`: the length of the body, where it is known.
#[allow(clippy::too_many_arguments)]
pub fn respond(
    request: &mut Request,
    family: &dyn Family,
    shared: &FamilySettings,
    head: &Head,
    lifetime: &Lifetime,
    now: u64,
    length: Option<u64>,
    body: impl FnOnce() -> Body,
) -> Outcome {
    let Reason::Sent(reason) = &head.reason else { return Outcome::Status(Status::new(head.status)) };
    let mut fields = head.fields.clone();
    let mut dated = None;
    if shared.proxy_cache_rfc9111 {
        let date = Bytes::copy_from_slice(&imf_fixdate(generated(head, lifetime)));
        let replaced = |name: &Bytes| name.eq_ignore_ascii_case(b"Age") || name.eq_ignore_ascii_case(b"Date");
        fields.retain(|(name, _)| !replaced(name));
        fields.push((Bytes::from_static(b"Date"), date.clone()));
        fields.push((Bytes::from_static(b"Age"), lifetime.age(now).to_string().into()));
        dated = Some(date);
    }
    if request.generation.http.keeps_upstream_head {
        request.own.get::<Record>().show(&fields);
    }
    let fields = HeadFields::Made(fields);
    // The answer to a HEAD that was passed on as HEAD has no body, but the length of the body that GET would get. If it
    // has no length, the length is unknown.
    let announced = match head.body {
        0 if Answers::of(&head.key) == Answers::HeadAlone => content_length(&fields),
        0 => content_length(&fields).or(length),
        _ => length,
    };
    let head = UpstreamHead { status: head.status, reason: reason.clone(), fields, length, bytes: 0 };
    let status = head.status;
    if status >= 300 && shared.proxy_intercept_errors && has_page(request, status) {
        if status == 401 {
            request.answered.challenges = head.fields.values(b"WWW-Authenticate").collect();
        }
        return Outcome::Status(Status::new(status));
    }
    let (mut response, advice) = match family.respond(request, &PassTarget::default(), head) {
        Ok(PassedHead::Response(response, advice)) => (response, advice),
        Ok(PassedHead::Elsewhere(outcome)) => return outcome,
        Err(fault) => {
            log_error!(request, Error, "{fault} while reading a cached response");
            return Outcome::Status(Status::BAD_GATEWAY);
        }
    };
    if let Some(rate) = advice.limit_rate {
        request.own.get::<LimitRate>().set(rate);
    }
    if let Some((date, written)) = dated.zip(response.as_written.as_mut().map(Arc::make_mut))
        && !written.date
    {
        written.date = true;
        response.fields.push((Bytes::from_static(b"Date"), date));
    }
    offer(&mut response, shared.proxy_cache_rfc9111);
    // The whole body is here.
    response.single_range = false;
    response.body = if request.is_head() || matches!(status, 204 | 304) {
        Body::Source(Box::new(AnnouncedBody(announced)))
    } else {
        body()
    };
    Outcome::Response(response)
}
