//! LOCK and UNLOCK.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::body;
use freerun_http::body::collect::CollectedBody;
use freerun_http::content::{open, path};
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, Response};
use freerun_proto::uri::{EscapeSet, escape};
use freerun_proto::{HeaderId, Status};
use freerun_runtime::loops;
use freerun_tls::random;

use super::guard::{IfField, for_file};
use super::locks::{Lock, LockRefusal};
use super::{bare, key, xml, xml_response, zone};
use crate::content::dav;
use crate::html;

/// The body of a request, which has to fit into memory.
///
/// # Errors
/// The status of the answer.
pub(super) async fn read_body(request: &mut Request) -> Result<Bytes, Status> {
    let body = body::collect(request).await.map_err(|error| error.status())?;
    match &*body {
        CollectedBody::Memory(bytes) => Ok(bytes.clone()),
        CollectedBody::File(_) => Err(Status::CONTENT_TOO_LARGE),
    }
}

/// Answers LOCK.
pub(super) async fn lock(request: &mut Request) -> Outcome {
    match try_lock(request).await {
        Ok(response) => response.into(),
        // There is no page for it.
        Err(Status::LOCKED) => bare(Status::LOCKED),
        Err(status) => Outcome::Status(status),
    }
}

async fn try_lock(request: &mut Request) -> Result<Box<Response>, Status> {
    let (locks, time) = zone(request).map(|zone| (zone.locks.clone(), zone.time)).ok_or(Status::METHOD_NOT_ALLOWED)?;
    let deep = match request.head.value(HeaderId::Depth) {
        None | Some(b"infinity") => true,
        Some(b"0") => false,
        Some(other) => {
            log_error!(request, Error, "client sent invalid \"Depth\" header: \"{}\"", text_of(other));
            return Err(Status::BAD_REQUEST);
        }
    };
    let text = read_body(request).await?;
    let sent = IfField::of(request)?;
    let file = key(path::file_name(request));
    let now = loops::now();
    if text.is_empty() {
        let lock = sent.tokens().find_map(|token| locks.refresh(&token, &file, now));
        let lock =
            lock.ok_or(if sent.tokens().next().is_none() { Status::BAD_REQUEST } else { Status::PRECONDITION_FAILED })?;
        return Ok(lock_response(Status::OK, &lock));
    }
    let info = xml::lock_info(&text).ok_or(Status::BAD_REQUEST)?;
    if !sent.holds(request, &locks).await {
        return Err(Status::PRECONDITION_FAILED);
    }
    let is_new = open::stat(request, &file).await.is_err();
    if is_new && request.asked.path.ends_with(b"/") {
        return Err(Status::CONFLICT);
    }
    if is_new {
        let folder = file.iter().rposition(|byte| *byte == b'/').map_or(&file[..], |slash| &file[..slash.max(1)]);
        if open::stat(request, folder).await.is_err() {
            return Err(Status::CONFLICT);
        }
        let met = for_file(request, &locks, &file, true).await;
        if met.iter().any(|lock| !lock.covers(&file) && !sent.tokens().any(|token| *token == *lock.token)) {
            return Err(Status::LOCKED);
        }
    }
    let lock = Lock {
        path: file.clone().into(),
        root: request.asked.path.clone().into(),
        deep,
        shared: info.shared,
        token: token().ok_or(Status::INTERNAL_SERVER_ERROR)?.into(),
        owner: info.owner.into(),
        time,
        end: now.checked_add(time).ok_or(Status::INTERNAL_SERVER_ERROR)?,
    };
    let lock = locks.add(lock, now).map_err(|refused| match refused {
        LockRefusal::Conflict => Status::LOCKED,
        LockRefusal::Full => {
            log_error!(request, Error, "there is no room for another lock in the zone of \"dav_ext_lock\"");
            Status::INSUFFICIENT_STORAGE
        }
    })?;
    if is_new && let Err(status) = dav::make_empty_file(request).await {
        locks.remove(&lock.token, &file, now);
        return Err(status);
    }
    Ok(lock_response(if is_new { Status::CREATED } else { Status::OK }, &lock))
}

/// A token that nobody can guess (RFC 9562, version 4).
fn token() -> Option<String> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes).ok()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut out = String::from("urn:uuid:");
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    Some(out)
}

/// The response with a lock.
fn lock_response(status: Status, lock: &Arc<Lock>) -> Box<Response> {
    let mut out =
        b"<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n<D:prop xmlns:D=\"DAV:\">\n<D:lockdiscovery>\n".to_vec();
    push_active(lock, &mut out);
    out.extend_from_slice(b"</D:lockdiscovery>\n</D:prop>\n");
    let mut response = xml_response(status, out);
    response.add(&b"Lock-Token"[..], format!("<{}>", lock.token).into_bytes());
    response
}

/// Appends a lock as a property has it.
pub(super) fn push_active(lock: &Lock, out: &mut Vec<u8>) {
    let scope = if lock.shared { "shared" } else { "exclusive" };
    let depth = if lock.deep { "infinity" } else { "0" };
    let mut text = |text: &str| out.extend_from_slice(text.as_bytes());
    text("<D:activelock>\n<D:locktype><D:write/></D:locktype>\n");
    text(&format!("<D:lockscope><D:{scope}/></D:lockscope>\n<D:depth>{depth}</D:depth>\n"));
    if !lock.owner.is_empty() {
        text("<D:owner>");
        html::escape(lock.owner.as_bytes(), out);
        out.extend_from_slice(b"</D:owner>\n");
    }
    let left = lock.end.saturating_duration_since(loops::now()).as_secs_f64().ceil();
    let rest = format!(
        "<D:timeout>Second-{left}</D:timeout>\n<D:locktoken><D:href>{}</D:href></D:locktoken>\n<D:lockroot><D:href>",
        lock.token
    );
    out.extend_from_slice(rest.as_bytes());
    html::escape(&escape(EscapeSet::Uri, &lock.root), out);
    out.extend_from_slice(b"</D:href></D:lockroot>\n</D:activelock>\n");
}

/// Answers UNLOCK.
pub(super) fn unlock(request: &mut Request) -> Outcome {
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let Some(zone) = zone(request) else { return Outcome::Status(Status::METHOD_NOT_ALLOWED) };
    let field = request.head.values_named(b"Lock-Token").next().map(<[u8]>::trim_ascii);
    let token = field.and_then(|field| field.strip_prefix(b"<")?.strip_suffix(b">"));
    let Some(token) = token.and_then(|token| std::str::from_utf8(token).ok()) else {
        return Outcome::Status(Status::BAD_REQUEST);
    };
    let file = key(path::file_name(request));
    if !zone.locks.remove(token, &file, loops::now()) {
        return Outcome::Status(Status::CONFLICT);
    }
    Response::new(Status::NO_CONTENT, Bytes::new(), Body::Empty).into()
}
