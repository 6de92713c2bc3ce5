//! Makes the client's fields from an upstream server's head, for all members of the family.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::content::charsets;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{AsWritten, Body, Field, Response};
use freerun_proto::ascii::find_semicolon;
use freerun_proto::status::reason;
use freerun_proto::uri::unescape;
use freerun_proto::{HeaderId, Method, Status};

use crate::exchange::UpstreamHead;
use crate::exchange::family::{Advice, PassedHead};
use crate::exchange::fields::{HeadField, HeadFields, usual_type};
use crate::settings::FamilySettings;
use crate::settings::lists::{HiddenFields, Ignorable, KnownFields};

/// The fields that are instructions for this server; they are not passed on unless `pass_header` names them.
pub const HIDDEN: HiddenFields = HiddenFields {
    known: KnownFields::of(&[HeaderId::Date, HeaderId::Server]),
    others: &[
        b"X-Pad",
        b"X-Accel-Expires",
        b"X-Accel-Redirect",
        b"X-Accel-Limit-Rate",
        b"X-Accel-Buffering",
        b"X-Accel-Charset",
    ],
};

/// The fields of scripts behind FastCGI or SCGI that are not passed on unless `pass_header` names them.
pub const HIDDEN_CGI: HiddenFields = HiddenFields {
    known: KnownFields::of(&[]),
    others: &[
        b"Status",
        b"X-Accel-Expires",
        b"X-Accel-Redirect",
        b"X-Accel-Limit-Rate",
        b"X-Accel-Buffering",
        b"X-Accel-Charset",
    ],
};

/// The fields of applications behind uwsgi that are not passed on unless `pass_header` names them: `Status` is passed
/// on.
pub const HIDDEN_UWSGI: HiddenFields =
    HiddenFields { known: HIDDEN_CGI.known, others: HIDDEN_CGI.others.split_at(1).1 };

/// The changes that a member makes to the values of fields. `None`: the value is not changed.
pub trait Changes {
    /// The new value of `Location`.
    fn location(&self, _value: &[u8], _request: &Request) -> Option<Vec<u8>> {
        None
    }

    /// The new value of `Refresh`.
    fn refresh(&self, _value: &[u8], _request: &Request) -> Option<Vec<u8>> {
        None
    }

    /// The new value of `Set-Cookie`.
    fn cookie(&self, _value: &[u8], _request: &Request) -> Option<Vec<u8>> {
        None
    }
}

/// A member that changes no values.
pub struct AsItIs;

impl Changes for AsItIs {}

/// The fields that apply to this connection only.
const OF_CONNECTION: KnownFields =
    KnownFields::of(&[HeaderId::Connection, HeaderId::KeepAlive, HeaderId::TransferEncoding, HeaderId::ContentLength]);

/// Whether a response keeps this field when the request goes elsewhere inside the server.
fn is_carried(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::SetCookie
            | HeaderId::CacheControl
            | HeaderId::Expires
            | HeaderId::ContentDisposition
            | HeaderId::AcceptRanges
    )
}

/// The new value of a field, or its own.
fn changed(field: &HeadField<'_>, new: Option<Vec<u8>>) -> Bytes {
    new.map_or_else(|| field.keep_value(), Bytes::from)
}

/// Splits a `Content-Type` into the media type without parameters, and the character set of `charset=`.
pub fn content_type(text: &Bytes) -> (Bytes, Option<Bytes>) {
    let part = |part: &[u8]| match usual_type(part) {
        Some(usual) => Bytes::from_static(usual),
        None => text.slice_ref(part),
    };
    let Some(end) = find_semicolon(text) else {
        // The value of a kept field has no spaces around it.
        let media = text.trim_ascii();
        return (if media.len() == text.len() { text.clone() } else { part(media) }, None);
    };
    let media = part(text[..end].trim_ascii());
    let charset = text[end..].split(|byte| *byte == b';').map(<[u8]>::trim_ascii).find_map(|parameter| {
        let value =
            parameter.get(..8).filter(|name| name.eq_ignore_ascii_case(b"charset=")).map(|_| &parameter[8..])?;
        let value = value.strip_prefix(b"\"").map_or(value, |value| value.strip_suffix(b"\"").unwrap_or(value));
        Some(text.slice_ref(value))
    });
    (media, charset.filter(|charset| !charset.is_empty()))
}

