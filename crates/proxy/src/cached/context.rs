//! The cache as one request uses it, and what the settings allow with a stored response.

use std::sync::Arc;

use freerun_cache::cache::Cache;
use freerun_cache::object::StoredObject;
use freerun_cache::rules::Lifetime;
use freerun_cache::rules::reuse::{Use, reuse};
use freerun_http::body::collect::KeptBody;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::{HeaderId, Method};
use freerun_runtime::files::Aio;

use crate::cached::clock::unix_now;
use crate::cached::find::CacheRequest;
use crate::cached::key_text::Answers;
use crate::cached::respond::stored;
use crate::cached::store_decision::control;
use crate::exchange::family::Family;
use crate::settings::FamilySettings;
use crate::settings::next::NextUpstream;
use crate::state::cache_status;
use crate::state::cache_status::CacheStatus;

/// Whether a stored response may be used.
pub enum Usability {
    /// The response is fresh.
    Fresh,
    /// The response is stale, and the client accepts that.
    Accepted,
    /// The response is stale, and has to be revalidated.
    Stale,
    /// The response may not be used, and no server may be asked.
    Refused,
}

impl Usability {
    /// Whether a response with this lifetime may be used for the request at this time, in unix seconds.
    pub fn of(request: &Request, shared: &FamilySettings, lifetime: &Lifetime, now: u64) -> Usability {
        if !shared.proxy_cache_rfc9111 {
            return if lifetime.is_fresh(now) { Usability::Fresh } else { Usability::Stale };
        }
        match reuse(lifetime, &control(request), now) {
            Use::Fresh => Usability::Fresh,
            Use::Stale => Usability::Accepted,
            Use::Validate => Usability::Stale,
            Use::Refuse => Usability::Refused,
        }
    }
}

/// The cache as one request uses it.
pub struct CacheContext<'s> {
    /// The member of the family.
    pub family: &'static dyn Family,
    /// The settings of the member.
    pub shared: &'s FamilySettings,
    /// The wanted response.
    pub wanted: CacheRequest,
    /// The way in which files are accessed.
    pub aio: Aio,
}

impl CacheContext<'_> {
    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.wanted.cache
    }

    /// Whether it counts that the client goes away.
    pub fn is_watched(&self, request: &Request) -> bool {
        !request.client.is_background() && !self.shared.proxy_ignore_client_abort
    }

    /// Whether a response to the request may be stored at all.
    pub fn may_keep(&self, request: &Request) -> bool {
        // The body of a GET is not part of the key.
        let fat = request.asked.method != Method::Post && !request.is_subrequest() && has_body(request);
        let as_head = request.asked.method == Method::Head && !self.family.converts_head(request);
        !fat && !self.is_far(request) && (!as_head || Answers::of(&self.wanted.text) == Answers::HeadAlone)
            // Bytes after a 101 are for this client only.
            && !self.family.upgrades(request)
    }

    /// Whether the request's range begins beyond `cache_max_range_offset`.
    fn is_far(&self, request: &Request) -> bool {
        let Some(most) = self.shared.proxy_cache_max_range_offset else { return false };
        !request.is_subrequest()
            && request.head.value(HeaderId::Range).is_some_and(|range| begins_behind(range, most.0))
    }

    /// Answers with a stored response.
    pub fn use_stored(&self, request: &mut Request, object: &StoredObject, status: CacheStatus) -> Outcome {
        cache_status::note(request, self.cache(), status);
        let now = unix_now();
        cache_status::used(self.cache(), object, status, now);
        stored(request, self.family, self.shared, object, &object.entry.lifetime(), now)
    }

    /// Whether a stale response may be used while the server is asked.
    pub fn may_use_while_updating(&self, object: &StoredObject, now: u64) -> bool {
        let lifetime = object.entry.lifetime();
        let says = self.shared.proxy_cache_use_stale.0.contains(NextUpstream::Updating);
        !lifetime.must_revalidate && !lifetime.no_cache && (says || lifetime.may_refresh_behind(now))
    }

    /// Whether a stale response may be used after this failure.
    pub fn may_cover(&self, object: &StoredObject, cause: NextUpstream) -> bool {
        let lifetime = object.entry.lifetime();
        let is_error = !matches!(cause, NextUpstream::Http403 | NextUpstream::Http404 | NextUpstream::Http429);
        let says = self.shared.proxy_cache_use_stale.0.contains(cause);
        !lifetime.must_revalidate && !lifetime.no_cache && (says || is_error && lifetime.may_cover_errors(unix_now()))
    }
}

/// Whether the client sends a body with the request.
pub fn has_body(request: &Request) -> bool {
    let kept = request.find_shared::<KeptBody>().is_some_and(|kept| kept.0.borrow().is_some());
    kept || request.body.received() > 0 || request.body.declared_length() != Some(0) && !request.body.is_done()
}

/// Whether the first range begins at or beyond this offset, or counts from the end.
fn begins_behind(range: &[u8], offset: u64) -> bool {
    let Some(ranges) = range.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")).map(|_| &range[6..]) else {
        return false;
    };
    let digits = ranges.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    match std::str::from_utf8(&digits[..end]).ok().filter(|digits| !digits.is_empty()) {
        Some(first) => first.parse().map_or(true, |first: u64| first >= offset),
        None => digits.first() == Some(&b'-'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_begin_behind_an_offset() {
        for (range, behind) in [
            ("bytes=4-5", true),
            ("bytes=3-", true),
            ("bytes=2-9", false),
            ("bytes= 4-", true),
            ("Bytes=-1", true),
            ("bytes=1-2,4-5", false),
            ("bytes=4-5,1-2", true),
            ("bytes=99999999999999999999-", true),
            ("bytes=x", false),
            ("bytes=", false),
            ("items=4-", false),
            ("", false),
        ] {
            assert_eq!(begins_behind(range.as_bytes(), 3), behind, "{range}");
        }
    }
}
