//! A request of a connection that carries several at once. The driver of such a protocol hands over its stream, and the
//! request goes the same way as any other request.
//!
//! # How to write a driver
//!
//! This is the whole seam between the request path and a protocol such as HTTP/3. The tests of `crates/modules` have a
//! driver of a toy protocol, over a byte stream and over datagrams (`multiplexed_tests`); [`h2`](crate::protocol::h2)
//! is the one for HTTP/2. A driver implements two traits:
//!
//! - [`Stream`] for each request: the body in, the response out, the client's resets. The request's task and the task
//!   of the connection share what is behind it; a stream wakes the connection's task when it has left something to
//!   send.
//! - [`IdleConnection`](crate::connection::IdleConnection) for each connection, so that the loop can list it while it
//!   has no request, and close it. A connection that is a byte stream is a
//!   [`ClientConnection`](crate::request::ClientConnection), which has this already.
//!
//! It calls, in this order:
//!
//! 1. When a client connects, [`Facts::new`](crate::connection::Facts::new) with the number, the address of the client
//!    and the listening socket. The connection is counted in `loop_state.admission` from now on (`begin`, if no
//!    listening socket has counted it). The driver calls `end` once, however the connection ends.
//! 2. [`set_tls`](crate::connection::Facts::set_tls) when the ClientHello is known. The name in it chooses the
//!    certificate, among the servers of [`HttpLoop::servers_of`]. At the end of the handshake, `TlsFacts::establish` with
//!    the agreed parameters as data, then `TlsFacts::verify`. Then the driver empties `served_by`, because the server that
//!    the client has named answers from now on. With early data, `establish` comes before the end of the handshake, and
//!    again at its end. Nothing above the driver sees the session; `protocol/tls.rs` does the same for byte streams.
//! 3. For each request, [`HttpLoop::servers_of`] and [`field_rules`] for decoding its head. Then [`ArrivedRequest`] and a
//!    [`ClientStream`]: `of_facts` for datagrams, `of_stream` for a byte stream. [`serve`] takes the request from there
//!    to its line in the log. Each runs as a task of its own, and ends by itself when [`Stream::poll_gone`] says that
//!    the client has left. A driver begins an [era](freerun_runtime::arrival_era) when it has read.
//! 4. [`serve`] calls the stream: [`Stream::poll_body`] as the request wants its body, [`Stream::send_interim`] any
//!    number of times, and [`Stream::send_head`] once. [`Stream::poll_room`] comes before each [`Stream::send_data`] or
//!    [`Stream::send_file`]. One of these two ends the response, or [`Stream::send_trailers`] does, and
//!    [`Stream::poll_sent`] comes last. [`Stream::reset`] comes instead of the end if the response is not whole. After
//!    [`Stream::become_tunnel`], data goes both ways.
//! 5. When no request is left, [`HttpLoop::renew_connection_of`], so that no old configuration is kept. Then
//!    [`IdleConnections::enter`](crate::connection::idle::IdleConnections::enter) and `admission.one_may_leave`. The
//!    key [takes it out](crate::connection::idle::IdleConnections::leave) before the next request begins, and at the
//!    end.
//! 6. A connection that is asked to close has its task woken
//!    ([`wake_to_close`](crate::connection::IdleConnection::wake_to_close)). Without a request it ends at once, in the
//!    way of its protocol; otherwise it accepts no further request and ends after the last one. It does the same when a
//!    request ends while `loop_state.is_draining()`, or when the configuration no longer listens at the address.
//!    [`reuse_facts`](crate::phases::keepalive::reuse_facts) says at the beginning of each request whether the client is
//!    asked to begin none after it (`keepalive_*`).

pub(in crate::protocol) mod head_sink;
pub(in crate::protocol) mod request_runner;
pub(in crate::protocol) mod request_task;
mod response_head;
mod send;
pub(in crate::protocol) mod stream_state;

use std::future::poll_fn;
use std::rc::Rc;

use freerun_conf::SettingsSet;
use freerun_proto::h1::Persistence;
use freerun_proto::h2::hpack::BlockLimits;
use freerun_proto::head::{self, FieldFault, FieldRules};
use freerun_proto::{HeaderId, Status, Version};
use freerun_runtime::loops;

