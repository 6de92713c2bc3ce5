//! A request of a connection: from its first byte to its line in the log, and the decision about the connection.

use std::rc::Rc;
use std::time::Duration;

use freerun_proto::h1::{CloseReason, DiscardResult, EndStep, ExchangeEnd, ExpectHead, LingerMode, ResponseFraming};
use freerun_proto::head::HeadRules;
use freerun_proto::{BodyFraming, Status};
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
use crate::message::scratch::RequestScratch;
use crate::phases::{self, Answer, keepalive, post_action};
use crate::protocol::early_end::{self, AwaitedData};
use crate::protocol::h1::read::{self, HeadResult};
use crate::protocol::h1::upgraded_connection::UpgradedConnection;
use crate::protocol::h1::{send, words};
use crate::protocol::request_steps;
use crate::request::core_settings::{CoreSettings, LingeringClose};
use crate::request::response::{Body, Response};
use crate::request::{ClientConnection, ClientStream, Head, Request};
use crate::settings::server::ServerSettings;
use crate::write::WriteError;

/// The connection's next step after a request.
pub(super) enum After {
    /// Serves another request; bytes of it may be here already.
    Next(Vec<u8>, Keep),
    /// Leaves HTTP, while the connection goes on.
    Upgraded(Box<UpgradedConnection>),
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
    let pipelined = ExpectHead::is_pipelined(serial, buffer.len());
    let mut first_byte = loops::now();
    let timeout = settings.client_header_timeout;
    let reading = read::read(connection, timer, buffer, scratch.head(), &rules, timeout, &mut first_byte).await;
    let (head, fault) = match reading {
        HeadResult::Head(head) => (head, None),
        HeadResult::Bad(head, error) => (head, Some(Fault::Protocol(error))),
        HeadResult::TimedOut(head) => {
            let text = words::timed_out(&head, pipelined);
            (head, Some(Fault::Silent(Status::REQUEST_TIMEOUT, text)))
        }
        HeadResult::Broken(head, error) => {
            let text = words::broken(&head, pipelined, error.as_ref());
            (head, Some(Fault::Silent(Status::BAD_REQUEST, text)))
        }
        HeadResult::Nothing(end) => {
            early_end::log(http, connection, if serial == 1 { AwaitedData::First } else { AwaitedData::Next }, &end);
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
            // The host and path are needed for the log only.
            let _ = request_steps::route(request, &servers, false, settings.merge_slashes, scratch);
            log_error!(request, Info, "{text}");
            request.sent.status = Some(status);
            if status == Status::REQUEST_TIMEOUT {
                reset_if_wanted(connection, request);
            }
            finish::finish(request);
            return After::Close;
        }
        Some(Fault::Protocol(error)) => {
            // The part before the error chooses the server, and is in the log.
            let whole = error.is_of_the_whole_head();
            request_steps::route(request, &servers, whole, settings.merge_slashes, scratch).and_then(|()| {
                log_error!(request, Info, "{}", words::bad(&request.head, pipelined, error));
                Err(error.status())
            })
        }
        None => {
            keepalive::asked(request, still_listens);
            let routed = request_steps::route(request, &servers, true, settings.merge_slashes, scratch);
            let routed = match routed {
                Ok(()) if !request.place.server.is_same(&servers.server) => apply_rules(request, &rules),
                routed => routed,
            };
            routed.and_then(|()| arrive::refuse_methods(request))
        }
    };
    let is_gone = match request_steps::verification(request, &servers, routed) {
        Some(verifying) => verifying.await.is_none(),
        None => false,
    };
    if is_gone {
        finish::finish(request);
        return After::Close;
    }
    let judged = request_steps::judge(request, &servers, routed);
    let answer = phases::respond(request, judged).await;
    let after = conclude(connection, request, timer, answer).await;
    in_progress.release();
    // Only these parts are passed on: passing the whole request would move it.
    scratch.keep(owned.head, owned.asked.path, owned.asked.args, owned.asked.host);
    after
}

