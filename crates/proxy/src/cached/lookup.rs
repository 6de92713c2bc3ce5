//! The path of a request through a cache: its key, the stored response, and the decision what to do.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use freerun_cache::cache::{Cache, Leave};
use freerun_cache::fill::{Fill, Lead, Progress};
use freerun_cache::key::Key;
use freerun_cache::object::Object;
use freerun_cache::rules::Lifetime;
use freerun_cache::rules::reuse::{Use, reuse};
use freerun_http::body;
use freerun_http::body::collect::KeptBody;
use freerun_http::content::aio;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Body;
use freerun_proto::{HeaderId, Method};
use freerun_runtime::files::Aio;
use freerun_runtime::log::clock;
use freerun_runtime::loops;

use crate::cached::background;
use crate::cached::fetch::Ask;
use crate::cached::find::{Wanted, in_memory};
use crate::cached::follower_body::FollowerBody;
use crate::cached::key_sums::key_of;
use crate::cached::key_text::{Answers, for_head_alone};
use crate::cached::own_fetch::OwnFetch;
use crate::cached::purge;
use crate::cached::respond::{respond, stored};
use crate::cached::storing::{control, variant};
use crate::client::client_watch::ClientWatch;
use crate::exchange::family::Family;
use crate::settings::FamilySettings;
use crate::settings::next::NextUpstream;
use crate::state::cache_status;
use crate::state::cache_status::Status;

/// How often a request looks again after the response it waited for turned out to be unusable.
const MAX_ROUNDS: usize = 8;

/// The current time in unix seconds, which caches use.
pub fn unix_now() -> u64 {
    u64::try_from(clock::now().secs).unwrap_or(0)
}

/// The result of the quick look at a request.
pub enum Quick {
    /// No cache is used for the request.
    Uncached,
    /// The request is answered.
    Answered(Outcome),
    /// The request needs further work.
    Ask(Job),
    /// The request's body has to be read first.
    Read,
}

/// The further work for a request.
pub struct Job {
    wanted: Wanted,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The request is answered from the cache, or by a server for it.
    Answer,
    /// A server is asked, whether or not a response is stored.
    Bypass,
    /// The stored responses are removed.
    Purge,
    /// The request cannot be answered from a cache, but may make stored responses invalid.
    Unsafe,
}

/// Whether a stored response may be used.
enum Judged {
    Fresh,
    /// The response is stale, and the client accepts that.
    Wanted,
    Stale,
    /// The response may not be used, and no server may be asked.
    Refused,
}

fn judged(request: &Request, shared: &FamilySettings, lifetime: &Lifetime, now: u64) -> Judged {
    if !shared.proxy_cache_rfc9111 {
        return if lifetime.is_fresh(now) { Judged::Fresh } else { Judged::Stale };
    }
    match reuse(lifetime, &control(request), now) {
        Use::Fresh => Judged::Fresh,
        Use::Stale => Judged::Wanted,
        Use::Validate => Judged::Stale,
        Use::Refuse => Judged::Refused,
    }
}

/// Answers from memory, or returns what else is to be done. It never waits.
pub fn quick(request: &mut Request, family: &'static dyn Family) -> Quick {
    look(request, family, false)
}

