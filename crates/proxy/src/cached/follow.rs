//! A request that follows another one: it waits for the response which that one fetches, and answers with it.
//!
//! 1. **The head.** The follower waits for it until `cache_lock_timeout` is over, but at most `cache_lock_age` at a time.
//!    After that all waiting requests look again, and the first of them asks the server, too.
//! 2. **The comparison.** The head tells whether the response is an answer to this request, too ([`Match`]).
//! 3. **The body.** The follower waits for its first byte: as long as nothing was sent to the client, it need not share
//!    the fate of this response.
//!
//! A wait ends early when the client goes away. Where the response is not the answer, [`FollowEnd`] says how the request
//! may go on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_cache::fill::{Fill, Follower, Progress};
use freerun_cache::key::Key;
use freerun_cache::record::Head;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::Body;
use freerun_runtime::timer::timeout;

use crate::cached::clock::unix_now;
use crate::cached::context::{CacheContext, Usability};
use crate::cached::follower_body::FollowerBody;
use crate::cached::own_fetch::OwnFetch;
use crate::cached::respond::respond;
use crate::cached::store_decision::variant;
use crate::client::client_watch::ClientWatch;
use crate::state::cache_status;
use crate::state::cache_status::CacheStatus;

/// The way in which the wait for another request's response has end.
pub enum FollowEnd {
    /// The request is answered.
    Answered(Outcome),
    /// There was nothing to use, or nothing yet: it is of use to look again.
    Nothing,
    /// The request's variant is another one, with this key. Fields of these names choose it.
    OtherVariant(Key, Bytes),
    /// The response cannot be used, and to wait longer is of no use.
    Unusable,
}

/// Whether a response that is being fetched for another request is the answer to this one.
enum Match {
    /// The response is the answer.
    Same,
    /// The response is for another resource (a collision of MD5), or it is another variant and yet takes the key of this
    /// request's variant.
    Never,
    /// The response is stale from the beginning, or for this client. It is stored soon, and can be revalidated then.
    OnceStored,
    /// The request's variant is another one, with this key. Fields of these names choose it.
    OtherVariant(Key, Bytes),
}

impl Match {
    fn of(context: &CacheContext<'_>, request: &Request, fill: &Fill, head: &Head) -> Match {
        if *head.key != *context.wanted.text {
            return Match::Never;
        }
        if !matches!(Usability::of(request, context.shared, &head.lifetime, unix_now()), Usability::Fresh) {
            return Match::OnceStored;
        }
        let Some(vary) = &head.vary else { return Match::Same };
        match variant(request, vary.names.clone(), context.wanted.key).variant {
            own if own == vary.variant => Match::Same,
            own if own == fill.key() => Match::Never,
            own => Match::OtherVariant(own, vary.names.clone()),
        }
    }
}

/// The time that a request may spend on one wait.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// The rest of `cache_lock_timeout`.
    left: Duration,
    /// The part of it after which the request looks again, because it may lead then: `cache_lock_age`.
    pause: Duration,
}

impl Patience {
    fn new(left: Duration, lock_age: Duration) -> Patience {
        Patience { left, pause: left.min(lock_age.max(Duration::from_millis(1))) }
    }

    /// The end of a wait that was as long as the pause.
    fn run_out(self) -> FollowEnd {
        if self.left <= self.pause { FollowEnd::Unusable } else { FollowEnd::Nothing }
    }
}

/// Waits for the response to another request, for the rest of `cache_lock_timeout`, and answers with it.
pub async fn follow(context: &CacheContext<'_>, request: &mut Request, fill: &Arc<Fill>, left: Duration) -> FollowEnd {
    let patience = Patience::new(left, context.shared.proxy_cache_lock_age);
    let (head, place) = match await_head(context, request, fill, patience).await {
        Ok(known) => known,
        Err(end) => return end,
    };
    match Match::of(context, request, fill, &head) {
        Match::Same => {}
        Match::Never => return FollowEnd::Unusable,
        Match::OnceStored => {
            drop(place);
            return await_stored(context, request, fill, left).await;
        }
        Match::OtherVariant(key, names) => {
            // Variants are attached to the first response of the key, which is stored soon.
            if fill.is_whole() {
                let _ = timeout(left, fill.closed()).await;
            }
            return FollowEnd::OtherVariant(key, names);
        }
    }
    let (length, body) = match await_body(context, request, fill, &head, place, patience).await {
        Ok(begun) => begun,
        Err(end) => return end,
    };
    cache_status::note(request, context.cache(), CacheStatus::Hit);
    context.cache().usage().add_bytes(CacheStatus::Hit, length.unwrap_or(0));
    let (family, shared) = (context.family, context.shared);
    FollowEnd::Answered(respond(request, family, shared, &head, &head.lifetime, unix_now(), length, || body))
}

