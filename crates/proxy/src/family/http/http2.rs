//! The head of a request that is passed on over HTTP/2: the pseudo-fields and the fields (RFC 9113 section 8.3).

use freerun_http::request::Request;
use freerun_proto::HeaderId;
use freerun_proto::encode::push_number;
use freerun_upstream::http2::head::is_of_connection;
use freerun_upstream::http2::record::RequestHead;

use crate::exchange::{BodyPlan, Fault, To};
use crate::family::http::request::{announces_nothing, client_fields, method, token};
use crate::family::http::settings::HttpSettings;
use crate::settings::FamilySettings;
use crate::state::cache_fetch::CacheFetch;

/// Whether a field that is set may be sent. What says something about a connection has no meaning in HTTP/2, `Host` has become
/// `:authority`, and only this server frames the body. `TE` may have one value (RFC 9113 section 8.2.2).
pub fn may_be_sent(id: HeaderId, name: &[u8], value: &[u8]) -> bool {
    match id {
        HeaderId::Host | HeaderId::ContentLength => false,
        HeaderId::Te => value.trim_ascii().eq_ignore_ascii_case(b"trailers"),
        id => !name.is_empty() && !value.is_empty() && !is_of_connection(id, name),
    }
}

/// Writes the fields of the request's head.
///
/// # Errors
/// The value of `proxy_method` is not a method.
pub fn write_fields(
    settings: &HttpSettings,
    family: &FamilySettings,
    request: &Request,
    to: &To<'_>,
    body: BodyPlan,
    head: &mut RequestHead<'_>,
) -> Result<(), Fault> {
    let method = method(settings, request);
    token(settings, &method)?;
    let whom = to.target.whom();
    head.field(b":method", &method);
    head.field(b":scheme", if whom.is_secure { b"https" } else { b"http" });
    let set = &settings.proxy_set_header;
    let hosts = set.iter().filter(|item| HeaderId::of(&item.name) == HeaderId::Host);
    let named = hosts.map(|item| item.value.render(request)).find(|value| !value.is_empty());
    let assigned = || settings.proxy_pass.as_ref().and_then(|pass| pass.assigned_host(request)).flatten();
    match named {
        Some(host) => head.field(b":authority", &host),
        // There always is one, even if `Host` is set to nothing.
        None => match assigned().filter(|value| !value.is_empty()) {
            Some(host) => head.field(b":authority", &host),
            None => head.field(b":authority", &whom.host),
        },
    }
    head.field(b":path", if to.target.uri.is_empty() { b"/" } else { &to.target.uri });
    for item in set.iter() {
        let (id, value) = (HeaderId::of(&item.name), item.value.render(request));
        if may_be_sent(id, &item.name, &value) {
            head.field(&item.name, &value);
        }
    }
    let length = match body {
        BodyPlan::Length(length) => Some(length),
        BodyPlan::None if announces_nothing(&settings.proxy_set_header, request) => Some(0),
        BodyPlan::None | BodyPlan::Unknown => None,
    };
    if let Some(length) = length {
        let mut text = Vec::new();
        push_number(&mut text, length);
        head.field(b"content-length", &text);
    }
    if let Some(asking) = CacheFetch::of(request) {
        asking.with_validators(|id, value| {
            if !set.has(id) {
                head.field(id.name().as_bytes(), value);
            }
        });
    }
    client_fields(set, family, request, |id, name, value| {
        if may_be_sent(id, name, value) {
            head.field(name, value);
        }
    });
    Ok(())
}
