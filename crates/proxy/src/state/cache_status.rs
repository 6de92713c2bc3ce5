//! `$upstream_cache_status`, and the same counted for the cache.

use std::cell::Cell;

use freerun_cache::cache::Cache;
use freerun_cache::object::{Object, ObjectBody};
pub use freerun_cache::usage::Answered as Status;
use freerun_http::request::Request;

#[derive(Default)]
struct Note(Cell<Option<Status>>);

/// That of a request, if a cache had to do with it.
pub fn of(request: &Request) -> Option<Status> {
    request.own.find::<Note>()?.0.get()
}

/// Notes it. A request may change its mind; the last word counts. What is fetched behind a client's back does not.
pub fn note(request: &Request, cache: &Cache, status: Status) {
    let was = request.own.get::<Note>().0.replace(Some(status));
    if !request.client.is_background() {
        cache.usage().count(was, status);
    }
}

/// A request is answered with an object, at a time in seconds.
pub fn used(cache: &Cache, object: &Object, now: u64) {
    if let ObjectBody::File { len, .. } = object.body {
        cache.usage().read.add(len, now);
    }
}

/// No cache has to do with the request from here on.
pub fn forget(request: &Request) {
    if let Some(note) = request.own.find::<Note>() {
        note.0.set(None);
    }
}