use crate::arrive;
use crate::connection::stream::{ResponseHead, Stream};
use crate::connection::takeover::Takeover;
use crate::connection::tunnel_end::TunnelEnd;
use crate::finish::{self, InProgress};
use crate::http_loop::HttpLoop;
use crate::log_error;
use crate::message::body::ClientBody;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer, post_action};
use crate::protocol::request_steps;
use crate::request::ClientStream;
use crate::request::generation::AnsweringServers;
use crate::request::location::Server;
use crate::request::response::Response;
use crate::request::{Head, Request};
use crate::settings::server::ServerSettings;
use crate::write::WriteError;
use crate::write::decide::decide;

pub use request_runner::{RequestRunners, RequestWork, Start};
pub use request_task::RequestTask;

/// A request as its driver has received it.
pub struct ArrivedRequest {
    /// The head, in a buffer that the driver has written.
    pub head: Head,
    /// Whether a body follows; of CONNECT, whether the stream goes on.
    pub has_body: bool,
    /// `Content-Length`, which the driver enforces.
    pub declared: Option<u64>,
    /// The number of the request on its connection, from 1.
    pub serial: u64,
    /// The reason why the request is malformed, if it is: it is answered with the fault's status then.
    pub fault: Option<FieldFault>,
    /// Number of fields that were received, as `max_headers` counts them.
    pub received: usize,
}

/// The rules of a server for the fields of a request.
///
/// `extended_connect` says whether the protocol has CONNECT with `:protocol` (RFC 8441, RFC 9220).
pub fn field_rules(settings: &SettingsSet, extended_connect: bool) -> FieldRules {
    let server = settings.get::<ServerSettings>();
    FieldRules {
        max_headers: server.max_headers as usize,
        ignore_invalid_headers: server.ignore_invalid_headers,
        underscores_in_headers: server.underscores_in_headers,
        extended_connect,
    }
}

/// Whether a response on a stream may have a field of this name (RFC 9113 section 8.2.2, RFC 9114 section 4.2). Otherwise a client refuses the whole
/// response, for example of a server of HTTP/1 that offers `Upgrade`.
#[inline]
pub(super) fn may_be_sent(name: &[u8]) -> bool {
    // The lengths of the names in question; most other names have another one.
    !matches!(name.len(), 7 | 10 | 16 | 17) || !HeaderId::of(name).is_of_connection()
}

/// The field of a response of HTTP/1 that opens a WebSocket, besides the fields about the connection.
const OF_WEBSOCKET: &[u8] = b"sec-websocket-accept";

/// The status and the fields of a head on a stream. The head that answers an extended CONNECT is 101 in HTTP/1 and 200 here,
/// without the fields that belong to `Upgrade` (RFC 8441 section 5, RFC 9220 section 3).
#[inline]
pub(super) fn status_and_fields(head: &ResponseHead) -> (u16, impl Iterator<Item = (&[u8], &[u8])>) {
    let is_upgrade = head.status == 101;
    let belongs = move |name: &[u8]| !may_be_sent(name) || is_upgrade && name.eq_ignore_ascii_case(OF_WEBSOCKET);
    let status = if is_upgrade { 200 } else { head.status };
    (status, head.fields.iter().filter(move |(name, _)| !belongs(name)))
}

/// Number of bytes that a field counts besides its name and its value (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
/// `large_client_header_buffers` allows one field for this number of its bytes.
const FIELD: usize = 32;

/// Number of fields that a head may have, however small the buffers are.
const LEAST_FIELDS: usize = 128;

/// The limits of a head that a client sends to a server with these settings.
pub(super) fn block_limits(settings: &ServerSettings) -> BlockLimits {
    let large = &settings.large_client_header_buffers;
    let size = usize::try_from(large.size).unwrap_or(usize::MAX);
    let most_total = size.saturating_mul(large.count as usize);
    BlockLimits { most_string: size, most_total, most_fields: (most_total / FIELD).max(LEAST_FIELDS) }
}

/// A request that has begun, beside the future that answers it.
struct BegunRequest {
    owned: Request,
    stream: Rc<dyn Stream>,
    /// The servers of the address, with the server that the client has named in its handshake.
    servers: Rc<AnsweringServers>,
    /// The reason why it is malformed. Few are, so it takes no room in the others.
    fault: Option<Box<FieldFault>>,
    received: usize,
}