/// The instructions for this server in the fields.
#[derive(Default)]
struct ServerInstructions {
    redirect: Option<Bytes>,
    /// The character set for a response that names none; an empty one: there is none, and none is to be added.
    charset: Option<Bytes>,
    advice: Advice,
    /// Whether `X-Accel-Expires` has come.
    expires: bool,
}

impl ServerInstructions {
    /// Reads an `X-Accel-…` field. Returns whether it counts only once, and has come before.
    fn hear(&mut self, family: &FamilySettings, field: &HeadField<'_>) -> bool {
        let Some(start) = field.name().get(..8).filter(|start| start.eq_ignore_ascii_case(b"X-Accel-")) else {
            return false;
        };
        let (rest, value) = (&field.name()[start.len()..], field.value());
        let is = |text: &[u8], which| rest.eq_ignore_ascii_case(text) && !family.ignores(which);
        if is(b"Redirect", Ignorable::XAccelRedirect) {
            // As in nginx the first field counts.
            self.redirect.get_or_insert_with(|| field.keep_value());
        } else if is(b"Charset", Ignorable::XAccelCharset) {
            self.charset = Some(field.keep_value());
        } else if is(b"Buffering", Ignorable::XAccelBuffering) {
            if value.eq_ignore_ascii_case(b"yes") {
                self.advice.buffering = Some(true);
            } else if value.eq_ignore_ascii_case(b"no") {
                self.advice.buffering = Some(false);
            }
        } else if is(b"Limit-Rate", Ignorable::XAccelLimitRate) {
            let rate = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            self.advice.limit_rate = rate.or(self.advice.limit_rate);
        } else if rest.eq_ignore_ascii_case(b"Expires") {
            // What it says is for the cache.
            return std::mem::replace(&mut self.expires, true);
        }
        false
    }
}

/// The character set of `X-Accel-Charset`; an empty one if the configuration does not name it.
#[cold]
fn known_charset(request: &Request, charset: Bytes) -> Bytes {
    if charsets::is_known(request, &charset) {
        return charset;
    }
    log_error!(request, Error, "unknown charset \"{}\" to override", text_of(&charset));
    Bytes::new()
}

/// Logs that a field that counts only once has come again.
#[cold]
fn repeated(request: &Request, fields: &HeadFields, field: &HeadField<'_>) {
    let shown = |field: &HeadField<'_>| format!("{}: {}", text_of(field.name()), text_of(field.value()));
    let first = fields.iter().find(|first| first.name().eq_ignore_ascii_case(field.name()));
    log_error!(
        request,
        Warn,
        "upstream sent duplicate header line: \"{}\", previous value: \"{}\", ignored while {}",
        shown(field),
        first.as_ref().map(shown).unwrap_or_default(),
        "reading response header from upstream"
    );
}

