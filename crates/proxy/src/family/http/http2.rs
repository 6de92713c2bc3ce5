//! The head of a request that is passed on over HTTP/2 or HTTP/3: the pseudo-fields and the fields (RFC 9113 section 8.3, RFC 9114
//! section 4.3).

use std::borrow::Cow;

use freerun_http::request::Request;
use freerun_proto::HeaderId;
use freerun_proto::ascii::{TOKEN, class};
use freerun_proto::encode::push_number;
use freerun_upstream::exchange::record::RequestHead;

use crate::exchange::{BodyPlan, Fault, To};
use crate::family::http::request::{client_fields, lengthless, method, token};
use crate::family::http::settings::{HttpSettings, SetHeaders};
use crate::settings::FamilySettings;
use crate::state::cache_fetch::CacheFetch;

/// Whether a field may be sent. A field about a connection has no meaning there, `Host` has become `:authority`,
/// and only this server frames the body. `TE` may have one value (RFC 9113 section 8.2.2). A block of fields cannot
/// have a name that is no token, least of all a name that looks like a pseudo-field.
pub fn may_be_sent(id: HeaderId, name: &[u8], value: &[u8]) -> bool {
    match id {
        HeaderId::Host | HeaderId::ContentLength => false,
        HeaderId::Te => value.trim_ascii().eq_ignore_ascii_case(b"trailers"),
        HeaderId::Other if name.is_empty() || name.iter().any(|byte| class(*byte) & TOKEN == 0) => false,
        id => !id.is_of_connection(),
    }
}

/// Writes the pseudo-fields and the fields that the configuration sets. `assigned` is the name of the server where the
/// configuration has assigned one; a `Host` that is set comes before it.
pub fn write_start<'r>(
    method: &[u8],
    to: &To<'_>,
    set: &SetHeaders,
    request: &'r Request,
    assigned: impl FnOnce() -> Option<Cow<'r, [u8]>>,
    head: &mut RequestHead<'_>,
) {
    let upstream = to.target.upstream();
    head.field(b":method", method);
    head.field(b":scheme", if upstream.is_secure { b"https" } else { b"http" });
    let hosts = set.iter().filter(|item| HeaderId::of(&item.name) == HeaderId::Host);
    let named = hosts.map(|item| item.value.render(request)).find(|value| !value.is_empty());
    match named {
        Some(host) => head.field(b":authority", &host),
        // There always is one, even if `Host` is set to nothing.
        None => match assigned().filter(|value| !value.is_empty()) {
            Some(host) => head.field(b":authority", &host),
            None => head.field(b":authority", &upstream.host),
        },
    }
    head.field(b":path", if to.target.uri.is_empty() { b"/" } else { &to.target.uri });
    for item in set.iter() {
        let (id, value) = (HeaderId::of(&item.name), item.value.render(request));
        if !value.is_empty() && may_be_sent(id, &item.name, &value) {
            head.field(&item.name, &value);
        }
    }
}

/// Writes the fields about the body and the trailers: `Content-Length`, if the length is known, and `TE`, if the client
/// has sent it. `TE` is for every hop: each says for itself whether it takes trailers.
pub fn write_length(body: BodyPlan, set: &SetHeaders, request: &Request, head: &mut RequestHead<'_>) {
    let length = match body {
        BodyPlan::Length(length) => Some(length),
        BodyPlan::None if lengthless(set, request) => Some(0),
        BodyPlan::None | BodyPlan::Unknown => None,
    };
    if let Some(length) = length {
        let mut text = Vec::new();
        push_number(&mut text, length);
        head.field(b"content-length", &text);
    }
    if !set.has(HeaderId::Te) && request.head.values(HeaderId::Te).any(names_trailers) {
        head.field(b"te", b"trailers");
    }
}

/// Whether a value of `TE` names `trailers` (RFC 9110 section 10.1.4).
fn names_trailers(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Writes the client's own fields, as far as they are passed on.
pub fn write_client_fields(set: &SetHeaders, family: &FamilySettings, request: &Request, head: &mut RequestHead<'_>) {
    client_fields(set, family, request, |id, name, value| {
        if may_be_sent(id, name, value) {
            head.field(name, value);
        }
    });
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
    let set = &settings.proxy_set_header;
    let assigned = || settings.proxy_pass.as_ref().and_then(|pass| pass.assigned_host(request)).flatten();
    write_start(&method, to, set, request, assigned, head);
    write_length(body, set, request, head);
    if let Some(asking) = CacheFetch::of(request) {
        asking.with_validators(|id, value| {
            if !set.has(id) {
                head.field(id.name().as_bytes(), value);
            }
        });
    }
    write_client_fields(set, family, request, head);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_in_http2_is_left_out() {
        for (name, value, want) in [
            ("X-A", "b", true),
            ("x_a.b", "b", true),
            ("Cookie", "a=b", true),
            ("X-A", "", true),
            ("", "b", false),
            (":path", "/other", false),
            ("a:b", "c", false),
            ("X Y", "z", false),
            ("X\r\nY", "z", false),
            ("Host", "b", false),
            ("Content-Length", "77", false),
            ("Connection", "upgrade", false),
            ("Keep-Alive", "timeout=5", false),
            ("Proxy-Connection", "keep-alive", false),
            ("Transfer-Encoding", "chunked", false),
            ("Upgrade", "websocket", false),
            ("TE", "trailers", true),
            ("TE", "gzip", false),
            ("TE", "", false),
        ] {
            let id = HeaderId::of(name.as_bytes());
            assert_eq!(may_be_sent(id, name.as_bytes(), value.as_bytes()), want, "{name}: {value}");
        }
    }

    #[test]
    fn trailers_are_one_of_the_members_of_te() {
        for (value, want) in [
            ("trailers", true),
            ("deflate;q=0.5, Trailers", true),
            ("trailers;q=1", false),
            ("gzip", false),
            ("trailersx", false),
            ("", false),
        ] {
            assert_eq!(names_trailers(value.as_bytes()), want, "{value}");
        }
    }
}
