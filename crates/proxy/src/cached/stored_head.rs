//! The head of a stored response as it is sent to clients, made once and used again: making it is most of the cost of a
//! hit in memory.

use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::object::{MADE, StoredObject};
use freerun_http::message::fields::{Fields, PreparedFields};
use freerun_http::request::Request;
use freerun_http::request::response::{AsWritten, Body, Field, Response};
use freerun_http::write::fields::further;
use freerun_http::write::text::TextHead;
use freerun_proto::{HeaderId, Status};

use crate::settings::FamilySettings;

/// The settings of a configuration that a head depends on besides the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadSettings {
    generation: u64,
    settings: usize,
}

impl HeadSettings {
    /// The place of the request, if the head depends on nothing more there: under RFC 9111 each head has its own age.
    pub fn of(request: &Request, shared: &FamilySettings) -> Option<HeadSettings> {
        let settings = std::ptr::from_ref(shared).addr();
        (!shared.proxy_cache_rfc9111).then_some(HeadSettings { generation: request.generation.number, settings })
    }
}

/// A head that is ready for a client.
struct ReadyHead {
    place: HeadSettings,
    status: u16,
    content_type: Bytes,
    charset: Option<Bytes>,
    ranges: bool,
    fields: Arc<PreparedFields>,
    written: Arc<AsWritten>,
}

/// The most bytes of the fields that are kept: their text, and their representation as fields.
const MOST: usize = MADE - size_of::<(ReadyHead, PreparedFields, AsWritten)>();

/// The response that was made of the object in this place before, without its body.
pub fn again(object: &StoredObject, place: HeadSettings) -> Option<Box<Response>> {
    object.made.with(|ready: &ReadyHead| {
        if ready.place != place {
            return None;
        }
        let mut response = Response::new(Status::new(ready.status), ready.content_type.clone(), Body::Empty);
        response.charset.clone_from(&ready.charset);
        response.last_modified = ready.fields.last_modified;
        response.etag.clone_from(&ready.fields.etag);
        response.ranges = ready.ranges;
        response.fields = Fields::begin(ready.fields.clone());
        response.as_written = Some(ready.written.clone());
        Some(response)
    })
}

/// The name of a field; a usual name is static text of the program, which needs no reference count.
fn common(name: &Bytes) -> Bytes {
    let usual = HeaderId::of(name).name();
    if *usual.as_bytes() == **name { Bytes::from_static(usual.as_bytes()) } else { name.clone() }
}

/// Keeps the response made of an object, if the next request of this place gets the same.
///
/// It does for a 200 of another server, without a field that was for this server, and not changed by rules that look at
/// the request. If several places of a configuration share an object, only the first one keeps its head: otherwise they
/// would replace each other's with each request.
pub fn keep(object: &StoredObject, place: HeadSettings, request: &Request, response: &Response) {
    let Some(written) = &response.as_written else { return };
    let is_of_now = |ready: &ReadyHead| (ready.place.generation == place.generation).then_some(());
    if object.made.with(is_of_now).is_some() {
        return;
    }
    let depends = |(name, _): &Field| match HeaderId::of(name) {
        HeaderId::Location | HeaderId::Refresh | HeaderId::SetCookie => true,
        _ => name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"X-Accel-")),
    };
    if object.head.status != 200
        || response.status != Status::OK
        || response.location.is_some()
        || object.head.fields.iter().any(depends)
    {
        return;
    }
    let mut text = Vec::new();
    further(request, response, &mut TextHead::new(&mut text));
    if text.len() + response.fields.len() * size_of::<Field>() > MOST {
        return;
    }
    let fields = PreparedFields {
        fields: response.fields.iter().map(|(name, value)| (common(name), value.clone())).collect(),
        text: text.into(),
        etag: response.etag.clone(),
        last_modified: response.last_modified,
    };
    object.made.keep(ReadyHead {
        place,
        status: response.status.code(),
        content_type: response.content_type.clone(),
        charset: response.charset.clone(),
        ranges: response.ranges,
        fields: Arc::new(fields),
        written: written.clone(),
    });
}
