//! The parts of an access log line that are written directly from the request, without a value in between.

use freerun_http::request::Request;
use freerun_http::variables::Reference;
use freerun_proto::{HeaderId, Version};
use freerun_serve::logs::access_log::{COMBINED, JSON, LogLine, ProtocolPieces, Style, push_millis};

/// A part of a line.
#[derive(Debug)]
pub enum RequestPiece {
    /// The user name; the reference is for requests with credentials.
    RemoteUser(Reference),
    /// The value of `$request_time`.
    RequestTime,
    /// The value of `$status`.
    Status,
    /// The value of `$bytes_sent`.
    BytesSent,
    /// The value of `$body_bytes_sent`.
    BodyBytesSent,
    /// The value of `$request_length`.
    RequestLength,
    /// The value of `$connection`.
    Connection,
    /// The value of `$connection_requests`.
    ConnectionRequests,
    /// The value of `$request`.
    RequestLine,
    /// The value of `$http_…` for a field that the parser knows; the reference is for a request with several of them.
    Header(HeaderId, Reference),
}

impl ProtocolPieces<Request> for RequestPiece {
    const PREDEFINED: &'static [(&'static str, &'static str)] = &[("combined", COMBINED)];
    const PRESETS: &'static [(&'static str, &'static str)] = &[("json", JSON)];

    fn of(name: &str, reference: Reference) -> Result<RequestPiece, Reference> {
        Ok(match name {
            "remote_user" => RequestPiece::RemoteUser(reference),
            "request_time" => RequestPiece::RequestTime,
            "status" => RequestPiece::Status,
            "bytes_sent" => RequestPiece::BytesSent,
            "body_bytes_sent" => RequestPiece::BodyBytesSent,
            "request_length" => RequestPiece::RequestLength,
            "connection" => RequestPiece::Connection,
            "connection_requests" => RequestPiece::ConnectionRequests,
            "request" => RequestPiece::RequestLine,
            _ => {
                let field = name.strip_prefix("http_").map(|field| HeaderId::of(field.replace('_', "-").as_bytes()));
                match field {
                    None | Some(HeaderId::Other) => return Err(reference),
                    Some(id) => RequestPiece::Header(id, reference),
                }
            }
        })
    }

    #[inline(always)]
    fn push(&self, request: &Request, style: &Style, line: &mut LogLine<'_>) {
        match self {
            RequestPiece::RemoteUser(reference) => {
                if request.head.has(request.authorization()) {
                    style.push_variable(reference, request, line)
                } else {
                    style.push_missing(line)
                }
            }
            RequestPiece::RequestTime => {
                let took = request.arrival.started.elapsed();
                push_millis(took.as_secs(), took.subsec_millis(), line);
            }
            RequestPiece::Status => line.push_three(u32::from(request.sent.code())),
            RequestPiece::BytesSent => line.push_number(request.sent.bytes),
            RequestPiece::BodyBytesSent => line.push_number(request.sent.body_bytes),
            RequestPiece::RequestLength => {
                line.push_number(u64::from(request.head.told_len()) + request.body.length());
            }
            RequestPiece::Connection => line.push_number(request.client.number),
            RequestPiece::ConnectionRequests => line.push_number(request.arrival.serial),
            RequestPiece::RequestLine => match request.head.request_line() {
                // Invalid fields of HTTP/2 give no request line. HTTP/1 has its line, though no request came of it.
                [] if request.head.version() >= Version::Http2 => style.push_missing(line),
                request_line => style.push_value(request_line, line),
            },
            RequestPiece::Header(id, _) if !request.head.has(*id) => style.push_missing(line),
            RequestPiece::Header(id, reference) => {
                let mut values = request.head.values(*id);
                match (values.next(), values.next()) {
                    (Some(value), None) => style.push_value(value, line),
                    _ => style.push_variable(reference, request, line),
                }
            }
        }
    }
}