/// Looks into the cache. `read`: the body of the request, which may be a part of its key, was read.
fn look(request: &mut Request, family: &'static dyn Family, read: bool) -> Quick {
    let location = request.place.location.clone();
    cache_status::forget(request);
    let Some(shared) = family.shared(&location.settings) else { return Quick::Uncached };
    let purges = shared.proxy_cache_purge.of_method(request).filter(|_| !request.is_subrequest());
    if purges.is_some_and(|rule| !rule.allows(request)) {
        return Quick::Answered(Outcome::Status(403));
    }
    if !shared.proxy_cache.is_on() {
        return if purges.is_some() { Quick::Answered(Outcome::Status(404)) } else { Quick::Uncached };
    }
    let cache = match shared.proxy_cache.find(request) {
        Ok(Some(cache)) => cache,
        Ok(None) => return Quick::Uncached,
        Err(unknown) => {
            log_error!(request, Error, "{unknown}");
            return Quick::Answered(Outcome::Status(500));
        }
    };
    let what = if purges.is_some() || shared.proxy_cache_purge.holds(request) {
        What::Purge
    } else if shared.proxy_cache_methods.has(request.asked.method) {
        What::Answer
    } else if shared.proxy_cache_rfc9111 && !matches!(request.asked.method, Method::Options | Method::Trace) {
        What::Unsafe
    } else {
        return Quick::Uncached;
    };
    if !read && what != What::Unsafe && !request.is_subrequest() && has_body(request) && !request.body.is_done() {
        return Quick::Read;
    }
    let mut text = match key(request, family, shared) {
        Ok(Some(text)) => text,
        Ok(None) => return Quick::Uncached,
        Err(outcome) => return Quick::Answered(outcome),
    };
    let mut sum = key_of(&text);
    let as_head = request.asked.method == Method::Head && !family.converts_head(request);
    // In this order, because a response is stored before its fill ends.
    if as_head && what == What::Answer && cache.fill_of(sum).is_none() && cache.peek(sum).is_none() {
        // The answer to a HEAD that was passed on as HEAD has no body, and must never be taken for one to GET; an
        // answer to GET serves both.
        for_head_alone(&mut text);
        sum = key_of(&text);
    }
    let ask = |what, text: Vec<u8>| {
        Quick::Ask(Job { wanted: Wanted { cache: cache.clone(), text: text.into(), key: sum }, what })
    };
    if what != What::Answer {
        return ask(what, text);
    }
    if shared.proxy_cache_bypass.hold(request) {
        return ask(What::Bypass, text);
    }
    let now = unix_now();
    let Some(object) = in_memory(request, cache, &text, sum, now) else { return ask(what, text) };
    let lifetime = object.entry.lifetime();
    match judged(request, shared, &lifetime, now) {
        Judged::Fresh => {
            cache_status::note(request, cache, Status::Hit);
            cache_status::used(cache, &object, Status::Hit, now);
            Quick::Answered(stored(request, family, shared, &object, &lifetime, now))
        }
        _ => ask(what, text),
    }
}

/// The text of a request's key. `None`: it has none, so nothing is cached.
fn key(request: &Request, family: &dyn Family, shared: &FamilySettings) -> Result<Option<Vec<u8>>, Outcome> {
    let mut text = Vec::with_capacity(128);
    match &shared.proxy_cache_key {
        Some(template) => template.render_into(request, &mut text),
        None => {
            if !family.cache_key(request, &mut text)? {
                return Ok(None);
            }
        }
    }
    Ok(Some(text))
}

/// Reads the request's body, and then looks into the cache.
pub async fn read(request: &mut Request, family: &'static dyn Family) -> Quick {
    match body::collect(request).await {
        Ok(_) => look(request, family, true),
        Err(error) => Quick::Answered(Outcome::Status(error.status())),
    }
}

/// Answers a request that uses a cache.
pub async fn serve(request: &mut Request, family: &'static dyn Family, job: Job) -> Outcome {
    let location = request.place.location.clone();
    let Some(shared) = family.shared(&location.settings) else { return Outcome::Status(500) };
    let Job { wanted, what } = job;
    let Some(aio) = aio::resolve(request) else { return Outcome::Status(500) };
    let serve = Serve { family, shared, wanted, aio };
    match what {
        What::Purge => {
            let rule = shared.proxy_cache_purge.of_method(request).map(|rule| &**rule);
            purge::run(request, &serve.wanted, rule).await
        }
        What::Unsafe => Ask::new(&serve, request).invalidating(request).await,
        What::Bypass => serve.bypass(request).await,
        What::Answer => serve.answer(request).await,
    }
}

