//! From the head of an upstream server's response to the response for the client.

use std::ffi::CString;

use bytes::Bytes;
use freerun_http::content::aio;
use freerun_http::content::response::Body;
use freerun_http::log::Detached;
use freerun_http::log_error;
use freerun_http::message::persistence::CloseReason;
use freerun_http::module::Outcome;
use freerun_http::request::Request;
use freerun_http::settings::core::CoreSettings;
use freerun_http::variables::LimitRate;
use freerun_http::write::pace::Pace;
use freerun_proto::HeaderId;
use freerun_runtime::loops;
use freerun_upstream::Lease;
use smallvec::SmallVec;

use super::Keep;
use super::attempt::{Passage, Plan};
use super::flow::{Announced, Buffering, Flow, Manner};
use super::reader::{Broken, Ejected, ErrorOutput, Reader, Ready};
use super::spool::Place;
use super::trouble::{Doing, Trouble};
use super::tunnel::Tunnel;
use crate::proxy::cache::answer::offer;
use crate::proxy::cache::keep::Judged;
use crate::proxy::exchange::{Family, Fault, Passed};
use crate::proxy::fields::HeadFields;

/// How many pieces of a body are taken at once that have come with the head.
const TAKEN_AT_ONCE: usize = 16;

/// Makes the answer. `keep` is what is to become of it besides.
pub fn answer(request: &mut Request, passage: Box<Passage>, lease: Lease, keep: Option<Keep>) -> Outcome {
    let began = note(request, &passage, &lease);
    let status = passage.head.status;
    let judged = keep.map(|keep| keep.judge(request, passage.plan.family, &passage.head));
    let Judged { kept, offers } = judged.unwrap_or_default();
    if status == 101 {
        return upgrade(request, passage, lease);
    }
    let mut reader = Reader::new(passage, lease, began);
    let options = &reader.plan().options;
    if options.intercept_errors && status >= 300 && has_page(request, status) {
        if status == 401 {
            request.challenges = reader.take_head().fields.values(b"WWW-Authenticate").collect();
        }
        match kept {
            Some(kept) => drop(kept.run(request, reader, false)),
            None => finish_quickly(request, reader, false),
        }
        return Outcome::Status(status);
    }
    let (buffering, pass_trailers) = (options.buffering, options.pass_trailers);
    let head = reader.take_head();
    let length = head.length;
    let announced = if is_bodiless(request, status) { content_length(&head.fields) } else { length };
    let plan = reader.plan();
    let (mut response, advice) = match plan.family.respond(request, &plan.target, head) {
        Ok(Passed::Response(response, advice)) => (response, advice),
        Ok(Passed::Elsewhere(outcome)) => {
            if let Some(kept) = kept {
                kept.give_up();
            }
            finish_quickly(request, reader, false);
            return outcome;
        }
        Err(fault) => {
            let trouble = Trouble::Fault(fault);
            trouble.log(request, Doing::ReadingHead);
            plan.record.with(|last| last.status = trouble.upstream_status());
            return trouble.outcome(request);
        }
    };
    if let (Some(peer), Some(servers)) = (reader.peer(), plan.servers()) {
        plan.record.with_fields(|fields| servers.answered(request, peer, fields, &mut response));
    }
    if let Some(rate) = advice.limit_rate {
        request.own.get::<LimitRate>().set(rate);
    }
    if let Some(rfc9111) = offers {
        offer(&mut response, rfc9111);
        response.single_range = true;
    }
    // As in nginx, what is to come to the client as it comes is not kept.
    let buffered = advice.buffering.unwrap_or(buffering);
    if buffered {
        reader.limit_rate();
    }
    if let Some(kept) = kept {
        if buffered {
            let follows = !is_bodiless(request, status);
            response.body = match kept.run(request, reader, follows) {
                Some(body) if follows => body,
                None if follows => return Outcome::Status(500),
                _ => Body::Source(Box::new(Announced(announced))),
            };
            return Outcome::Response(response);
        }
        kept.give_up();
    }
    if length.is_none() {
        response.late_trailers.passed = pass_trailers;
    }
    if is_bodiless(request, status) {
        finish_quickly(request, reader, !request.is_head());
        response.body = Body::Source(Box::new(Announced(announced)));
        return Outcome::Response(response);
    }
    let announced = reader.left().is_some();
    let (mut front, broken) = front(request, &mut reader);
    response.body = if announced && reader.is_over() && !broken && front.len() <= 1 {
        front.pop().map_or(Body::Empty, Body::Bytes)
    } else {
        flowing(request, reader, front, broken, buffered)
    };
    Outcome::Response(response)
}

/// Takes note of an answer, whose body is still to be read; when the try began, in [`loops::nanos`].
fn note(request: &Request, passage: &Passage, lease: &Lease) -> u64 {
    let (record, head) = (&passage.plan.record, &passage.head);
    let began = record.answered(head, request.generation.keeps_upstream_head);
    lease.header(head.status, record.took(), loops::millis());
    began
}

/// An answer that the client does not get.
pub fn dismiss(request: &Request, passage: Box<Passage>, lease: Lease) {
    let began = note(request, &passage, &lease);
    finish_quickly(request, Reader::new(passage, lease, began), false);
}

