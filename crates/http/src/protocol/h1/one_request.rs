//! One request of a connection: from its first byte to its line in the log, and the decision about the connection.

use std::rc::Rc;
use std::time::Duration;

use freerun_proto::head::HeadRules;
use freerun_proto::{BodyFraming, Version};
use freerun_runtime::log::Errno;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use crate::arrive;
use crate::body::{self, BodyError, finish_discarding};
use crate::connection::idle::Keep;
use crate::connection::takeover::Takeover;
use crate::finish::{self, InProgress};
use crate::http_loop::HttpLoop;
use crate::log_error;
use crate::message::persistence::CloseReason;
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer, keepalive, post_action};
use crate::protocol::h1::read::{self, Reading};
use crate::protocol::h1::upgraded::Upgraded;
use crate::protocol::h1::{send, words};
use crate::protocol::tls;
use crate::protocol::unanswered::{self, Awaited};
use crate::request::core_settings::{CoreSettings, LingeringClose};
use crate::request::response::{Body, Response};
use crate::request::{ClientConnection, ClientStream, Head, Request};
use crate::settings::server::ServerSettings;
use crate::write::WriteError;
use crate::write::decide::Framing;

/// What the connection does after a request.
pub(super) enum After {
    /// Serves another request; bytes of it may be here already.
    Next(Vec<u8>, Keep),
    /// Leaves HTTP, while the connection goes on.
    Upgraded(Box<Upgraded>),
    /// Reads on for a while, because the client may still be sending, so that it sees the response.
    Linger(Duration, Duration),
    /// Closes.
    Close,
}

pub(super) async fn one_request(
    http: &HttpLoop,
    connection: &Rc<ClientConnection>,
    timer: &mut Timer,
    buffer: Vec<u8>,
    serial: u64,
    scratch: &mut RequestScratch,
) -> After {
    let Some((generation, servers, still_listens)) = http.servers(connection) else { return After::Close };
    let settings = servers.entry.settings.get::<ServerSettings>();
    let rules = read::rules(settings);
    loops::note(connection.number, "reading a request head");
    let pipelined = serial > 1 && !buffer.is_empty();
    let mut first_byte = loops::now();
    let timeout = settings.client_header_timeout;
    let reading = read::read(connection, timer, buffer, scratch.head(), &rules, timeout, &mut first_byte).await;
    let (head, fault) = match reading {
        Reading::Head(head) => (head, None),
        Reading::Bad(mut head, error) => {
            // A request line that was not understood is answered with a head, unlike a request of HTTP/0.9.
            if head.parsed.version == Version::Http09 {
                head.parsed.version = Version::Http10;
            }
            (head, Some(Fault::Protocol(error)))
        }
        Reading::TimedOut(head) => {
            let text = words::timed_out(&head, pipelined);
            (head, Some(Fault::Silent(408, text)))
        }
        Reading::Broken(head, error) => {
            let text = words::broken(&head, pipelined, error.as_ref());
            (head, Some(Fault::Silent(400, text)))
        }
        Reading::Nothing(end) => {
            unanswered::log(http, connection, if serial == 1 { Awaited::First } else { Awaited::Next }, &end);
            return After::Close;
        }
    };
    connection.loop_state.stats.requests.add_alone();
    let place = (servers.server.clone(), servers.entry.clone());
    let client = ClientStream::of_connection(connection.clone());
    let mut owned = Request::new(client, generation, place, head, serial, first_byte);
    let mut in_progress = InProgress::of(&mut owned);
    let request = in_progress.request();
    request.arrival.pipelined = pipelined;
    loops::note(connection.number, "answering");
    if request.head.parsed.has_ignored {
        log_ignored(request);
    }
    let routed = match fault {
        Some(Fault::Silent(status, text)) => {
            if !request.head.parsed.method_text.is_empty() {
                // The host and path are needed for the log only.
                let _ = arrive::route_server(request, &servers, false, settings.merge_slashes, scratch);
            }
            request.count_begin();
            log_error!(request, Info, "{text}");
            request.sent.status = status;
            if status == 408 {
                reset_if_wanted(connection, request);
            }
            finish::finish(request);
            return After::Close;
        }
        Some(Fault::Protocol(error)) => {
            // The part before the error chooses the server, and is in the log.
            let understood = !request.head.parsed.method_text.is_empty();
            let whole = error.is_of_the_whole_head();
            let routed =
                understood.then(|| arrive::route_server(request, &servers, whole, settings.merge_slashes, scratch));
            request.count_begin();
            match routed {
                Some(Err(earlier)) => Err(earlier),
                _ => {
                    log_error!(request, Info, "{}", words::bad(&request.head, pipelined, error));
                    Err(error.status())
                }
            }
        }
        None => {
            keepalive::asked(request, still_listens);
            let routed = arrive::route_server(request, &servers, true, settings.merge_slashes, scratch);
            request.count_begin();
            let routed = match routed {
                Ok(()) if !request.place.server.is_same(&servers.server) => apply_rules(request, &rules),
                routed => routed,
            };
            routed.and_then(|()| arrive::refuse_methods(request))
        }
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
        return After::Close;
    }
    let answer = match routed.and_then(|()| arrive::judge_tls(request, &servers)) {
        Ok(()) => phases::respond(request).await,
        Err(status) => phases::respond_with_status(request, status).await,
    };
    let after = conclude(connection, request, timer, answer).await;
    in_progress.release();
    // Only these parts are passed on: passing the whole request would move it.
    scratch.keep(owned.head, owned.asked.path, owned.asked.args, owned.asked.host);
    after
}