/// The state of a request while it is served.
pub struct Serve<'s> {
    /// The member of the family.
    pub family: &'static dyn Family,
    /// The settings of the member.
    pub shared: &'s FamilySettings,
    /// The wanted response.
    pub wanted: Wanted,
    /// The way in which files are accessed.
    pub aio: Aio,
}

/// The result of waiting for the response to another request.
enum Waited {
    /// The request is answered.
    Answered(Outcome),
    /// That response cannot be used: look again.
    Again,
    /// Another variant is wanted: look again under its key. The names are those of the fields that choose it.
    Variant(Key, Bytes),
    /// Ask the server without storing the response.
    Alone,
}

impl Serve<'_> {
    fn cache(&self) -> &Arc<Cache> {
        &self.wanted.cache
    }

    /// Whether it counts that the client goes away.
    pub fn is_watched(&self, request: &Request) -> bool {
        !request.client.is_background() && !self.shared.proxy_ignore_client_abort
    }

    /// Whether a response to the request may be stored at all.
    fn may_keep(&self, request: &Request) -> bool {
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

    async fn bypass(&self, request: &mut Request) -> Outcome {
        cache_status::note(request, self.cache(), Status::Bypass);
        let ask = Ask::new(self, request);
        if !self.may_keep(request) {
            return ask.alone(request, Status::Bypass, None).await;
        }
        let key = self.wanted.key;
        for _ in 0..MAX_ROUNDS {
            let known = self.cache().peek(key);
            let is_coming = |fill: &Arc<Fill>| matches!(fill.progress(), Progress::Known(_)) && !fill.is_whole();
            if self.cache().fill_of(key).as_ref().is_some_and(is_coming) {
                break;
            }
            let age = Some(Duration::ZERO);
            match self.cache().lead(key, key, known.as_ref(), age, &self.aio, request.client_key()) {
                Lead::Leader(filling) => {
                    let outcome = ask.keeping(request, filling, Status::Bypass, None).await;
                    // A response that is being stored is used by all requests; the response that it replaces is not
                    // used any more.
                    let coming = self.cache().fill_of(key);
                    if let Some(old) = known
                        && coming.is_some_and(|fill| matches!(fill.progress(), Progress::Known(_)))
                    {
                        self.cache().discard(&old, Leave::Invalidated);
                    }
                    return outcome;
                }
                Lead::Changed => {}
                // The response has come and is being stored: this request's response replaces it afterwards.
                Lead::Follow(fill) if fill.is_whole() => {
                    let limit = self.shared.proxy_cache_lock_timeout;
                    if freerun_runtime::timer::timeout(limit, fill.closed()).await.is_err() {
                        break;
                    }
                }
                Lead::Follow(_) | Lead::Alone => break,
            }
        }
        ask.alone(request, Status::Bypass, None).await
    }

    async fn answer(&self, request: &mut Request) -> Outcome {
        let began = loops::now();
        let mut counted = false;
        let mut waits = true;
        let mut forced = None;
        for _ in 0..MAX_ROUNDS {
            let now = unix_now();
            let mut located = self.wanted.locate(request, &self.aio, now).await;
            if let Some((key, names)) = forced.take()
                && located.object.is_none()
            {
                (located.key, located.names) = (key, Some(names));
            }
            let mut stale = None;
            if let Some(object) = located.object {
                let lifetime = object.entry.lifetime();
                match judged(request, self.shared, &lifetime, now) {
                    Judged::Fresh => return self.use_stored(request, &object, Status::Hit),
                    Judged::Wanted => return self.use_stored(request, &object, Status::Stale),
                    Judged::Refused => return Outcome::Status(504),
                    Judged::Stale => stale = Some(object),
                }
            } else if self.shared.proxy_cache_rfc9111 && control(request).only_if_cached {
                return Outcome::Status(504);
            }
            let status = if stale.is_some() { Status::Expired } else { Status::Miss };
            cache_status::note(request, self.cache(), status);
            let ask = Ask::new(self, request).of_variant(located.names.clone());
            let known = stale.as_ref().map(|object| &object.entry).or(located.unreadable.as_ref());
            if located.taken || !self.may_keep(request) {
                if !located.taken {
                    // A response that has come already can be used all the same.
                    if let Some(fill) = self.cache().fill_of(located.key).filter(|fill| fill.is_whole())
                        && let Waited::Answered(outcome) = self.wait(request, &fill, Duration::ZERO).await
                    {
                        return outcome;
                    }
                    // The response may have been stored since the lookup.
                    if self.cache().has_changed(located.key, known) {
                        continue;
                    }
                }
                return ask.alone(request, status, stale).await;
            }
            // A request is counted once, however often it looks; a response that is being fetched was asked for often
            // enough.
            if stale.is_none() && !counted && self.shared.proxy_cache_min_uses > 1 {
                // Without a count, the response was stored since the lookup.
                let Some(uses) = self.cache().count(located.key, known, now) else { continue };
                counted = true;
                if uses < self.shared.proxy_cache_min_uses {
                    return ask.alone(request, status, None).await;
                }
            }
            let age = Some(self.shared.proxy_cache_lock_age);
            let main = self.wanted.key;
            match self.cache().lead(located.key, main, known, age, &self.aio, request.client_key()) {
                Lead::Leader(filling) => {
                    let Some(object) = &stale else { return ask.keeping(request, filling, status, stale).await };
                    let behind = self.shared.proxy_cache_background_update && request.asked.method != Method::Post;
                    if !behind || !self.may_update_behind(object, now) {
                        return ask.keeping(request, filling, status, stale).await;
                    }
                    return match background::update(request, self, object.clone(), filling) {
                        Ok(()) => self.use_stored(request, object, Status::Stale),
                        Err(filling) => ask.keeping(request, filling, status, stale).await,
                    };
                }
                Lead::Follow(fill) => {
                    if let Some(object) = &stale
                        && self.may_update_behind(object, now)
                        && !fill.is_whole()
                    {
                        return self.use_stored(request, object, Status::Updating);
                    }
                    if !waits {
                        return ask.alone(request, status, stale).await;
                    }
                    let left = self.shared.proxy_cache_lock_timeout.saturating_sub(loops::now() - began);
                    match self.wait(request, &fill, left).await {
                        Waited::Answered(outcome) => return outcome,
                        // All requests that have waited in vain ask at once, unless a response is stored by now.
                        Waited::Again => waits = loops::now() - began < self.shared.proxy_cache_lock_timeout,
                        Waited::Variant(key, names) => forced = Some((key, names)),
                        Waited::Alone => return ask.alone(request, status, stale).await,
                    }
                }
                Lead::Changed => {}
                Lead::Alone => return ask.alone(request, status, stale).await,
            }
        }
        cache_status::note(request, self.cache(), Status::Miss);
        Ask::new(self, request).alone(request, Status::Miss, None).await
    }

    /// Waits for the response to another request, and follows it.
    async fn wait(&self, request: &mut Request, fill: &Arc<Fill>, left: Duration) -> Waited {
        // The place at the first byte is kept from here on: if nothing is stored, others would go on without this
        // request.
        let mut place = None;
        let head = match fill.progress() {
            Progress::Known(head) => head,
            Progress::Never => return Waited::Again,
            Progress::Asked if !self.shared.proxy_cache_lock => return Waited::Alone,
            Progress::Asked => {
                let _waits = self.wanted.cache.usage().wait();
                let Some(follower) = fill.join(self.aio.clone(), request.client_key()) else { return Waited::Again };
                // After `lock_age` one of the waiting requests asks, too.
                let pause = left.min(self.shared.proxy_cache_lock_age.max(Duration::from_millis(1)));
                let client = ClientWatch::new(request.client.clone(), self.is_watched(request));
                match client.unless_gone(freerun_runtime::timer::timeout(pause, follower.head())).await {
                    Err(gone) => return Waited::Answered(gone.outcome(request)),
                    Ok(Ok(Some(head))) => {
                        place = Some(follower);
                        head
                    }
                    Ok(Ok(None)) => return Waited::Again,
                    Ok(Err(_)) if left <= pause => return Waited::Alone,
                    Ok(Err(_)) => return Waited::Again,
                }
            }
        };
        if *head.key != *self.wanted.text {
            return Waited::Alone;
        }
        if !matches!(judged(request, self.shared, &head.lifetime, unix_now()), Judged::Fresh) {
            // A response that is stale from the beginning, or for this client, is no answer. It is stored soon, and can
            // be revalidated then.
            drop(place);
            let client = ClientWatch::new(request.client.clone(), self.is_watched(request));
            return match client.unless_gone(freerun_runtime::timer::timeout(left, fill.closed())).await {
                Err(gone) => Waited::Answered(gone.outcome(request)),
                Ok(Ok(())) => Waited::Again,
                Ok(Err(_)) => Waited::Alone,
            };
        }
        if let Some(vary) = &head.vary {
            let own = variant(request, vary.names.clone(), self.wanted.key).variant;
            if own != vary.variant {
                if own == fill.key() {
                    return Waited::Alone;
                }
                // Variants are attached to the first response of the key, which is stored soon.
                if fill.is_whole() {
                    let _ = freerun_runtime::timer::timeout(left, fill.closed()).await;
                }
                return Waited::Variant(own, vary.names.clone());
            }
        }
        let (family, shared, lifetime) = (self.family, self.shared, head.lifetime);
        let (length, body) = match fill.body() {
            Some(bytes) => (Some(bytes.len() as u64), if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }),
            None => {
                let place = place.or_else(|| fill.join(self.aio.clone(), request.client_key()));
                let Some(follower) = place else { return Waited::Again };
                // As long as nothing was sent to the client, it need not share the fate of this body.
                let client = ClientWatch::new(request.client.clone(), self.is_watched(request));
                let pause = left.min(self.shared.proxy_cache_lock_age.max(Duration::from_millis(1)));
                match client.unless_gone(freerun_runtime::timer::timeout(pause, follower.begun())).await {
                    Err(gone) => return Waited::Answered(gone.outcome(request)),
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => return Waited::Again,
                    Ok(Err(_)) if left <= pause => return Waited::Alone,
                    Ok(Err(_)) => return Waited::Again,
                }
                let again = OwnFetch::new(request, family, head.clone());
                let length = follower.length();
                (length, Body::Source(Box::new(FollowerBody::new(request, family, follower, again))))
            }
        };
        cache_status::note(request, self.cache(), Status::Hit);
        self.cache().usage().add_bytes(Status::Hit, length.unwrap_or(0));
        Waited::Answered(respond(request, family, shared, &head, &lifetime, unix_now(), length, || body))
    }

    /// Answers with a stored response.
    pub fn use_stored(&self, request: &mut Request, object: &Object, status: Status) -> Outcome {
        cache_status::note(request, self.cache(), status);
        let now = unix_now();
        cache_status::used(self.cache(), object, status, now);
        stored(request, self.family, self.shared, object, &object.entry.lifetime(), now)
    }

    /// Whether a stale response may be used while the server is asked.
    fn may_update_behind(&self, object: &Object, now: u64) -> bool {
        let lifetime = object.entry.lifetime();
        let says = self.shared.proxy_cache_use_stale.0.contains(NextUpstream::Updating);
        !lifetime.must_revalidate && !lifetime.no_cache && (says || lifetime.may_refresh_behind(now))
    }

    /// Whether a stale response may be used after this failure.
    pub fn may_cover(&self, object: &Object, cause: NextUpstream) -> bool {
        let lifetime = object.entry.lifetime();
        let is_error = !matches!(cause, NextUpstream::Http403 | NextUpstream::Http404 | NextUpstream::Http429);
        let says = self.shared.proxy_cache_use_stale.0.contains(cause);
        !lifetime.must_revalidate && !lifetime.no_cache && (says || is_error && lifetime.may_cover_errors(unix_now()))
    }
}

/// Whether the client sends a body with the request.
fn has_body(request: &Request) -> bool {
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