/// Passes `101 Switching Protocols` on, after which bytes go both ways.
fn upgrade(request: &mut Request, passage: Box<Passage>, lease: Lease) -> Outcome {
    let Passage { plan, wire: Some(wire), head, sent_all, .. } = *passage else { return Outcome::Status(500) };
    // What goes through the tunnel counts at its end, with what of it has come behind the head.
    let behind = wire.kit.input.bytes.len() as u64;
    plan.record.with(|last| last.received = last.received.saturating_sub(behind));
    plan.record.count(&lease);
    if request.is_subrequest() {
        return Outcome::Status(502);
    }
    if !sent_all || !request.body.is_done() {
        // What is left of the request would be taken for what comes after HTTP.
        let early = Fault::invalid("upstream switched protocols before it had all of the request");
        Trouble::Fault(early).log(request, Doing::ReadingHead);
        plan.record.with(|last| last.status = 502);
        request.persistence.close(CloseReason::BadBody);
        return Outcome::Status(502);
    }
    match plan.family.respond(request, &plan.target, head) {
        Ok(Passed::Response(mut response, _)) => {
            plan.record.shrink();
            let send_timeout = request.settings().get::<CoreSettings>().send_timeout;
            response.takeover = Some(Box::new(Tunnel::new(wire, lease, plan, send_timeout)));
            Outcome::Response(response)
        }
        Ok(Passed::Elsewhere(outcome)) => outcome,
        Err(fault) => {
            let trouble = Trouble::Fault(fault);
            trouble.log(request, Doing::ReadingHead);
            trouble.outcome(request)
        }
    }
}

/// A body of which something is still to come, behind its `front`.
#[inline(never)]
fn flowing(request: &mut Request, mut reader: Reader, front: Front, broken: bool, buffered: bool) -> Body {
    let announced = reader.left().is_some();
    reader.log = Some(Detached::of(request));
    let buffering = buffered.then(|| buffering(request, reader.plan()));
    if let Some(trouble) = reader.unsaid.trouble.take() {
        trouble.log(request, Doing::ReadingBody);
    }
    reader.borrow_body(request);
    let finish = reader.plan().options.ignore_client_abort;
    let paced = Pace::is_expected(request);
    let manner = Manner { buffering, broken, finish, paced, connection: request.client.number };
    Body::Source(Box::new(Flow::new(reader, front, announced, manner)))
}

/// Pieces of a body that have come with its head: mostly one.
pub type Front = SmallVec<[Bytes; 1]>;

/// What has come already of a body, and whether no more will though it is not all.
pub fn front(request: &Request, reader: &mut Reader) -> (Front, bool) {
    let mut front = Front::new();
    let mut broken = false;
    for _ in 0..TAKEN_AT_ONCE {
        match reader.ready() {
            Ok(Ready::Piece(piece)) => front.push(piece),
            Ok(Ready::End | Ready::Nothing) => break,
            Err(Broken) => {
                broken = true;
                break;
            }
        }
    }
    say(request, reader);
    (front, broken)
}

fn buffering(request: &Request, plan: &Plan) -> Buffering {
    let options = &plan.options;
    let write = options.temp_file_write_size.min(options.buffers / 2).max(1);
    Buffering { memory: options.buffers, write, place: place(request, plan, options.buffers.saturating_sub(write)) }
}

/// Where files for a response go, if it may have one.
fn place(request: &Request, plan: &Plan, read: usize) -> Option<Place> {
    temporary(request, plan.family, plan.options.max_temp_file_size, read)
}

/// The same with files of `max` bytes at most, which are read in pieces of `read` bytes.
pub fn temporary(request: &Request, family: &dyn Family, max: u64, read: usize) -> Option<Place> {
    if max == 0 {
        return None;
    }
    let folder = family.temp_path(request.settings())?;
    Some(Place {
        files: request.generation.files.clone(),
        aio: aio::resolve(request)?,
        client: request.client_key(),
        folder: CString::new(folder.path.as_str()).ok()?,
        max,
        read,
    })
}

/// The body is not sent. What of it is here already is read past, so that the connection may be used again. `expected` to be
/// empty: what there is of it is told in the log.
fn finish_quickly(request: &Request, mut reader: Reader, expected: bool) {
    if !expected {
        reader.for_nobody();
    }
    for _ in 0..TAKEN_AT_ONCE {
        if !matches!(reader.ready(), Ok(Ready::Piece(_))) {
            break;
        }
    }
    say(request, &mut reader);
}

/// Logs what is not a reason to give the response up.
fn say(request: &Request, reader: &mut Reader) {
    let unsaid = &mut reader.unsaid;
    for text in std::mem::take(&mut unsaid.output) {
        log_error!(request, Error, "{}", ErrorOutput(&text, Doing::ReadingBody));
    }
    if let Some((level, what)) = unsaid.surplus.take() {
        freerun_http::log::write(&request, level, format_args!("{what} while {}", Doing::ReadingBody));
    }
    if std::mem::take(&mut unsaid.ejected) {
        log_error!(request, Warn, "{}", Ejected(Doing::ReadingHead));
    }
}

fn is_bodiless(request: &Request, status: u16) -> bool {
    request.is_head() || matches!(status, 204 | 304)
}

/// What `Content-Length` says of a body that does not follow.
pub fn content_length(fields: &HeadFields) -> Option<u64> {
    let field = fields.iter().find(|field| field.id == HeaderId::ContentLength)?;
    std::str::from_utf8(field.value()).ok()?.trim().parse().ok()
}

/// Whether `error_page` has something for the status here, be it followed or not: an error within an error page that is
/// not, because `recursive_error_pages` is off, gets the built-in page.
pub fn has_page(request: &Request, status: u16) -> bool {
    let pages = request.settings().get::<CoreSettings>().error_page.as_slice();
    !request.plain_errors && pages.iter().any(|page| page.statuses.contains(&status))
}
