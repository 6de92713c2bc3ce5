//! Makes the client's response from the head of an upstream server's response.

use std::ffi::CString;

use bytes::Bytes;
use freerun_conf::{Size, bytes_of};
use freerun_http::content::aio;
use freerun_http::log::DetachedLog;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Body;
use freerun_http::settings::rate::LimitRate;
use freerun_http::write::pace::Pace;
use freerun_proto::h1::CloseReason;
use freerun_proto::{HeaderId, Status};
use freerun_serve::upstream::relay::HalfClose;
use freerun_upstream::{FailureVerdict, Lease};
use smallvec::SmallVec;

use crate::client::ReachedServer;
use crate::client::attempt::UpstreamExchange;
use crate::client::error::{TryStage, UpstreamError};
use crate::client::plan::Plan;
use crate::client::reader::{BodyReader, BrokenBody, ErrorOutput, ReadReadiness};
use crate::client::response_body::{AnnouncedBody, Buffering, Flow, Manner};
use crate::client::spool::SpoolPlace;
use crate::client::tee;
use crate::client::tee::BodyTee;
use crate::client::tunnel::Tunnel;
use crate::exchange::Fault;
use crate::exchange::family::{Family, PassedHead};
use crate::exchange::fields::HeadFields;

/// The most pieces of a body taken at once that have come with the head.
const TAKEN_AT_ONCE: usize = 16;

/// Makes the answer. Its body also goes to `tee`.
pub fn answer<T: BodyTee>(request: &mut Request, reached: ReachedServer, tee: Option<T>) -> Outcome {
    let ReachedServer { upstream, lease, began } = reached;
    let status = upstream.head.status;
    if status == 101 || upstream.plan.options.tunnel.is_some() {
        return upgrade(request, upstream, lease);
    }
    let mut reader = BodyReader::new(upstream, lease, began);
    let (table, pass_trailers) = (reader.plan().table(), reader.plan().options.pass_trailers);
    let buffering = table.proxy_buffering;
    if table.proxy_intercept_errors && status >= 300 && has_page(request, status) {
        if status == 401 {
            request.answered.challenges = reader.take_head().fields.values(b"WWW-Authenticate").collect();
        }
        match tee {
            Some(tee) => drop(tee::run(tee, request, reader, false)),
            None => finish_quickly(request, reader, false),
        }
        return Outcome::Status(Status::new(status));
    }
    let head = reader.take_head();
    let length = head.length;
    let announced = if is_bodiless(request, status) { content_length(&head.fields) } else { length };
    let plan = reader.plan();
    let (mut response, advice) = match plan.family.respond(request, &plan.target, head) {
        Ok(PassedHead::Response(response, advice)) => (response, advice),
        Ok(PassedHead::Elsewhere(outcome)) => {
            if let Some(tee) = tee {
                tee.give_up();
            }
            finish_quickly(request, reader, false);
            return outcome;
        }
        Err(fault) => {
            let error = UpstreamError::Fault(fault);
            error.log(request, TryStage::ReadingHead);
            plan.record.set_status(error.upstream_status());
            return error.outcome(request);
        }
    };
    if let (Some(peer), Some(servers)) = (reader.peer(), plan.servers()) {
        plan.record.with_fields(|fields| servers.answered(request, peer, fields, &mut response));
    }
    if let Some(rate) = advice.limit_rate {
        request.own.get::<LimitRate>().set(rate);
    }
    // As in nginx, an unbuffered response goes to the client only.
    let buffered = advice.buffering.unwrap_or(buffering);
    if buffered {
        reader.limit_rate(request);
    }
    if let Some(tee) = tee {
        if buffered {
            let follows = !is_bodiless(request, status);
            response.body = match tee::run(tee, request, reader, follows) {
                Some(body) if follows => body,
                None if follows => return Outcome::Status(Status::INTERNAL_SERVER_ERROR),
                _ => Body::Source(Box::new(AnnouncedBody(announced))),
            };
            return Outcome::Response(response);
        }
        tee.give_up();
    }
    if reader.may_have_trailers() {
        response.late_trailers.passed = pass_trailers;
        response.late_trailers.passed_beside_others = length.is_some() && !request.client.is_multiplexed();
    }
    if is_bodiless(request, status) {
        finish_quickly(request, reader, !request.is_head());
        response.body = Body::Source(Box::new(AnnouncedBody(announced)));
        return Outcome::Response(response);
    }
    let announced = reader.left().is_some();
    let (mut front, broken) = front(request, &mut reader);
    // As long as nothing was sent, the client can be told that this is no response.
    if broken
        && front.is_empty()
        && let Some(error) =
            reader.unsaid.error.take_if(|error| matches!(error, UpstreamError::Fault(Fault::Invalid(_))))
    {
        error.log(request, TryStage::ReadingBody);
        reader.plan().record.set_status(error.upstream_status());
        return error.outcome(request);
    }
    response.body = if announced && reader.is_complete() && !broken && front.len() <= 1 {
        front.pop().map_or(Body::Empty, Body::Bytes)
    } else {
        flowing(request, reader, front, broken, buffered)
    };
    Outcome::Response(response)
}