/// Judges the head by the rules of the chosen server.
#[inline(never)]
fn apply_rules(request: &mut Request, read_by: &HeadRules) -> Result<(), u16> {
    let chosen = request.place.server.entry.settings.get::<ServerSettings>();
    read::apply_rules_of_chosen(&mut request.head, read_by, chosen).map_err(|error| {
        log_error!(request, Info, "{}", words::bad(&request.head, request.arrival.pipelined, error));
        request.answered.persistence.close(CloseReason::BadHead);
        error.status()
    })
}

/// Logs the fields that were ignored because of their names.
#[cold]
fn log_ignored(request: &Request) {
    for line in request.head.parsed.ignored_lines(&request.head.buffer) {
        log_error!(request, Info, "{}", words::ignored(line));
    }
}

/// Why a request does not reach the phases.
enum Fault {
    /// The head is wrong: the request is answered with the error's status.
    Protocol(freerun_proto::Error),
    /// The head is incomplete: the request is logged with this status, and the connection closed without a response.
    Silent(u16, String),
}

/// Sends the answer, logs, and decides what the connection does next.
async fn conclude(
    connection: &Rc<ClientConnection>,
    request: &mut Request,
    timer: &mut Timer,
    answer: Answer,
) -> After {
    let location = request.place.location.clone();
    let core = &*location.core;
    let written = match answer {
        Answer::Response(mut response) => {
            if let Some(takeover) = response.takeover.take() {
                return take_over(connection, request, response, takeover).await;
            }
            body::look_at_rest(request);
            if request.is_connect() {
                without_tunnel(connection, request, &mut response);
            }
            keepalive::before_response(connection, request);
            // The first response on a connection is not held back if it is sent in one piece, so it needs no
            // `TCP_NODELAY`.
            if request.answered.persistence.is_kept()
                && core.tcp_nodelay
                && (request.arrival.serial > 1 || request.sent.bytes > 0)
            {
                connection.set_nodelay();
            }
            let mut written = send::response(connection, request, response, false).await;
            if let Err(WriteError::Unsent(status)) = written {
                written = Box::pin(send_instead(connection, request, status)).await;
            }
            body::take_back(request);
            written
        }
        Answer::Close => {
            if request.sent.status == 0 {
                request.sent.status = 444;
            }
            request.answered.persistence.close(CloseReason::NoResponse);
            if matches!(request.sent.status, 444 | 408) {
                reset_if_wanted(connection, request);
            }
            finish::finish(request);
            return After::Close;
        }
    };
    connection.responding.set(false);
    connection.free_places();
    if let Err(error) = &written {
        log_write_error(request, error);
        if matches!(error, WriteError::TimedOut) {
            reset_if_wanted(connection, request);
        }
    }
    if core.post_action.is_some() {
        Box::pin(post_action::run(request)).await;
    }
    finish::finish(request);
    let Ok(framing) = written else { return After::Close };
    let is_kept = request.answered.persistence.is_kept() && !request.answered.ends_untold;
    if is_kept || awaits_body(request, framing) {
        match finish_discarding(request, timer, core.lingering_timeout, core.lingering_time).await {
            Ok(()) if is_kept => {
                return After::Next(rest_of(request), core.keep());
            }
            Ok(()) => {}
            Err(BodyError::TimedOut | BodyError::Broken(_)) => return After::Close,
            Err(_) => return linger_or_close(core, true),
        }
    }
    let unread = !request.body.is_done();
    let pipelined = request.head.buffer.len() > request.body.used();
    let may_be_sending = unread || pipelined || (!was_emptied_now(request) && has_more(connection, request));
    // A client that knows the end of the response by that of the connection alone takes a whole one for one that was cut if
    // `close_notify` is missing (RFC 8446 section 6.1).
    let waits_for_room = framing == Framing::Close && !connection.transport.end_session();
    linger_or_close(core, may_be_sending || waits_for_room)
}