/// Waits for the head. A place at the first byte that was taken for that is kept: if nothing is stored, others would go
/// on without this request.
async fn await_head(
    context: &CacheContext<'_>,
    request: &mut Request,
    fill: &Arc<Fill>,
    patience: Patience,
) -> Result<(Arc<Head>, Option<Follower>), FollowEnd> {
    match fill.progress() {
        Progress::Known(head) => return Ok((head, None)),
        Progress::Never => return Err(FollowEnd::Nothing),
        Progress::Asked if !context.shared.proxy_cache_lock => return Err(FollowEnd::Unusable),
        Progress::Asked => {}
    }
    let _waits = context.cache().usage().wait();
    let follower = fill.join(context.aio.clone(), request.client_key()).ok_or(FollowEnd::Nothing)?;
    let client = ClientWatch::new(request.client.clone(), context.is_watched(request));
    match client.unless_gone(timeout(patience.pause, follower.head())).await {
        Err(gone) => Err(FollowEnd::Answered(gone.outcome(request))),
        Ok(Ok(Some(head))) => Ok((head, Some(follower))),
        Ok(Ok(None)) => Err(FollowEnd::Nothing),
        Ok(Err(_)) => Err(patience.run_out()),
    }
}

/// Waits until the response is stored.
async fn await_stored(
    context: &CacheContext<'_>,
    request: &mut Request,
    fill: &Arc<Fill>,
    left: Duration,
) -> FollowEnd {
    let client = ClientWatch::new(request.client.clone(), context.is_watched(request));
    match client.unless_gone(timeout(left, fill.closed())).await {
        Err(gone) => FollowEnd::Answered(gone.outcome(request)),
        Ok(Ok(())) => FollowEnd::Nothing,
        Ok(Err(_)) => FollowEnd::Unusable,
    }
}

/// Waits for the first byte of the body, unless all of it is here. Returns the body, and its length if that is known.
async fn await_body(
    context: &CacheContext<'_>,
    request: &mut Request,
    fill: &Arc<Fill>,
    head: &Arc<Head>,
    place: Option<Follower>,
    patience: Patience,
) -> Result<(Option<u64>, Body), FollowEnd> {
    if let Some(bytes) = fill.body() {
        let length = bytes.len() as u64;
        return Ok((Some(length), if bytes.is_empty() { Body::Empty } else { Body::Bytes(bytes) }));
    }
    let place = place.or_else(|| fill.join(context.aio.clone(), request.client_key()));
    let follower = place.ok_or(FollowEnd::Nothing)?;
    let client = ClientWatch::new(request.client.clone(), context.is_watched(request));
    match client.unless_gone(timeout(patience.pause, follower.begun())).await {
        Err(gone) => return Err(FollowEnd::Answered(gone.outcome(request))),
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => return Err(FollowEnd::Nothing),
        Ok(Err(_)) => return Err(patience.run_out()),
    }
    let again = OwnFetch::new(request, context.family, head.clone());
    let length = follower.length();
    Ok((length, Body::Source(Box::new(FollowerBody::new(request, context.family, follower, again)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_cut_into_pauses_of_the_lock_age() {
        let seconds = Duration::from_secs;
        for (left, age, pause, looks_again) in [
            // After `cache_lock_age` one of those who wait leads.
            (seconds(5), seconds(2), seconds(2), true),
            (seconds(5), Duration::ZERO, Duration::from_millis(1), true),
            // `cache_lock_timeout` ends first: the request asks alone.
            (seconds(5), seconds(5), seconds(5), false),
            (seconds(1), seconds(5), seconds(1), false),
            (Duration::ZERO, seconds(5), Duration::ZERO, false),
        ] {
            let patience = Patience::new(left, age);
            assert_eq!(patience.pause, pause);
            assert_eq!(matches!(patience.run_out(), FollowEnd::Nothing), looks_again, "{patience:?}");
        }
    }
}