/// Drops an answer that is not sent to the client.
pub fn dismiss(request: &Request, reached: ReachedServer) {
    let ReachedServer { upstream, lease, began } = reached;
    finish_quickly(request, BodyReader::new(upstream, lease, began), false);
}

/// Passes `101 Switching Protocols` on, or answers CONNECT: bytes go both ways after it.
fn upgrade(request: &mut Request, upstream: Box<UpstreamExchange>, lease: Lease) -> Outcome {
    let UpstreamExchange { plan, connection: Some(connection), head, sent_all, .. } = *upstream else {
        return Outcome::Status(Status::INTERNAL_SERVER_ERROR);
    };
    // The bytes through the tunnel are counted at its end, including those that have come behind the head.
    let behind = connection.kit.input.bytes.len() as u64;
    plan.record.with(|last| last.received = last.received.saturating_sub(behind));
    plan.record.count(&lease);
    if request.is_subrequest() {
        return Outcome::Status(Status::BAD_GATEWAY);
    }
    if !sent_all || !request.body.is_done() {
        // The rest of the request would be taken for the bytes after HTTP.
        let early = Fault::invalid("upstream switched protocols before it had all of the request");
        UpstreamError::Fault(early).log(request, TryStage::ReadingHead);
        plan.record.set_status(502);
        request.answered.persistence.close(CloseReason::BadBody);
        return Outcome::Status(Status::BAD_GATEWAY);
    }
    match plan.family.respond(request, &plan.target, head) {
        Ok(PassedHead::Response(mut response, _)) => {
            plan.record.shrink();
            let send_timeout = request.settings().get::<CoreSettings>().send_timeout;
            // A stream of a shared connection cannot leave HTTP in this way.
            let Some(upstream) = connection.leave() else { return Outcome::Status(Status::BAD_GATEWAY) };
            // The end of a connection may be a client that has gone. The end of a stream only is the end of its sending.
            let half_close = if request.client.is_multiplexed() { HalfClose::Client } else { HalfClose::Neither };
            response.takeover = Some(Box::new(Tunnel::new(upstream, lease, plan, send_timeout, half_close)));
            Outcome::Response(response)
        }
        Ok(PassedHead::Elsewhere(outcome)) => outcome,
        Err(fault) => {
            let error = UpstreamError::Fault(fault);
            error.log(request, TryStage::ReadingHead);
            error.outcome(request)
        }
    }
}

/// The body whose last bytes are still to come, after its `front`.
#[inline(never)]
fn flowing(request: &mut Request, mut reader: BodyReader, front: Front, broken: bool, buffered: bool) -> Body {
    let announced = reader.left().is_some();
    reader.log = Some(DetachedLog::of(request));
    let buffering = buffered.then(|| buffering(request, reader.plan()));
    if let Some(error) = reader.unsaid.error.take() {
        error.log(request, TryStage::ReadingBody);
    }
    reader.borrow_body(request);
    let finish = reader.plan().table().proxy_ignore_client_abort;
    let paced = Pace::is_expected(request);
    let manner = Manner { buffering, broken, finish, paced, connection: request.client.number };
    Body::Source(Box::new(Flow::new(reader, front, announced, manner)))
}