/// Serves a request of a client that has a stream, from its head to its log line. The driver runs this future beside
/// the futures of the connection's other requests, and begins an [era](freerun_runtime::arrival_era) when it has read of its
/// connection. If the client resets the stream, the future ends by itself, as it does under HTTP/1 when the client has
/// gone.
///
/// The future has no room for what the request was made of: many wait for their clients.
pub fn serve<'s>(
    http: &HttpLoop,
    client: ClientStream,
    arrived: ArrivedRequest,
    scratch: &'s mut RequestScratch,
) -> impl Future<Output = ()> + use<'s> {
    let mut begun = begin(http, client, arrived);
    async move {
        if let Some(begun) = &mut begun {
            respond(begun, scratch).await;
        }
        if let Some(BegunRequest { owned, .. }) = begun {
            // Only these parts are passed on: passing the whole request would move it.
            scratch.keep(owned.head, owned.asked.path, owned.asked.args, owned.asked.host);
        }
    }
}

/// Makes the request. `None` if no server listens any more: its stream is reset.
fn begin(http: &HttpLoop, client: ClientStream, arrived: ArrivedRequest) -> Option<BegunRequest> {
    let stream = client.stream().cloned()?;
    let Some((generation, servers, _)) = http.servers_of(&client, || client.local()) else {
        stream.reset();
        return None;
    };
    client.loop_state.stats.requests.add_alone();
    client.requests.set(client.requests.get().max(arrived.serial));
    let place = (servers.server.clone(), servers.entry.clone());
    let mut owned = Request::new(client, generation, place, arrived.head, arrived.serial, loops::now());
    owned.answered.persistence = Persistence::Kept;
    // What follows CONNECT is not the request's: a tunnel takes it from the stream, or nobody.
    if arrived.has_body && !owned.is_connect() {
        let expects_continue = owned.head.parsed.expect_continue;
        owned.body = ClientBody::of_stream(arrived.declared, owned.head.most_bytes(), expects_continue);
    }
    loops::note(owned.client.number, "answering");
    Some(BegunRequest { owned, stream, servers, fault: arrived.fault.map(Box::new), received: arrived.received })
}

/// Finds the server and the location of the request, and judges its head.
fn route(
    request: &mut Request,
    servers: &AnsweringServers,
    (fault, received): (Option<&FieldFault>, usize),
    scratch: &mut RequestScratch,
) -> Result<(), Status> {
    let settings = servers.entry.settings.get::<ServerSettings>();
    let whole = fault.is_none_or(FieldFault::is_of_the_whole_head);
    request_steps::route(request, servers, whole, settings.merge_slashes, scratch)?;
    let fault = match fault {
        None if has_too_many_fields(request, received) => Some(&FieldFault::TooManyHeaders),
        fault => fault,
    };
    if let Some(fault) = fault {
        log_error!(request, Info, "{fault} while reading client request headers");
        return Err(fault.status());
    }
    if !request.place.server.is_same(&servers.server) {
        apply_name_rules(&mut request.head, servers, &request.place.server);
    }
    arrive::judge_protocol(request, servers).and_then(|()| arrive::refuse_methods(request))
}

/// Answers a request.
async fn respond(begun: &mut BegunRequest, scratch: &mut RequestScratch) {
    let BegunRequest { owned, stream, servers, fault, received } = begun;
    let (stream, mut in_progress) = (&**stream, InProgress::of(owned));
    let request = in_progress.request();
    let mut response_end = ResponseEnd { stream, is_whole: false };
    let routed = route(request, servers, (fault.as_deref(), *received), scratch);
    let is_gone = match request_steps::verification(request, servers, routed) {
        Some(verifying) => verifying.await.is_none(),
        None => false,
    };
    if is_gone {
        finish::finish(request);
        return stream.reset();
    }
    let judged = request_steps::judge(request, servers, routed);
    let answer = phases::respond(request, judged).await;
    let has_response = matches!(answer, Answer::Response(_));
    match answer {
        Answer::Response(mut response) => {
            let is_whole = match response.takeover.take() {
                Some(takeover) => take_over(request, stream, &response, takeover).await,
                None => {
                    let sent = send::response(request, stream, response).await;
                    if let Err(error) = &sent {
                        log_failure(request, error);
                    }
                    sent.is_ok()
                }
            };
            response_end.is_whole = is_whole;
            request.sent.complete = is_whole;
        }
        Answer::Close => request_steps::note_unanswered(request),
    }
    drop(response_end);
    if has_response && request.core().post_action.is_some() {
        Box::pin(post_action::run(request)).await;
    }
    finish::finish(request);
    in_progress.release();
}

