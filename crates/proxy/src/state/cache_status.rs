//! The value of `$upstream_cache_status`, and the counters of the cache for it.

use std::cell::Cell;

use freerun_cache::cache::Cache;
use freerun_cache::object::{ObjectBody, StoredObject};
pub use freerun_cache::usage::CacheStatus;
use freerun_http::log_step;
use freerun_http::request::Request;

#[derive(Default)]
struct Note(Cell<Option<CacheStatus>>);

/// The status of a request, if a cache was used for it.
pub fn of(request: &Request) -> Option<CacheStatus> {
    request.own.find::<Note>()?.0.get()
}

/// Records the status. If it is recorded several times, the last one counts. A fetch in the background does not count.
pub fn note(request: &Request, cache: &Cache, status: CacheStatus) {
    let was = request.own.get::<Note>().0.replace(Some(status));
    if !request.client.is_background() {
        cache.usage().count(was, status);
    }
    log_step!(request, "the cache says {}", status.word());
}

/// Counts that a request is answered with an object and this status, at a time in seconds.
pub fn used(cache: &Cache, object: &StoredObject, status: CacheStatus, now: u64) {
    let len = match &object.body {
        ObjectBody::File { len, .. } => {
            cache.usage().read.add(*len, now);
            *len
        }
        ObjectBody::Bytes(bytes) => bytes.len() as u64,
    };
    cache.usage().add_bytes(status, len);
}

/// Removes the status: no cache is used for the request from here on.
pub fn forget(request: &Request) {
    if let Some(note) = request.own.find::<Note>() {
        note.0.set(None);
    }
}