/// Sends the response to an error in place of one of which nothing was sent.
#[cold]
async fn send_instead(
    connection: &ClientConnection,
    request: &mut Request,
    status: u16,
) -> Result<Framing, WriteError> {
    match phases::respond_with_status(request, status).await {
        Answer::Response(response) => send::response(connection, request, response, false).await,
        Answer::Close => Err(WriteError::Unsent(status)),
    }
}

/// Whether a connection that ends after the response waits for the body first that nobody wanted, as in nginx: a client that
/// is about to send it finds the connection whole. If the end of the connection is that of the response, the client must see
/// it.
fn awaits_body(request: &Request, framing: Framing) -> bool {
    !request.body.is_done() && request.body.received() == 0 && framing != Framing::Close
}

/// Sends the head that ends HTTP; then another protocol goes on.
async fn take_over(
    connection: &Rc<ClientConnection>,
    request: &mut Request,
    mut response: Box<Response>,
    takeover: Box<dyn Takeover<Request>>,
) -> After {
    request.answered.persistence.close(CloseReason::Upgraded);
    connection.set_nodelay();
    response.body = Body::Empty;
    // What follows counts like a response that goes on.
    let places = connection.has_places().then(|| connection.take_places());
    let written = send::response(connection, request, response, true).await;
    if let Some(places) = places {
        connection.keep_places(places);
    }
    connection.responding.set(false);
    match written {
        Ok(_) => After::Upgraded(Box::new(Upgraded::new(takeover, connection, request))),
        Err(error) => {
            log_write_error(request, &error);
            finish::finish(request);
            After::Close
        }
    }
}

/// Prepares the answer to a CONNECT that gets no tunnel. A client that did not wait for it has sent bytes that it means
/// for a server of its own choice, or of somebody else's: they must not be taken for its next request, so the
/// connection ends. It ends with a success, too, which the client takes for a tunnel; such a head may have no length
/// (RFC 9110 section 9.3.6).
#[cold]
fn without_tunnel(connection: &ClientConnection, request: &mut Request, response: &mut Response) {
    let success = matches!(response.status, 200..300);
    response.no_length |= success;
    let early = request.head.buffer.len() > request.body.used();
    if success || early || !connection.transport.is_quiet(true) {
        request.answered.persistence.close(CloseReason::RefusedMethod);
    }
}

/// Applies `reset_timedout_connection`.
fn reset_if_wanted(connection: &ClientConnection, request: &Request) {
    if request.settings().get::<ServerSettings>().reset_timedout_connection {
        connection.transport.reset_on_close();
    }
}

/// Whether the socket was found empty within this poll: bytes that have come since then could as well come after the
/// closing.
fn was_emptied_now(request: &Request) -> bool {
    let Head { buffer, parsed } = &request.head;
    let short = buffer.len() < buffer.capacity() && matches!(parsed.body, BodyFraming::None | BodyFraming::Length(0));
    short && !request.arrival.pipelined && request.arrival.started == loops::now()
}

/// Whether unread bytes have come: closing the socket with them would reset the connection.
fn has_more(connection: &ClientConnection, request: &mut Request) -> bool {
    let mut scratch = std::mem::take(&mut request.head.buffer);
    scratch.clear();
    let has_more = matches!(connection.transport.try_read(&mut scratch), Ok(1..));
    buffers::give_back(scratch);
    has_more
}

fn linger_or_close(core: &CoreSettings, may_be_sending: bool) -> After {
    match core.lingering_close {
        LingeringClose::Off => After::Close,
        LingeringClose::On if !may_be_sending => After::Close,
        _ => After::Linger(core.lingering_timeout, core.lingering_time),
    }
}

/// Takes the received bytes of the next request, in the head's buffer; without any, the buffer goes back to the loop.
/// Line ends that some clients send behind a body are not part of it (RFC 9112 section 2.2).
fn rest_of(request: &mut Request) -> Vec<u8> {
    let used = request.body.used();
    let mut buffer = std::mem::take(&mut request.head.buffer);
    if buffer.iter().skip(used).all(|byte| matches!(byte, b'\r' | b'\n')) {
        buffers::give_back(buffer);
        return Vec::new();
    }
    buffer.drain(..used);
    buffer
}

fn log_write_error(request: &Request, error: &WriteError) {
    match error {
        WriteError::Client(error) => {
            log_error!(request, Info, "send() failed ({}) while sending response to client", Errno(error));
        }
        WriteError::TimedOut => {
            log_error!(request, Info, "client timed out (110: Connection timed out) while sending response to client")
        }
        WriteError::Body | WriteError::Unsent(_) => {}
    }
}