/// Makes the client's response of a head, without its body. `always` names the fields that are hidden by default.
pub fn respond(
    request: &mut Request,
    family: &FamilySettings,
    always: &HiddenFields,
    changes: &dyn Changes,
    head: UpstreamHead,
) -> PassedHead {
    let mut told = ServerInstructions::default();
    // Of these fields the first counts; those that are hidden do not matter.
    let mut seen = KnownFields::default();
    let mut written = AsWritten { status: head.status, reason: head.reason, ..AsWritten::default() };
    let mut response = Response::new(Status::new(head.status), Bytes::new(), Body::Empty);
    let completes = request.settings().get::<CoreSettings>().absolute_redirect;
    let names_fields = family.names_fields();
    let forces_ranges = family.proxy_force_ranges;
    for field in head.fields.iter() {
        let id = field.id;
        if OF_CONNECTION.has(id) {
            continue;
        }
        if id == HeaderId::Other && told.hear(family, &field) {
            repeated(request, &head.fields, &field);
            continue;
        }
        // The filter of ranges adds the field later, if ranges are supported.
        let told_later = forces_ranges && id == HeaderId::AcceptRanges;
        let hidden = match id {
            HeaderId::Other => family.hides(id, field.name(), always),
            id if names_fields => family.hides(id, field.name(), always),
            id => always.known.has(id),
        };
        if told_later || hidden {
            continue;
        }
        let value = match id {
            HeaderId::ContentType
            | HeaderId::Etag
            | HeaderId::Expires
            | HeaderId::LastModified
            | HeaderId::Location
            | HeaderId::Refresh
                if !seen.insert(id) =>
            {
                repeated(request, &head.fields, &field);
                continue;
            }
            HeaderId::ContentType => {
                written.content_type = field.keep_value();
                continue;
            }
            HeaderId::AcceptRanges => {
                written.accept_ranges = true;
                field.keep_value()
            }
            HeaderId::Date => {
                written.date = true;
                field.keep_value()
            }
            HeaderId::Etag if !field.value().is_empty() => {
                response.etag = Some(field.keep_value());
                response.fields.push_own(field.keep_name());
                continue;
            }
            HeaderId::Server => {
                written.server = true;
                field.keep_value()
            }
            HeaderId::Refresh => changed(&field, changes.refresh(field.value(), request)),
            HeaderId::Location => match changes.location(field.value(), request) {
                Some(new) if completes && new.starts_with(b"/") => {
                    // It is made an absolute URL, in the place where this server's own would be.
                    response.location = Some(new.into());
                    continue;
                }
                new => changed(&field, new),
            },
            HeaderId::SetCookie => changed(&field, changes.cookie(field.value(), request)),
            HeaderId::LastModified => {
                // Any other form of the same time stays as it was written.
                match request.client.loop_state.clock.time_of(field.value()) {
                    Some(time) => {
                        response.last_modified = Some(time);
                        response.fields.push_own(field.keep_name());
                        continue;
                    }
                    None => field.keep_value(),
                }
            }
            _ => field.keep_value(),
        };
        response.fields.push((field.keep_name(), value));
    }
    if names_fields {
        // As in nginx, this server adds none of its own in place of a field that is passed on but was not sent.
        let passed = |id: HeaderId| always.known.has(id) && !family.hides(id, id.name().as_bytes(), always);
        written.server |= passed(HeaderId::Server);
        written.date |= passed(HeaderId::Date);
    }
    let charset = told.charset.filter(|charset| !charset.is_empty());
    told.charset = charset.map(|charset| known_charset(request, charset));
    if let Some(uri) = told.redirect {
        let carried = head.fields.iter().filter(|field| is_carried(field.id)).map(|field| field.keep()).collect();
        // The type is passed on to the other URI even if it is hidden from the client, as in nginx.
        let media = head.fields.iter().find(|field| field.id == HeaderId::ContentType);
        let media = media.map(|field| field.keep_value()).unwrap_or_default();
        return PassedHead::Elsewhere(elsewhere(request, &uri, media, told.charset, carried, told.advice));
    }
    (response.content_type, response.charset) = content_type(&written.content_type);
    written.read_as = (response.content_type.clone(), response.charset.clone());
    if let Some(charset) = told.charset {
        if response.charset.is_none() {
            response.charset = Some(charset.clone());
        }
        written.charset = Some(charset);
    }
    response.ranges = forces_ranges && head.status == 200;
    response.single_range = forces_ranges;
    response.as_written = Some(share(written));
    PassedHead::Response(response, told.advice)
}

thread_local! {
    /// The value with only usual texts that was shared last.
    static USUAL: RefCell<Option<Arc<AsWritten>>> = const { RefCell::new(None) };
}

