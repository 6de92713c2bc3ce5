//! The first look of a request at a cache: which operation it is, the key of the response, and the answer if that is in
//! memory and fresh. It never waits. A request that needs more becomes a [`Job`].

use freerun_http::body;
use freerun_http::content::aio;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::{Method, Status};

use crate::cached::answer::answer;
use crate::cached::clock::unix_now;
use crate::cached::context::{CacheContext, Usability, has_body};
use crate::cached::fetch::Ask;
use crate::cached::find::{CacheRequest, in_memory};
use crate::cached::key_sums::key_of;
use crate::cached::key_text::for_head_alone;
use crate::cached::purge;
use crate::cached::respond::stored;
use crate::exchange::family::Family;
use crate::settings::FamilySettings;
use crate::state::cache_status;
use crate::state::cache_status::CacheStatus;

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
    wanted: CacheRequest,
    operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    /// The request is answered from the cache, or by a server for it.
    Answer,
    /// A server is asked, whether or not a response is stored.
    Bypass,
    /// The stored responses are removed.
    Purge,
    /// The request cannot be answered from a cache, but may make stored responses invalid.
    Unsafe,
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
        return Quick::Answered(Outcome::Status(Status::FORBIDDEN));
    }
    if !shared.proxy_cache.is_on() {
        return if purges.is_some() { Quick::Answered(Outcome::Status(Status::NOT_FOUND)) } else { Quick::Uncached };
    }
    let cache = match shared.proxy_cache.find(request) {
        Ok(Some(cache)) => cache,
        Ok(None) => return Quick::Uncached,
        Err(unknown) => {
            log_error!(request, Error, "{unknown}");
            return Quick::Answered(Outcome::Status(Status::INTERNAL_SERVER_ERROR));
        }
    };
    let operation = if purges.is_some() || shared.proxy_cache_purge.holds(request) {
        Operation::Purge
    } else if shared.proxy_cache_methods.has(request.asked.method) {
        Operation::Answer
    } else if shared.proxy_cache_rfc9111 && !matches!(request.asked.method, Method::Options | Method::Trace) {
        Operation::Unsafe
    } else {
        return Quick::Uncached;
    };
    if !read
        && operation != Operation::Unsafe
        && !request.is_subrequest()
        && has_body(request)
        && !request.body.is_done()
    {
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
    if as_head && operation == Operation::Answer && cache.fill_of(sum).is_none() && cache.peek(sum).is_none() {
        // The answer to a HEAD that was passed on as HEAD has no body, and must never be taken for one to GET; an
        // answer to GET serves both.
        for_head_alone(&mut text);
        sum = key_of(&text);
    }
    let ask = |operation, text: Vec<u8>| {
        Quick::Ask(Job { wanted: CacheRequest { cache: cache.clone(), text: text.into(), key: sum }, operation })
    };
    if operation != Operation::Answer {
        return ask(operation, text);
    }
    if shared.proxy_cache_bypass.hold(request) {
        return ask(Operation::Bypass, text);
    }
    let now = unix_now();
    let Some(object) = in_memory(request, cache, &text, sum, now) else { return ask(operation, text) };
    let lifetime = object.entry.lifetime();
    match Usability::of(request, shared, &lifetime, now) {
        Usability::Fresh => {
            cache_status::note(request, cache, CacheStatus::Hit);
            cache_status::used(cache, &object, CacheStatus::Hit, now);
            Quick::Answered(stored(request, family, shared, &object, &lifetime, now))
        }
        _ => ask(operation, text),
    }
}

/// The text of a request's key. `None`: it has none, so nothing is cached.
///
/// # Errors
/// The URI cannot be determined, which is logged.
pub fn key(request: &Request, family: &dyn Family, shared: &FamilySettings) -> Result<Option<Vec<u8>>, Outcome> {
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

/// Does the further work for a request.
pub async fn serve(request: &mut Request, family: &'static dyn Family, job: Job) -> Outcome {
    let location = request.place.location.clone();
    let Some(shared) = family.shared(&location.settings) else { return Outcome::Status(Status::INTERNAL_SERVER_ERROR) };
    let Job { wanted, operation } = job;
    let Some(aio) = aio::resolve(request) else { return Outcome::Status(Status::INTERNAL_SERVER_ERROR) };
    let context = CacheContext { family, shared, wanted, aio };
    match operation {
        Operation::Purge => {
            let rule = shared.proxy_cache_purge.of_method(request).map(|rule| &**rule);
            purge::run(request, &context.wanted, rule).await
        }
        Operation::Unsafe => Ask::new(&context, request).invalidating(request).await,
        Operation::Answer | Operation::Bypass => answer(&context, request, operation == Operation::Bypass).await,
    }
}
