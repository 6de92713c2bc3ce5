//! The first look at a request: its path in normal form, its virtual server, and the methods that are never served.

use std::borrow::Cow;

use freerun_proto::h1::CloseReason;
use freerun_proto::{BodyFraming, Method, Status, TargetSpans, Version, uri};

use crate::log_error;
use crate::message::scratch::RequestScratch;
use crate::request::generation::Servers;
use crate::request::{Head, Request};

/// Normalises the path, and then chooses the server by name. In this order a wrong path is an error of the default
/// server, as in nginx, which parses the fields later. If the head is not `whole`, because one of its fields is wrong,
/// and no host has been seen yet, the default server stays chosen, too. The server named "" is for requests without a
/// host.
pub fn route_server(
    request: &mut Request,
    servers: &Servers,
    whole: bool,
    merge_slashes: bool,
    scratch: &mut RequestScratch,
) -> Result<(), Status> {
    let Head { buffer, parsed } = &mut request.head;
    match uri::normalise(parsed.target.uri(buffer), merge_slashes) {
        Ok(uri) => {
            request.asked.path = match uri.path {
                Cow::Borrowed(path) => scratch.path(path),
                Cow::Owned(path) => path,
            };
            request.asked.args = uri.args.filter(|args| !args.is_empty()).map(|args| scratch.args(args));
        }
        Err(error) => {
            parsed.forget_fields();
            // What is not understood is no URI: `$request_uri` has no value.
            parsed.target = TargetSpans::UNKNOWN;
            let line = parsed.request_line;
            let end = if buffer.get(line.end as usize) == Some(&b'\r') { 2 } else { 1 };
            parsed.len = line.end + end;
            let is_line = parsed.version < Version::Http2;
            let what = if is_line { "line" } else { "headers" };
            log_error!(request, Info, "client sent invalid request while reading client request {what}");
            return Err(error.status());
        }
    }
    request.asked.host = parsed.host.map(|host| scratch.host(host, buffer));
    if !servers.names.is_empty() && (whole || request.asked.host.is_some()) {
        let host = request.asked.host.as_deref().unwrap_or_default();
        match servers.names.find(host, &request.captures) {
            Ok(Some(server)) => {
                request.place.location = request.generation.location(&server.entry);
                request.place.server = request.generation.server(server);
            }
            Ok(None) if request.place.server.is(&servers.default) => {}
            // The server that was named in the TLS handshake does not answer for other hosts.
            Ok(None) => {
                request.place.location = request.generation.location(&servers.default.entry);
                request.place.server = request.generation.server(&servers.default);
            }
            Err(error) => {
                log_error!(request, Alert, "{error} on \"{host}\"");
                return Err(Status::INTERNAL_SERVER_ERROR);
            }
        }
    }
    Ok(())
}

/// Refuses a request for a server that does not speak its version of HTTP: another server has let the client use it (421,
/// RFC 9110 section 15.5.20).
pub fn judge_protocol(request: &Request, servers: &Servers) -> Result<(), Status> {
    if !servers.protocols(&request.place.server).has(request.head.version()) {
        log_error!(
            request,
            Info,
            "client attempted to request the server name for which the negotiated protocol is disabled while reading client \
             request headers"
        );
        return Err(Status::MISDIRECTED_REQUEST);
    }
    Ok(())
}

/// Refuses a request that has come without TLS to a listening socket with `ssl`, or with a certificate that the server
/// does not take. A server that asks for certificates answers only clients that have named it in their handshake.
/// Otherwise a client could name another server to get around that (421, RFC 9110 section 15.5.20).
pub fn judge_tls(request: &mut Request, servers: &Servers) -> Result<(), Status> {
    if servers.tls && request.client.tls().is_none() {
        log_error!(request, Info, "client sent plain HTTP request to HTTPS port while reading client request headers");
        return Err(Status::PLAIN_HTTP_TO_TLS);
    }
    let Some(facts) = request.client.tls() else { return Ok(()) };
    let Some(verification) = request.place.server.tls.as_ref().and_then(|tls| tls.verification.as_ref()) else {
        return Ok(());
    };
    if !request.place.server.is(servers.negotiated(facts)) {
        log_error!(
            request,
            Info,
            "client attempted to request the server name different from the one that was negotiated while reading client \
             request headers"
        );
        // The client needs another connection for this server.
        request.answered.persistence.close(CloseReason::Response);
        return Err(Status::MISDIRECTED_REQUEST);
    }
    match facts.verified().refusal(verification.asked) {
        None => Ok(()),
        Some(refusal) => {
            log_error!(request, Info, "{refusal} while reading client request headers");
            Err(refusal.status())
        }
    }
}

/// Refuses the methods that are never routed: TRACE, and CONNECT where the server has nothing that answers it, or in a
/// version of HTTP before 1.1.
#[inline]
pub fn refuse_methods(request: &mut Request) -> Result<(), Status> {
    match request.asked.method {
        Method::Trace => refuse_method(request, "TRACE"),
        Method::Connect if request.place.server.takes_connect && request.head.version() >= Version::Http11 => {
            refuse_content(request)
        }
        Method::Connect => refuse_method(request, "CONNECT"),
        _ => Ok(()),
    }
}

#[cold]
fn refuse_method(request: &mut Request, name: &str) -> Result<(), Status> {
    log_error!(request, Info, "client sent {name} method while reading client request headers");
    request.answered.persistence.close(CloseReason::RefusedMethod);
    Err(Status::METHOD_NOT_ALLOWED)
}

/// Refuses CONNECT with a body, which it cannot have (RFC 9110 section 9.3.6). The bytes behind the head belong to the
/// tunnel, and must not be read in two ways. The driver of a multiplexed protocol knows no other meaning of them.
#[cold]
fn refuse_content(request: &mut Request) -> Result<(), Status> {
    let is_announced = !matches!(request.head.parsed.body, BodyFraming::None | BodyFraming::Length(0));
    if request.client.is_multiplexed() || !is_announced {
        return Ok(());
    }
    log_error!(request, Info, "client sent CONNECT request with a body while reading client request headers");
    request.answered.persistence.close(CloseReason::RefusedMethod);
    Err(Status::BAD_REQUEST)
}