/// Puts the value where responses share it: reuses the one before, if it is the same.
fn share(written: AsWritten) -> Arc<AsWritten> {
    USUAL.with_borrow_mut(|usual| match usual {
        Some(usual) if is_same(usual, &written) => usual.clone(),
        _ => {
            let is_usual = usual_type(&written.content_type).is_some()
                && *written.reason == *reason(written.status).as_bytes()
                && written.charset.is_none();
            let written = Arc::new(written);
            if is_usual {
                *usual = Some(written.clone());
            }
            written
        }
    })
}

/// Whether both have the same usual texts, at the same addresses. The parsed parts of a `Content-Type` follow from its
/// text.
#[inline]
fn is_same(usual: &AsWritten, written: &AsWritten) -> bool {
    let text = |text: &Bytes| (text.as_ptr(), text.len());
    let facts =
        |one: &AsWritten| (one.status, one.server, one.date, one.accept_ranges, one.conditions, one.charset.is_some());
    text(&usual.content_type) == text(&written.content_type)
        && text(&usual.reason) == text(&written.reason)
        && facts(usual) == facts(written)
}

/// Follows `X-Accel-Redirect`: the request goes on there, and some of the response's fields go with it. A URI is
/// requested with GET; a named location gets the request unchanged.
#[cold]
fn elsewhere(
    request: &mut Request,
    uri: &[u8],
    media: Bytes,
    charset: Option<Bytes>,
    carried: Vec<Field>,
    advice: Advice,
) -> Outcome {
    let target = if uri.starts_with(b"@") {
        Outcome::Named(text_of(uri).into_owned())
    } else {
        let mark = uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len());
        let path = unescape(&uri[..mark]);
        if is_unsafe(&path) {
            log_error!(
                request,
                Error,
                "unsafe URI \"{}\" was detected while reading response header from upstream",
                text_of(uri)
            );
            Outcome::Status(Status::NOT_FOUND)
        } else {
            if request.asked.method != Method::Head {
                request.asked.method = Method::Get;
            }
            Outcome::Redirect(path.into_owned(), uri.get(mark + 1..).map(<[u8]>::to_vec))
        }
    };
    if !media.is_empty() && !matches!(target, Outcome::Status(_)) {
        let (media, own) = content_type(&media);
        request.answered.carried.content_type = Some((media, own.or(charset)));
    }
    request.answered.carried.fields.extend(carried);
    if let Some(rate) = advice.limit_rate {
        request.own.get::<freerun_http::settings::rate::LimitRate>().set(rate);
    }
    target
}

/// Whether a path leads outside of the root, or is not a path.
fn is_unsafe(path: &[u8]) -> bool {
    !path.starts_with(b"/") || path.contains(&0) || path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_lose_their_parameters() {
        for (text, media, charset) in [
            ("text/html", "text/html", None),
            ("text/html; charset=koi8-r", "text/html", Some("koi8-r")),
            ("text/html;Charset=\"UTF-8\"", "text/html", Some("UTF-8")),
            ("multipart/x; boundary=a; charset=b", "multipart/x", Some("b")),
            ("text/html; level=1", "text/html", None),
            ("text/html; charset=", "text/html", None),
            ("", "", None),
            (";", "", None),
        ] {
            let (got, set) = content_type(&Bytes::from_static(text.as_bytes()));
            assert_eq!((&got[..], set.as_deref()), (media.as_bytes(), charset.map(str::as_bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_hidden_by_itself_is_looked_for() {
        for name in HIDDEN.others.iter().chain(HIDDEN_CGI.others) {
            assert_eq!(HeaderId::of(name), HeaderId::Other, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn paths_that_lead_outside_are_unsafe() {
        for (path, want) in [
            ("/a/b", false),
            ("/a/../b", true),
            ("/..", true),
            ("/a..b/", false),
            ("a", true),
            ("", true),
            ("/a\0", true),
        ] {
            assert_eq!(is_unsafe(path.as_bytes()), want, "{path}");
        }
    }
}
