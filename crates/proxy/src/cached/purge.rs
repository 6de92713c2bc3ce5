//! Removes stored responses, at once: for `cache_purge`, and for whoever may ask the API.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freerun_cache::cache::{Cache, IndexAnswer};
use freerun_cache::fill::Progress;
use freerun_cache::key::Key;
use freerun_cache::purge::{MAX_TEXT, Purge, PurgeRefused};
use freerun_cache::rules::tags;
use freerun_cluster::{Cluster, PurgeDelivery};
use freerun_conf::text_of;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, LocalBoxFuture, Response};
use freerun_proto::Status;

use crate::cached::clock::unix_now;
use crate::cached::find::CacheRequest;
use crate::cached::key_text::for_head_alone;
use crate::caches::purge_rule::MethodRule;
use crate::caches::zones::Caches;
use crate::exchange::family::Family;

/// The most tags that one request may name; a request with more is refused.
pub const MAX_TAGS: usize = 64;

/// The longest wait of the answer until the purge is written to disk, so that it outlives the process. The purge is in
/// force before.
const WRITTEN_DOWN: Duration = Duration::from_secs(1);

/// The page for a purge in the words of ngx_cache_purge.
const PURGED: &str = "<html>\r\n<head><title>Successful purge</title></head>\r\n<body>\r\n\
    <center><h1>Successful purge</h1></center>\r\n</body>\r\n</html>\r\n";

/// Answers every request to a location that purges a key of a zone.
pub fn by_key<'r>(request: &'r mut Request, family: &'static dyn Family) -> LocalBoxFuture<'r, Outcome> {
    let location = request.place.location.clone();
    Box::pin(async move {
        let rule = family.shared(&location.settings).and_then(|shared| shared.proxy_cache_purge.key());
        let Some((defined, key)) = rule.and_then(|(zone, key)| Some((zone.get()?, key))) else {
            return Outcome::Status(Status::NOT_FOUND);
        };
        let wanted = CacheRequest::of(defined.folder.cache.clone(), key.render(request).into_owned().into());
        answer(request, &wanted, vec![wanted.as_purge()], wanted.purge(), true).await
    })
}

/// Answers a purge request; `rule`: it has the method of this rule.
pub async fn run(request: &Request, wanted: &CacheRequest, rule: Option<&MethodRule>) -> Outcome {
    let named = tags_of(request);
    if named.len() > MAX_TAGS {
        return Outcome::Status(Status::BAD_REQUEST);
    }
    let (what, purged) = if !named.is_empty() {
        let what = named.iter().cloned().map(Purge::Tag).collect();
        (what, purge_tags(&wanted.cache, named).map(|()| true))
    } else if rule.is_some_and(|rule| rule.purges_all) {
        let all = Purge::Prefix(Bytes::new());
        let purged = wanted.cache.purge(&all).map(|_| true);
        (vec![all], purged)
    } else {
        (vec![wanted.as_purge()], wanted.purge())
    };
    answer(request, wanted, what, purged, rule.is_some()).await
}

async fn answer(
    request: &Request,
    wanted: &CacheRequest,
    what: Vec<Purge>,
    purged: Result<bool, PurgeRefused>,
    has_page: bool,
) -> Outcome {
    let delivery = if purged.is_ok() { tell_others(request, &wanted.cache, what).await } else { None };
    // Another machine may have what this one has not.
    let purged = purged.map(|purged| purged || delivery.is_some());
    if matches!(purged, Ok(true)) {
        write_down(request, &wanted.cache, &wanted.text).await;
    }
    match purged {
        Ok(true) if delivery == Some(PurgeDelivery::Failed) => Outcome::Status(Status::SERVICE_UNAVAILABLE),
        Ok(true) if delivery == Some(PurgeDelivery::Stored) => {
            Response::new(Status::ACCEPTED, Bytes::new(), Body::Empty).into()
        }
        Ok(true) if has_page => {
            Response::new(Status::OK, "text/html", Body::Bytes(Bytes::from_static(PURGED.as_bytes()))).into()
        }
        Ok(true) => Response::new(Status::NO_CONTENT, Bytes::new(), Body::Empty).into(),
        Ok(false) => Outcome::Status(Status::NOT_FOUND),
        Err(refused) => {
            log_error!(request, Error, "purge of \"{}\" refused: {refused}", text_of(&wanted.text));
            Outcome::Status(match refused {
                PurgeRefused::TooLong => Status::URI_TOO_LONG,
            })
        }
    }
}