/// Chooses the fields of a head by the rules for names of the server that the request is for. The head was made by the
/// default server's rules; nothing changes if they are the same.
fn apply_name_rules(head: &mut Head, made_by: &AnsweringServers, server: &Server) {
    let rules = field_rules(&server.entry.settings, false);
    let made_by = field_rules(&made_by.entry.settings, false);
    let names = |rules: FieldRules| (rules.ignore_invalid_headers, rules.underscores_in_headers);
    if head.version() >= Version::Http2 && names(rules) != names(made_by) {
        head::apply_name_rules(&mut head.parsed, &head.buffer, &rules);
    }
}

/// Whether the server that was chosen allows fewer fields. The default server, by whose limit the head was read, may allow more.
fn has_too_many_fields(request: &Request, received: usize) -> bool {
    let most = request.place.server.entry.settings.get::<ServerSettings>().max_headers as usize;
    most != 0 && received > most
}

/// Resets a stream whose response is not complete when this value is dropped, even after a panic. The end must not look
/// like the end of a complete response, and no client should wait for the rest in vain.
struct ResponseEnd<'s> {
    stream: &'s dyn Stream,
    is_whole: bool,
}

impl Drop for ResponseEnd<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.stream.reset();
        }
    }
}

/// Sends the head that ends HTTP on the stream, and lets the takeover have the stream until it is over. Returns whether it has
/// ended in order. What a driver makes of the status 101 is its business: HTTP/2 has 200 in its place (RFC 8441
/// section 5).
async fn take_over(
    request: &mut Request,
    stream: &dyn Stream,
    response: &Response,
    mut takeover: Box<dyn Takeover<Request>>,
) -> bool {
    let decided = decide(request, response, true);
    stream.use_settings(request.settings());
    stream.become_tunnel(request.generation.number);
    response_head::send(request, stream, response, &decided, false);
    takeover.begin(Vec::new());
    loops::note(request.client.number, "tunnelling");
    let is_whole = poll_fn(|context| takeover.poll(TunnelEnd::Stream(stream), context)).await;
    let sent = takeover.end(request);
    request.sent.bytes += sent;
    request.sent.body_bytes += sent;
    is_whole
}

fn log_failure(request: &Request, error: &WriteError) {
    match error {
        // The connection has ended, and a line says so for all its streams. Or the client has canceled the stream,
        // which is usual, and may happen thousands of times a second.
        WriteError::Stream(_) | WriteError::Client(_) => {}
        WriteError::TimedOut => {
            log_error!(request, Info, "client timed out (110: Connection timed out) while sending response to client");
        }
        // The place that found the error has logged it.
        WriteError::Body | WriteError::Unsent(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::{Context, Poll};

    use bytes::Bytes;

    use super::*;
    use crate::connection::stream::{ResponseHead, StreamError};
    use crate::request::response::Field;

    /// A stream that only counts how often it is reset.
    #[derive(Default)]
    struct Resets(Cell<u32>);

    impl Stream for Resets {
        fn poll_body(&self, _: &mut Context<'_>, _: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
            Poll::Pending
        }

        fn send_interim(&self, _: &ResponseHead) {}

        fn send_head(&self, _: &ResponseHead, _: bool) {}

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
            Poll::Pending
        }

        fn send_data(&self, _: Bytes, _: bool) {}

        fn send_trailers(&self, _: &[Field]) {}

        fn reset(&self) {
            self.0.set(self.0.get() + 1);
        }

        fn poll_gone(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        fn certain_room(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_panic_resets_the_stream_and_a_whole_response_does_not() {
        let stream = Resets::default();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _end = ResponseEnd { stream: &stream, is_whole: false };
            panic!("a handler's fault");
        }));
        assert!(panicked.is_err());
        assert_eq!(stream.0.get(), 1);
        drop(ResponseEnd { stream: &stream, is_whole: true });
        assert_eq!(stream.0.get(), 1);
    }
}
