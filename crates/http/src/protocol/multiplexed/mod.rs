//! One request of a connection that carries several at once: the driver of such a protocol hands over its stream, and
//! the request goes the same way as any other request.

mod response_head;
mod send;

use std::future::poll_fn;
use std::rc::Rc;

use freerun_conf::SettingsSet;
use freerun_proto::Version;
use freerun_proto::head::{self, FieldFault, FieldRules};
use freerun_runtime::loops;

use crate::arrive;
use crate::connection::stream::Stream;
use crate::connection::takeover::Takeover;
use crate::connection::tunnel_end::TunnelEnd;
use crate::finish::{self, InProgress};
use crate::http_loop::HttpLoop;
use crate::log_error;
use crate::message::body::ClientBody;
use crate::message::persistence::Persistence;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer, post_action};
use crate::protocol::tls;
use crate::request::ClientStream;
use crate::request::generation::AnsweringServers;
use crate::request::location::Server;
use crate::request::response::Response;
use crate::request::{Head, Request};
use crate::settings::server::ServerSettings;
use crate::write::WriteError;
use crate::write::decide::decide;

/// A request as its driver has received it.
pub struct Arrived {
    /// The head, in a buffer that the driver has written.
    pub head: Head,
    /// Whether a body follows; of CONNECT, whether the stream goes on.
    pub has_body: bool,
    /// `Content-Length`, which the driver enforces.
    pub declared: Option<u64>,
    /// The number of the request on its connection, from 1.
    pub serial: u64,
    /// Why the request is malformed, if it is: it is answered with the fault's status then.
    pub fault: Option<FieldFault>,
    /// How many fields were received, as `max_headers` counts them.
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

/// Serves a request of a client that has a stream, from its head to its log line. The driver runs this future beside those of the connection's other
/// requests, and begins an [era](freerun_runtime::era) when it has read of its connection. If the client resets the stream,
/// the future ends by itself, as it does under HTTP/1 when the client has gone.
pub async fn serve(http: Rc<HttpLoop>, client: ClientStream, arrived: Arrived, scratch: &mut RequestScratch) {
    let Some(stream) = client.stream().cloned() else { return };
    let Some((generation, servers, _)) = http.servers_of(&client, || client.local()) else { return stream.reset() };
    let settings = servers.entry.settings.get::<ServerSettings>();
    client.loop_state.stats.requests.add_alone();
    client.requests.set(client.requests.get().max(arrived.serial));
    let place = (servers.server.clone(), servers.entry.clone());
    let mut owned = Request::new(client, generation, place, arrived.head, arrived.serial, loops::now());
    let mut in_progress = InProgress::of(&mut owned);
    let request = in_progress.request();
    request.answered.persistence = Persistence::Kept;
    // What follows CONNECT is not the request's: a tunnel takes it from the stream, or nobody.
    if arrived.has_body && !request.is_connect() {
        let expects_continue = request.head.parsed.expect_continue;
        request.body = ClientBody::of_stream(arrived.declared, request.head.most_bytes(), expects_continue);
    }
    let mut response_end = ResponseEnd { stream: &*stream, is_whole: false };
    loops::note(request.client.number, "answering");
    let whole = arrived.fault.as_ref().is_none_or(FieldFault::is_of_the_whole_head);
    let mut routed = Ok(());
    if request.head.is_understood() {
        routed = arrive::route_server(request, &servers, whole, settings.merge_slashes, scratch);
    }
    request.count_begin();
    let too_many = FieldFault::TooManyHeaders;
    let fault = match arrived.fault {
        None if routed.is_ok() && has_too_many_fields(request, arrived.received) => Some(&too_many),
        ref fault => fault.as_ref(),
    };
    let routed = match (routed, fault) {
        (Ok(()), Some(fault)) => {
            log_error!(request, Info, "{fault} while reading client request headers");
            Err(fault.status())
        }
        (Ok(()), None) => {
            if !request.place.server.is_same(&servers.server) {
                apply_name_rules(&mut request.head, &servers, &request.place.server);
            }
            arrive::judge_protocol(request, &servers).and_then(|()| arrive::refuse_methods(request))
        }
        (Err(status), _) => Err(status),
    };
    let is_gone = match routed {
        Ok(()) => match tls::verify_anew(request, &servers) {
            Some(verifying) => verifying.await.is_none(),
            None => false,
        },
        Err(_) => false,
    };
    if is_gone {
        finish::finish(request);
        return stream.reset();
    }
    let answer = match routed.and_then(|()| arrive::judge_tls(request, &servers)) {
        Ok(()) => phases::respond(request).await,
        Err(status) => phases::respond_with_status(request, status).await,
    };
    let has_response = matches!(answer, Answer::Response(_));
    match answer {
        Answer::Response(mut response) => {
            let is_whole = match response.takeover.take() {
                Some(takeover) => take_over(request, &*stream, &response, takeover).await,
                None => {
                    let sent = send::response(request, &*stream, response).await;
                    if let Err(error) = &sent {
                        log_failure(request, error);
                    }
                    sent.is_ok()
                }
            };
            response_end.is_whole = is_whole;
            request.sent.complete = is_whole;
        }
        Answer::Close => {
            if request.sent.status == 0 {
                request.sent.status = 444;
            }
        }
    }
    drop(response_end);
    if has_response && request.core().post_action.is_some() {
        Box::pin(post_action::run(request)).await;
    }
    finish::finish(request);
    in_progress.release();
    // Only these parts are passed on: passing the whole request would move it.
    scratch.keep(owned.head, owned.asked.path, owned.asked.args, owned.asked.host);
}

/// Chooses the fields of a head by the rules for names of the server that the request is for, if they are others than those of
/// the default server, by which the head was made.
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

/// Resets a stream whose response is not complete when this value is dropped, even after a panic: the end must not look
/// like that of a complete response, and no client should wait for the rest in vain.
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
        // The connection has ended, and a line says so for all its streams; or the client has canceled the stream, which is usual,
        // and may happen thousands of times a second.
        WriteError::Client(_) => {}
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
    use std::io;
    use std::task::{Context, Poll};

    use bytes::Bytes;

    use super::*;
    use crate::connection::stream::ResponseHead;
    use crate::request::response::Field;

    /// A stream that only counts how often it is reset.
    #[derive(Default)]
    struct Resets(Cell<u32>);

    impl Stream for Resets {
        fn poll_body(&self, _: &mut Context<'_>, _: usize) -> Poll<io::Result<Option<Bytes>>> {
            Poll::Pending
        }

        fn send_interim(&self, _: &ResponseHead) {}

        fn send_head(&self, _: &ResponseHead, _: bool) {}

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
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