/// Purges all objects that have one of these tags.
///
/// # Errors
/// A tag is too long; nothing is purged.
pub fn purge_tags(cache: &Cache, tags: Vec<Bytes>) -> Result<(), PurgeRefused> {
    let tags: Vec<Purge> = tags.into_iter().map(Purge::Tag).collect();
    cache.purge_all(&tags).map(|_| ())
}

/// Tells other machines of purges of a cache, which are in force here already; it waits for a second at most. `None`: purges
/// of the cache concern this machine alone.
pub async fn tell_others(request: &Request, cache: &Cache, what: Vec<Purge>) -> Option<PurgeDelivery> {
    let parts = &request.generation.parts;
    let caches = parts.get::<Caches>()?;
    let defined = caches.iter().find(|defined| defined.path.sync && std::ptr::eq(&*defined.folder.cache, cache))?;
    let name = &defined.path.name;
    let what = what.into_iter().map(bounded).collect();
    let delivery = parts.get::<Cluster>()?.tell_purges(name, what).await;
    match delivery {
        PurgeDelivery::Delivered => {}
        PurgeDelivery::Stored => {
            log_error!(
                request,
                Warn,
                "other machines will be told of a purge of cache \"{name}\" when the engine is there"
            );
        }
        PurgeDelivery::Failed => {
            log_error!(
                request,
                Error,
                "other machines may not hear of a purge of cache \"{name}\": the engine is away, and the purge could not be stored"
            );
        }
    }
    Some(delivery)
}

/// A purge whose text is no longer than other machines take. The key of a very long one is purged with its neighbours.
fn bounded(what: Purge) -> Purge {
    match what {
        Purge::Key(text) if text.len() > MAX_TEXT => Purge::Prefix(text.slice(..MAX_TEXT)),
        what => what,
    }
}

/// Waits, for a second at most, until a purge of `what` has reached the disk. It is in force before.
pub async fn write_down(request: &Request, cache: &Cache, what: &[u8]) {
    if !cache.settled(WRITTEN_DOWN).await {
        log_error!(request, Warn, "purge of \"{}\" is not written down yet", text_of(what));
    }
}

/// The tags that a request names, in the same fields as a response.
fn tags_of(request: &Request) -> Vec<Bytes> {
    let copy = Bytes::copy_from_slice;
    let fields = request.head.fields().map(|field| (copy(field.name), copy(field.value)));
    tags::tags(&fields.collect::<Vec<_>>())
}

impl CacheRequest {
    /// Names the cache entry with this key, stored or not.
    pub fn of(cache: Arc<Cache>, text: Bytes) -> CacheRequest {
        let key = Key::of(&text);
        CacheRequest { cache, text, key }
    }

    /// The purge of what is stored under the key, or, if its text ends with an asterisk, under all keys that begin with the text
    /// before that.
    pub fn as_purge(&self) -> Purge {
        match self.text.strip_suffix(b"*") {
            Some(prefix) => Purge::Prefix(self.text.slice_ref(prefix)),
            None => Purge::Key(self.text.clone()),
        }
    }

    /// Removes what is stored under the key, or, if its text ends with an asterisk, under all keys that begin with the text
    /// before that. Returns whether there was something, or may have been.
    ///
    /// # Errors
    /// The text before an asterisk is too long; nothing is removed.
    pub fn purge(&self) -> Result<bool, PurgeRefused> {
        match self.text.strip_suffix(b"*") {
            Some(prefix) => self.cache.purge(&Purge::Prefix(self.text.slice_ref(prefix))).map(|_| true),
            None => Ok(self.remove()),
        }
    }

    /// Removes the stored response of the key, with all its variants. Returns whether there was one, or may have been
    /// on a disk that is not completely indexed yet.
    pub fn remove(&self) -> bool {
        let unknown = matches!(self.cache.find(self.key, unix_now()), IndexAnswer::Unknown);
        // A response that is being stored is used by all requests already.
        let coming = self.cache.fill_of(self.key);
        let coming = coming.is_some_and(|fill| matches!(fill.progress(), Progress::Known(_)));
        // The answer to HEAD that is stored under a key of its own is removed, too.
        let mut alone = self.text.to_vec();
        for_head_alone(&mut alone);
        self.cache.remove(Key::of(&alone));
        self.cache.remove(self.key) || unknown || coming
    }

    /// The wanted response of another target of the same server, if the key ends with the request's target.
    pub fn beside(&self, path: &[u8], target: &[u8]) -> Option<CacheRequest> {
        let text: Bytes = [self.text.strip_suffix(path)?, target].concat().into();
        let key = Key::of(&text);
        Some(CacheRequest { cache: self.cache.clone(), text, key })
    }
}
