//! Errors of this server's own in the terms of gRPC, for calls of its clients (`grpc_errors`).
//!
//! <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>

use std::num::NonZeroU16;

use bytes::Bytes;
use freerun_proto::{HeaderId, status};

use crate::request::Request;
use crate::request::response::{Body, LateTrailers, Response};
use crate::settings::grpc_errors::GrpcErrorSettings;

/// The media type of calls and their responses.
const MEDIA_TYPE: &[u8] = b"application/grpc";

/// The status of a response whose result is in the fields of gRPC.
const OK: NonZeroU16 = NonZeroU16::new(200).unwrap();

/// Whether the response is an error page of this server's own that becomes an error in the terms of gRPC.
#[inline]
pub fn applies(request: &Request, response: &Response) -> bool {
    response.special
        && response.status.code() >= 400
        && request.client.is_multiplexed()
        && !request.is_subrequest()
        && request.head.value(HeaderId::ContentType).is_some_and(is_call)
        && request.settings().get::<GrpcErrorSettings>().grpc_errors
}

/// Whether this is the media type of a call of gRPC, whatever its messages are encoded in. gRPC-Web has another one.
fn is_call(media_type: &[u8]) -> bool {
    let Some((start, rest)) = media_type.split_at_checked(MEDIA_TYPE.len()) else { return false };
    start.eq_ignore_ascii_case(MEDIA_TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Takes the page out of the response, before the filters see it.
pub fn clear(response: &mut Response) {
    (response.content_type, response.charset) = (Bytes::from_static(MEDIA_TYPE), None);
    response.body = Body::Empty;
    response.no_length = true;
}

/// Adds the result, unless the configuration has added its own, and makes the response one whose head is all of it.
pub fn tell(response: &mut Response) {
    let sent = status::sent_code(response.status.code());
    if response.field(b"grpc-status").is_none() {
        response.add(&b"grpc-status"[..], code(sent).to_string());
        if response.field(b"grpc-message").is_none() {
            response.add(&b"grpc-message"[..], message(sent));
        }
    }
    response.trailers.clear();
    response.late_trailers = LateTrailers::default();
    response.told_as = Some(OK);
}

/// The result of a call that has ended with this status of HTTP.
fn code(status: u16) -> u8 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 => 14,
        // Clients may try a call again that was not available, but this one may have been done.
        504 => 4,
        _ => 2,
    }
}

/// The status with its reason, which has no characters that would have to be escaped.
fn message(status: u16) -> Bytes {
    match status::status_text(status) {
        Some(text) => Bytes::from_static(text.as_bytes()),
        None => status.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use freerun_proto::Status;

    use super::*;

    #[test]
    fn calls_are_known_by_their_media_type() {
        for (media_type, want) in [
            ("application/grpc", true),
            ("Application/gRPC", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc ; x=y", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(is_call(media_type.as_bytes()), want, "{media_type}");
        }
    }

    #[test]
    fn an_error_becomes_the_whole_response() {
        for (status, code, text) in [
            (400, "13", "400 Bad Request"),
            (401, "16", "401 Unauthorized"),
            (403, "7", "403 Forbidden"),
            (404, "12", "404 Not Found"),
            (413, "2", "413 Request Entity Too Large"),
            (429, "14", "429 Too Many Requests"),
            (500, "2", "500 Internal Server Error"),
            (502, "14", "502 Bad Gateway"),
            (503, "14", "503 Service Temporarily Unavailable"),
            (504, "4", "504 Gateway Time-out"),
            // These are never sent as they are.
            (494, "13", "400 Bad Request"),
            (497, "13", "400 Bad Request"),
            (599, "2", "599"),
        ] {
            let mut response = Response::new(Status::new(status), &b"text/html"[..], Body::Bytes("page".into()));
            response.special = true;
            clear(&mut response);
            response.trailers.push(("a".into(), "b".into()));
            tell(&mut response);
            let field = |name| response.field(name).map(|value| String::from_utf8_lossy(value).into_owned());
            assert_eq!(field(b"grpc-status").as_deref(), Some(code), "{status}");
            assert_eq!(field(b"grpc-message").as_deref(), Some(text), "{status}");
            assert_eq!((response.status, response.told_as), (Status::new(status), Some(OK)));
            assert!(response.body.is_empty() && response.no_length && !response.has_trailers());
            assert_eq!(response.content_type, MEDIA_TYPE);
        }
    }

    #[test]
    fn a_result_of_the_configuration_stays() {
        let mut response = Response::new(Status::SERVICE_UNAVAILABLE, &b"text/html"[..], Body::Empty);
        response.add(&b"Grpc-Status"[..], &b"8"[..]);
        tell(&mut response);
        assert_eq!(response.field(b"grpc-status"), Some(&Bytes::from_static(b"8")));
        assert_eq!(response.field(b"grpc-message"), None);
    }
}
