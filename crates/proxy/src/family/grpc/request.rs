//! The head of a call that is passed on.

use freerun_http::request::Request;
use freerun_proto::HeaderId;
use freerun_proto::encode::field;

use crate::exchange::http1::SentBody;
use crate::exchange::{BodyPlan, Fault, To};
use crate::family::grpc::settings::GrpcSettings;
use crate::family::http::request::{announce, announces_nothing, is_of_connection, own_method_text};

/// Appends the head: the request line, the fields of the configuration, those of this server, and the client's.
///
/// # Errors
/// There are none.
pub fn write_head(
    settings: &GrpcSettings,
    request: &Request,
    to: &To<'_>,
    body: BodyPlan,
    out: &mut Vec<u8>,
) -> Result<SentBody, Fault> {
    out.extend_from_slice(own_method_text(request));
    out.push(b' ');
    out.extend_from_slice(&to.target.uri);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let set = &settings.grpc_set_header;
    set.iter().for_each(|item| item.append(request, out));
    if !set.has(HeaderId::Host) {
        field(out, b"Host", &to.target.whom().host);
    }
    let sent = announce(body, || announces_nothing(set, request), out);
    if !set.has(HeaderId::Te) && request.head.values(HeaderId::Te).any(names_trailers) {
        field(out, b"TE", b"trailers");
    }
    for one in request.head.fields() {
        if !is_of_connection(one.id) && !set.replaces(one.id, one.name) {
            field(out, one.name, one.value);
        }
    }
    out.extend_from_slice(b"\r\n");
    Ok(sent)
}

/// Whether a value of `TE` names `trailers` (RFC 9110 section 10.1.4).
fn names_trailers(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
