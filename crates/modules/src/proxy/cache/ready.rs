//! The client's head of a stored response, made once and used again: most of what a hit in memory costs is making it.

use bytes::Bytes;
use freerun_cache::object::{MADE, Object};
use freerun_http::content::response::{AsWritten, Body, Field, Response};
use freerun_http::request::Request;
use freerun_proto::HeaderId;

use crate::proxy::settings::FamilySettings;

/// What a head depends on besides the stored one: the settings of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    generation: u64,
    settings: usize,
}

impl Place {
    /// Where the request is, if a head does not depend on more there: by RFC 9111 each has its age.
    pub fn of(request: &Request, shared: &FamilySettings) -> Option<Place> {
        let settings = std::ptr::from_ref(shared).addr();
        (!shared.proxy_cache_rfc9111).then_some(Place { generation: request.generation.number, settings })
    }
}

/// A head, ready for a client.
struct Ready {
    place: Place,
    status: u16,
    content_type: Bytes,
    charset: Option<Bytes>,
    last_modified: Option<i64>,
    etag: Option<Bytes>,
    ranges: bool,
    fields: Vec<Field>,
    written: AsWritten,
}

/// More fields than this do not fit into what is kept.
const MOST_FIELDS: usize = (MADE - size_of::<Ready>()) / size_of::<Field>();

/// The response that was made of the object in this place before, without its body.
pub fn again(object: &Object, place: Place) -> Option<Box<Response>> {
    object.made.with(|ready: &Ready| {
        if ready.place != place {
            return None;
        }
        let mut response = Response::new(ready.status, ready.content_type.clone(), Body::Empty);
        response.charset.clone_from(&ready.charset);
        response.last_modified = ready.last_modified;
        response.etag.clone_from(&ready.etag);
        response.ranges = ready.ranges;
        response.fields.extend(ready.fields.iter().cloned());
        response.as_written = Some(Box::new(ready.written.clone()));
        Some(Box::new(response))
    })
}

/// The name of a field, where it is a usual one as text of the program: that needs no count of who holds it.
fn common(name: &Bytes) -> Bytes {
    let usual = HeaderId::of(name).name();
    if *usual.as_bytes() == **name { Bytes::from_static(usual.as_bytes()) } else { name.clone() }
}

/// Keeps what was made of an object, if the next request of this place gets the same: a 200 of another server, in which
/// nothing was for this server, and nothing is changed by rules that look at the request. Of several places of a configuration
/// that share an object the first one has it: they would take it from each other with each request.
pub fn keep(object: &Object, place: Place, response: &Response) {
    let Some(written) = response.as_written.as_deref() else { return };
    let is_of_now = |ready: &Ready| (ready.place.generation == place.generation).then_some(());
    if object.made.with(is_of_now).is_some() {
        return;
    }
    let depends = |(name, _): &Field| match HeaderId::of(name) {
        HeaderId::Location | HeaderId::Refresh | HeaderId::SetCookie => true,
        _ => name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"X-Accel-")),
    };
    if object.head.status != 200
        || response.status != 200
        || response.location.is_some()
        || response.fields.len() > MOST_FIELDS
        || object.head.fields.iter().any(depends)
    {
        return;
    }
    object.made.keep(Ready {
        place,
        status: response.status,
        content_type: response.content_type.clone(),
        charset: response.charset.clone(),
        last_modified: response.last_modified,
        etag: response.etag.clone(),
        ranges: response.ranges,
        fields: response.fields.iter().map(|(name, value)| (common(name), value.clone())).collect(),
        written: written.clone(),
    });
}