/// The pieces of a body that have come with its head: usually one.
pub type Front = SmallVec<[Bytes; 1]>;

/// The pieces of a body that have come already, and whether it is broken, so that no more will come.
pub fn front(request: &Request, reader: &mut BodyReader) -> (Front, bool) {
    let mut front = Front::new();
    let mut broken = false;
    for _ in 0..TAKEN_AT_ONCE {
        match reader.ready() {
            Ok(ReadReadiness::Piece(piece)) => front.push(piece),
            Ok(ReadReadiness::End | ReadReadiness::Nothing) => break,
            Err(BrokenBody) => {
                broken = true;
                break;
            }
        }
    }
    say(request, reader);
    (front, broken)
}

fn buffering(request: &Request, plan: &Plan) -> Buffering {
    let table = plan.table();
    let memory = table.most_buffered();
    let write = Size(table.temp_file_write_size()).in_memory().min(memory / 2).max(1);
    let place = temporary(request, plan.family, table.proxy_max_temp_file_size.0, memory.saturating_sub(write));
    Buffering { memory, write, place }
}

/// The place for temporary files of a response of at most `max` bytes, which are read in pieces of `read` bytes; if
/// there may be one.
pub fn temporary(request: &Request, family: &dyn Family, max: u64, read: usize) -> Option<SpoolPlace> {
    if max == 0 {
        return None;
    }
    let folder = family.temp_path(request.settings())?;
    Some(SpoolPlace {
        files: request.generation.files.clone(),
        aio: aio::resolve(request)?,
        client: request.client_key(),
        folder: CString::new(bytes_of(&folder.path).into_owned()).ok()?,
        max,
        read,
    })
}

/// Finishes a response whose body is not sent. The bytes that are here already are read past, so that the connection
/// may be used again. `expected`: the body should be empty, and bytes of it are logged.
fn finish_quickly(request: &Request, mut reader: BodyReader, expected: bool) {
    if !expected {
        reader.for_nobody();
    }
    for _ in 0..TAKEN_AT_ONCE {
        if !matches!(reader.ready(), Ok(ReadReadiness::Piece(_))) {
            break;
        }
    }
    say(request, &mut reader);
}

/// Logs messages that are no reason to give the response up.
fn say(request: &Request, reader: &mut BodyReader) {
    let unsaid = &mut reader.unsaid;
    for text in std::mem::take(&mut unsaid.output) {
        log_error!(request, Error, "{}", ErrorOutput(&text, TryStage::ReadingBody));
    }
    if let Some((level, what)) = unsaid.surplus.take() {
        freerun_http::log::write(&request, level, format_args!("{what} while {}", TryStage::ReadingBody));
    }
    if std::mem::take(&mut unsaid.ejected) {
        log_error!(request, Warn, "{} while {}", FailureVerdict::EJECTED, TryStage::ReadingHead);
    }
}

fn is_bodiless(request: &Request, status: u16) -> bool {
    request.is_head() || matches!(status, 204 | 304)
}

/// The value of `Content-Length` of a body that does not follow.
pub fn content_length(fields: &HeadFields) -> Option<u64> {
    let field = fields.iter().find(|field| field.id == HeaderId::ContentLength)?;
    std::str::from_utf8(field.value()).ok()?.trim().parse().ok()
}

/// Whether `error_page` has an entry for the status here, whether or not it is followed.
///
/// An error within an error page gets the built-in page where `recursive_error_pages` is off. An SSI include with
/// `stub` shows its stub instead.
pub fn has_page(request: &Request, status: u16) -> bool {
    let pages = request.settings().get::<CoreSettings>().error_page.as_slice();
    pages.iter().any(|page| page.statuses.contains(&status))
}
