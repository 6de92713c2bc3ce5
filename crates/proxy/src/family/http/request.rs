//! The head of the request that is passed on.

use std::borrow::Cow;
use std::io::Write;

use freerun_http::request::Request;
use freerun_proto::encode::{field, push_number};
use freerun_proto::{HeaderId, Method};

use crate::exchange::http1::SentBody;
use crate::exchange::{BodyPlan, Fault, To};
use crate::family::http::settings::{HttpSettings, HttpVersion};
use crate::settings::FamilySettings;
use crate::state::cache_fetch;
use crate::state::cache_fetch::CacheFetch;

/// The method that is sent: `proxy_method`, or the request's.
pub fn method<'r>(settings: &'r HttpSettings, request: &'r Request) -> Cow<'r, [u8]> {
    let set = settings.proxy_method.as_ref().map(|method| method.render(request)).filter(|method| !method.is_empty());
    set.unwrap_or_else(|| {
        let head = &request.head;
        Cow::Borrowed(match own_method(request) {
            // Of a line that is not understood, only the method is known, for its error page.
            method if method == head.method() && head.is_understood() => head.method_text(),
            method => method.as_str().unwrap_or("GET").as_bytes(),
        })
    })
}

/// What the method that is sent is known as.
pub fn known_method(settings: &HttpSettings, request: &Request) -> Method {
    match settings.proxy_method {
        Some(_) => Method::of(&method(settings, request)),
        None => own_method(request),
    }
}

/// The request's method, or what it is passed on as.
fn own_method(request: &Request) -> Method {
    match request.asked.method {
        Method::Head if CacheFetch::of(request).is_some_and(|asking| asking.as_get.get()) => Method::Get,
        // One that nobody knows is only ever the client's own.
        Method::Other if request.head.method() != Method::Other => Method::Get,
        method => method,
    }
}

/// Whether a method may be sent twice: RFC 9110 section 9.2.2, with nginx's list of those that may not.
pub fn is_idempotent(method: Method) -> bool {
    !matches!(method, Method::Post | Method::Lock | Method::Patch)
}

/// Whether it can be a method: RFC 9110 section 5.6.2.
fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// Fields of the client that are about its connection with us, or that this server says itself.
fn is_of_connection(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Host
            | HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ContentLength
            | HeaderId::TransferEncoding
            | HeaderId::Te
            | HeaderId::Expect
            | HeaderId::Upgrade
    )
}

/// Appends the head. How the body is delimited is decided here, and nowhere else: what is set for it, and what the client
/// had said, do not count.
///
/// # Errors
/// `proxy_method` gave what is no method.
pub fn write_head(
    settings: &HttpSettings,
    family: &FamilySettings,
    request: &Request,
    to: &To<'_>,
    body: BodyPlan,
    out: &mut Vec<u8>,
) -> Result<SentBody, Fault> {
    let method = method(settings, request);
    // The request's own was looked at as it was read.
    if settings.proxy_method.is_some() && !is_token(&method) {
        let text = String::from_utf8_lossy(&method);
        return Err(Fault::Request(format!("invalid method \"{text}\" to be sent to upstream").into()));
    }
    out.extend_from_slice(&method);
    out.push(b' ');
    out.extend_from_slice(&to.target.uri);
    out.extend_from_slice(match settings.proxy_http_version {
        HttpVersion::Http10 => b" HTTP/1.0\r\n",
        HttpVersion::Http11 => b" HTTP/1.1\r\n",
    });
    let set = &settings.proxy_set_header;
    set.iter().for_each(|item| item.append(request, out));
    if !set.has(HeaderId::Host) {
        match settings.proxy_pass.as_ref().and_then(|pass| pass.assigned_host(request)) {
            None => field(out, b"Host", &to.target.whom().host),
            // As of any field that is set, nothing is sent of one without a value.
            Some(value) => value.filter(|value| !value.is_empty()).iter().for_each(|value| field(out, b"Host", value)),
        }
    }
    let sent = announce(body, || lengthless(settings, request), out);
    let asking = CacheFetch::of(request);
    if let Some(asking) = &asking {
        asking.with_validators(|id, value| {
            if !set.has(id) {
                field(out, id.name().as_bytes(), value);
            }
        });
    }
    if family.proxy_pass_request_headers {
        for one in request.head.fields() {
            let left_out = is_of_connection(one.id) || asking.is_some() && cache_fetch::is_about_parts(one.id);
            if !left_out && !set.replaces(one.id, one.name) {
                field(out, one.name, one.value);
            }
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(sent)
}

/// Appends the field that announces the body. `empty`: whether a body of no bytes is announced.
fn announce(body: BodyPlan, empty: impl FnOnce() -> bool, out: &mut Vec<u8>) -> SentBody {
    match body {
        BodyPlan::Unknown => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            return SentBody::Chunked;
        }
        BodyPlan::Length(length) => length_field(length, out),
        BodyPlan::None if empty() => length_field(0, out),
        BodyPlan::None => {}
    }
    SentBody::Plain
}

fn length_field(length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    push_number(out, length);
    let _ = out.write_all(b"\r\n");
}

/// Whether the length of a body that is not there is told: where the client has told one, and no `proxy_set_header` takes it
/// away.
fn lengthless(settings: &HttpSettings, request: &Request) -> bool {
    request.body.declared_length().is_some() && !settings.proxy_set_header.has(HeaderId::ContentLength)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_tokens() {
        for (text, want) in [("GET", true), ("M-SEARCH", true), ("", false), ("get x", false), ("A\r\n", false)] {
            assert_eq!(is_token(text.as_bytes()), want, "{text}");
        }
        for (text, want) in [("PUT", true), ("FOO", true), ("POST", false), ("PATCH", false)] {
            assert_eq!(is_idempotent(Method::of(text.as_bytes())), want, "{text}");
        }
    }

    #[test]
    fn a_body_is_announced_once() {
        for (body, empty, want, sent) in [
            (BodyPlan::None, false, "", SentBody::Plain),
            (BodyPlan::None, true, "Content-Length: 0\r\n", SentBody::Plain),
            (BodyPlan::Length(3), true, "Content-Length: 3\r\n", SentBody::Plain),
            (BodyPlan::Unknown, true, "Transfer-Encoding: chunked\r\n", SentBody::Chunked),
        ] {
            let mut out = Vec::new();
            assert_eq!(announce(body, || empty, &mut out), sent);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }
}