/// Judges the head by the rules of the chosen server.
#[inline(never)]
fn apply_rules(request: &mut Request, read_by: &HeadRules) -> Result<(), Status> {
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

/// The reason why a request does not reach the phases.
enum Fault {
    /// The head is wrong: the request is answered with the error's status.
    Protocol(freerun_proto::RequestError),
    /// The head is incomplete: the request is logged with this status, and the connection closed without a response.
    Silent(Status, String),
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
            request_steps::note_unanswered(request);
            request.answered.persistence.close(CloseReason::NoResponse);
            if matches!(request.sent.code(), 444 | 408) {
                reset_if_wanted(connection, request);
            }
            finish::finish(request);
            return After::Close;
        }
    };
    connection.sending.end_response();
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
    end_exchange(connection, request, timer, core, framing).await
}

/// Acts on what the machine decides about the connection behind a whole response.
#[inline]
async fn end_exchange(
    connection: &ClientConnection,
    request: &mut Request,
    timer: &mut Timer,
    core: &CoreSettings,
    framing: ResponseFraming,
) -> After {
    let linger = match core.lingering_close {
        LingeringClose::Off => LingerMode::Off,
        LingeringClose::On => LingerMode::On,
        LingeringClose::Always => LingerMode::Always,
    };
    let (persistence, ends_untold) = (request.answered.persistence, request.answered.ends_untold);
    let mut end = ExchangeEnd::new(persistence, ends_untold, framing, linger);
    loop {
        match end.step(&request.body, request.head.buffer.len()) {
            EndStep::DiscardBody => {
                let discarded = finish_discarding(request, timer, core.lingering_timeout, core.lingering_time).await;
                end.body_discarded(match discarded {
                    Ok(()) => DiscardResult::Complete,
                    Err(BodyError::TimedOut | BodyError::Broken) => DiscardResult::Silent,
                    Err(_) => DiscardResult::Faulty,
                });
            }
            EndStep::LookForInput => end.input_found(!was_emptied_now(request) && has_more(connection, request)),
            EndStep::EndSession => end.session_ended(connection.transport.end_session()),
            EndStep::NextRequest => return After::Next(rest_of(request), core.keep()),
            EndStep::Linger => return After::Linger(core.lingering_timeout, core.lingering_time),
            EndStep::Close => return After::Close,
        }
    }
}

/// Sends the response to an error in place of a response without a byte sent.
#[cold]
async fn send_instead(
    connection: &ClientConnection,
    request: &mut Request,
    status: Status,
) -> Result<ResponseFraming, WriteError> {
    match phases::respond(request, Err(status)).await {
        Answer::Response(response) => send::response(connection, request, response, false).await,
        Answer::Close => Err(WriteError::Unsent(status)),
    }
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
    connection.sending.end_response();
    match written {
        Ok(_) => After::Upgraded(Box::new(UpgradedConnection::new(takeover, connection, request))),
        Err(error) => {
            log_write_error(request, &error);
            finish::finish(request);
            After::Close
        }
    }
}

/// Prepares the answer to a CONNECT that gets no tunnel. The head of a success, which the client takes for a tunnel, may have
/// no length (RFC 9110 section 9.3.6).
#[cold]
fn without_tunnel(connection: &ClientConnection, request: &mut Request, response: &mut Response) {
    let is_success = matches!(response.status.code(), 200..300);
    response.no_length |= is_success;
    let has_early_bytes =
        !request.body.unused(&request.head.buffer).is_empty() || !is_success && !connection.transport.is_quiet(true);
    request.answered.persistence.apply_refused_tunnel(is_success, has_early_bytes);
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

/// Takes the received bytes of the next request, in the head's buffer; without any, the buffer goes back to the loop.
fn rest_of(request: &mut Request) -> Vec<u8> {
    let begin = request.body.next_request(&request.head.buffer);
    let mut buffer = std::mem::take(&mut request.head.buffer);
    let Some(begin) = begin else {
        buffers::give_back(buffer);
        return Vec::new();
    };
    buffer.drain(..begin);
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
        WriteError::Stream(_) | WriteError::Body | WriteError::Unsent(_) => {}
    }
}
