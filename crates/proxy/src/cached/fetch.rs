//! Asks a server for a response that concerns a cache.

use std::sync::Arc;

use bytes::Bytes;
use freerun_cache::cache::Leave;
use freerun_cache::fill::FillWriter;
use freerun_cache::object::{ObjectBody, StoredObject};
use freerun_cache::record::{Head, Reason};
use freerun_cache::rules::update::{also_invalid, invalidates, refreshed};
use freerun_cache::rules::{Answer, Field, Lifetime, Revalidation, Vary, may_validate, revalidated, values};
use freerun_http::log::DetachedLog;
use freerun_http::log_error;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_http::request::response::{Body, FileRange};
use freerun_http::request::slice_begin::SliceBegin;
use freerun_proto::{HeaderId, Method, Status};
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_serve::loops::background::Background;

use crate::cached::clock::unix_now;
use crate::cached::context::CacheContext;
use crate::cached::respond::{offer, stored};
use crate::cached::store_decision::{Keep, StoreDecision, asked, ignored, rules};
use crate::client::client_watch::ClientWatch;
use crate::client::error::UpstreamError;
use crate::client::{NoServer, ReachedServer, Terms, reach};
use crate::settings::next::NextUpstream;
use crate::state::cache_fetch::{CacheFetch, Validators};
use crate::state::cache_status;
use crate::state::cache_status::CacheStatus;

/// A question to a server on behalf of a request.
pub struct Ask<'s> {
    context: &'s CacheContext<'s>,
    /// Whether HEAD is passed on as GET.
    as_get: bool,
    /// The names of the fields that chose the variant that is asked for, if it is one.
    names: Option<Bytes>,
}

impl<'s> Ask<'s> {
    /// A question on behalf of this request.
    pub fn new(context: &'s CacheContext<'s>, request: &Request) -> Ask<'s> {
        Ask {
            context,
            as_get: request.asked.method == Method::Head && context.family.converts_head(request),
            names: None,
        }
    }

    /// Makes this a question for the variant that these fields choose.
    pub fn of_variant(self, names: Option<Bytes>) -> Ask<'s> {
        Ask { names, ..self }
    }

    /// Asks for this request alone: the response is not stored, and the client's conditions and ranges are passed on
    /// unchanged.
    pub async fn alone(&self, request: &mut Request, status: CacheStatus, stale: Option<Arc<StoredObject>>) -> Outcome {
        cache_status::note(request, &self.context.wanted.cache, status);
        // Other requests may follow the response, from its head on.
        let terms = Terms { watched: !request.client.is_background(), head_at_once: true };
        match reach(request, self.context.family, terms).await {
            Ok(reached) => match self.covers(reached.head().status, stale.as_ref()) {
                Some(object) => {
                    reached.dismiss(request);
                    self.context.use_stored(request, &object, CacheStatus::Stale)
                }
                None => {
                    self.context.wanted.cache.usage().add_bytes(status, reached.head().length.unwrap_or(0));
                    reached.answer(request)
                }
            },
            Err(unreached) => self.unreached(request, unreached, stale),
        }
    }

    /// Asks for the cache: a response that may be stored is, whatever the client does. A client that has gone meanwhile
    /// gets nothing, and the access log says so.
    pub async fn keeping(
        &self,
        request: &mut Request,
        filling: FillWriter,
        status: CacheStatus,
        stale: Option<Arc<StoredObject>>,
    ) -> Outcome {
        // While the request's body is read, the connection is not read by anybody else.
        let watched = self.context.is_watched(request) && !request.is_subrequest() && request.body.is_done();
        let client = ClientWatch::new(request.client.clone(), watched);
        let log = DetachedLog::of(request);
        let tell = || {
            let text = format_args!("client prematurely closed connection while a response is fetched for the cache");
            log.write(Level::Info, text);
        };
        let asked = self.keeping_for_all(request, filling, status, stale);
        let (outcome, has_gone) = client.noting_gone(asked, tell).await;
        match outcome {
            outcome if !has_gone => outcome,
            Outcome::Response(response) => {
                request.sent.status = Some(response.status);
                Outcome::Close
            }
            _ => UpstreamError::ClientGone.outcome(request),
        }
    }

    async fn keeping_for_all(
        &self,
        request: &mut Request,
        filling: FillWriter,
        status: CacheStatus,
        stale: Option<Arc<StoredObject>>,
    ) -> Outcome {
        cache_status::note(request, &self.context.wanted.cache, status);
        let sent = unix_now();
        let revalidates = self.context.shared.proxy_cache_revalidate || self.context.shared.proxy_cache_rfc9111;
        // Without a validator the configuration may still set a condition.
        let mut conditional = revalidates && stale.as_ref().is_some_and(|object| may_validate(object.head.status));
        let reached = loop {
            let validators = match &stale {
                Some(object) if conditional => Validators::of(&object.head.fields),
                _ => Validators::default(),
            };
            CacheFetch::begin(request, self.as_get, validators);
            // Other requests wait for the response: it goes on without the client.
            let terms = Terms { watched: false, head_at_once: true };
            let reached = reach(request, self.context.family, terms).await;
            CacheFetch::end(request);
            match (reached, &stale) {
                (Ok(reached), Some(object)) if conditional && self.is_of_another(&reached, object) => {
                    reached.dismiss(request);
                    conditional = false;
                }
                (reached, _) => break reached,
            }
        };
        let reached = match reached {
            Ok(reached) => reached,
            Err(unreached) => {
                let covered =
                    unreached.cause.zip(stale.as_ref()).is_some_and(|(why, old)| self.context.may_cover(old, why));
                match unreached.outcome {
                    Outcome::Status(status @ (Status::BAD_GATEWAY | Status::GATEWAY_TIMEOUT)) if !covered => {
                        self.keep_failure(request, filling, status.code(), stale.as_ref())
                    }
                    _ => filling.not_storable(),
                }
                return self.unreached(request, unreached, stale);
            }
        };
        if let Some(object) = stale.as_ref().filter(|_| conditional && reached.head().status == 304) {
            return self.revalidated(request, reached, filling, object, sent);
        }
        if let Some(object) = self.covers(reached.head().status, stale.as_ref()) {
            filling.not_storable();
            reached.dismiss(request);
            return self.context.use_stored(request, &object, CacheStatus::Stale);
        }
        if stale.as_ref().is_some_and(|object| is_whole_for_slice(request, reached.head().status, object)) {
            filling.not_storable();
            if request.client.is_background() {
                log_error!(request, Error, "unexpected status code 200 in slice response");
                reached.dismiss(request);
                return Outcome::Status(Status::BAD_GATEWAY);
            }
            return reached.answer(request);
        }
        let wanted = &self.context.wanted;
        let keep = Keep { filling, text: wanted.text.clone(), main: wanted.key, sent };
        let StoreDecision { kept, offers } = keep.judge(request, self.context.family, reached.head());
        let mut outcome = reached.answer_with_tee(request, kept);
        if let (Some(rfc9111), Outcome::Response(response)) = (offers, &mut outcome) {
            offer(response, rfc9111);
            response.single_range = true;
        }
        outcome
    }

    /// Passes on a request that may change the resource at the server. After an answer without an error, the stored
    /// responses for it are invalid (RFC 9111 section 4.4).
    pub async fn invalidating(&self, request: &mut Request) -> Outcome {
        let terms = Terms { watched: !request.client.is_background(), head_at_once: false };
        let reached = match reach(request, self.context.family, terms).await {
            Ok(reached) => reached,
            Err(unreached) => return unreached.outcome,
        };
        let method = request.head.method_text();
        if invalidates(method, reached.head().status) {
            let wanted = &self.context.wanted;
            wanted.remove();
            let host = request.head.value(HeaderId::Host).unwrap_or_default();
            let path = request.head.uri();
            for target in also_invalid(&reached.head().fields.to_list(), b"http", host, path) {
                // If the key does not end with the target, the keys of other targets are not known.
                if let Some(other) = wanted.beside(path, &target) {
                    other.remove();
                }
            }
        }
        reached.answer(request)
    }

    /// Whether a 304 is about another response than the stored one: one with another strong validator (RFC 9111 section
    /// 4.3.4). It must not make the stored response fresh again.
    fn is_of_another(&self, reached: &ReachedServer, object: &StoredObject) -> bool {
        let head = reached.head();
        if !self.context.shared.proxy_cache_rfc9111 || head.status != 304 {
            return false;
        }
        let told = head.fields.to_list();
        let stored: Vec<&[u8]> = strong(&object.head.fields).collect();
        // Each strong validator selects the responses that have it: one known validator is enough.
        !stored.is_empty() && strong(&told).next().is_some() && !strong(&told).any(|tag| stored.contains(&tag))
    }

    /// Stores the failure to get an answer, too, if `cache_valid` has a time for the status that stands for it.
    fn keep_failure(&self, request: &Request, mut filling: FillWriter, status: u16, stale: Option<&Arc<StoredObject>>) {
        let CacheContext { shared, wanted, .. } = self.context;
        let seconds = shared.proxy_cache_valid.rules().seconds(status);
        if seconds == 0 || shared.proxy_no_cache.hold(request) {
            return filling.not_storable();
        }
        // The failure of a variant says nothing of the others, whose response may be fresh.
        let key = filling.fill().key();
        let names = || self.names.clone().or_else(|| Some(stale?.head.vary.as_ref()?.names.clone()));
        let vary = if key == wanted.key {
            None
        } else {
            match names() {
                Some(names) => Some(Vary { names, variant: key }),
                None => return filling.not_storable(),
            }
        };
        let now = unix_now();
        let lifetime = Lifetime { fresh_until: now + u64::from(seconds), born: now, ..Lifetime::default() };
        let reason = Reason::OwnFailure;
        let head = Head { key: wanted.text.clone(), status, reason, created: now, lifetime, vary, ..Head::default() };
        filling.head(head, Some(0), key);
        filling.whole(Bytes::new());
    }

    /// The stale response to use instead of an answer with this status, if it may be used. By nginx's rules only
    /// `cache_use_stale` allows that: `stale-if-error` in the stored response is about servers that do not answer.
    fn covers(&self, status: u16, stale: Option<&Arc<StoredObject>>) -> Option<Arc<StoredObject>> {
        let cause = NextUpstream::of_status(status)?;
        let shared = self.context.shared;
        if !shared.proxy_cache_rfc9111 && !shared.proxy_cache_use_stale.0.contains(cause) {
            return None;
        }
        stale.filter(|object| self.context.may_cover(object, cause)).cloned()
    }

    fn unreached(&self, request: &mut Request, unreached: NoServer, stale: Option<Arc<StoredObject>>) -> Outcome {
        match (unreached.cause, stale) {
            (Some(cause), Some(object)) if self.context.may_cover(&object, cause) => {
                self.context.use_stored(request, &object, CacheStatus::Stale)
            }
            _ => unreached.outcome,
        }
    }

    /// Handles a 304: the server says that the stored response has not changed.
    fn revalidated(
        &self,
        request: &mut Request,
        reached: ReachedServer,
        filling: FillWriter,
        object: &Arc<StoredObject>,
        sent: u64,
    ) -> Outcome {
        let CacheContext { shared, wanted, family, .. } = self.context;
        let now = unix_now();
        let told = reached.head().fields.to_list();
        let fields =
            if shared.proxy_cache_rfc9111 { refreshed(&object.head.fields, &told, ignored(shared)) } else { None };
        let asked = asked(request, *family, shared, sent);
        let answer = Answer { status: object.head.status, fields: &object.head.fields };
        let renewed = revalidated(&asked, &answer, &told, &rules(shared), now);
        reached.dismiss(request);
        match (renewed, fields) {
            (Revalidation::Until(lifetime), Some(fields)) => {
                let mut head = (*object.head).clone();
                (head.fields, head.lifetime, head.created) = (fields, lifetime, now);
                let (entry, body) = (object.entry.clone(), object.body.clone());
                let renewed = StoredObject::new(entry, Arc::new(head), body);
                if !rewrite(request, &renewed, filling) {
                    // The stored response keeps its old fields then.
                    wanted.cache.revalidated(&object.entry, lifetime);
                }
                cache_status::note(request, &wanted.cache, CacheStatus::Revalidated);
                return stored(request, *family, shared, &renewed, &lifetime, now);
            }
            (Revalidation::Until(lifetime), None) => wanted.cache.revalidated(&object.entry, lifetime),
            (Revalidation::Stays | Revalidation::Goes(_), _) => {}
        }
        let outcome = self.context.use_stored(request, object, CacheStatus::Revalidated);
        if let Revalidation::Goes(_) = renewed {
            wanted.cache.discard(&object.entry, Leave::Invalidated);
        }
        filling.not_storable();
        outcome
    }
}

/// Whether a server has sent the whole response for a slice of it that is stored: it must not take the slice's place.
fn is_whole_for_slice(request: &Request, status: u16, stored: &StoredObject) -> bool {
    let begin = request.own.find::<SliceBegin>().and_then(|begin| begin.0.get());
    status == 200 && stored.head.status == 206 && begin.is_some()
}

/// The strong `ETag` values among the fields.
fn strong(fields: &[Field]) -> impl Iterator<Item = &[u8]> {
    values(fields, b"etag").filter(|tag| tag.starts_with(b"\""))
}

/// Stores a response again with changed fields and the body that it has; requests that wait get it from there
/// meanwhile. Returns whether it is going to be stored.
fn rewrite(request: &Request, object: &StoredObject, mut filling: FillWriter) -> bool {
    let head = (*object.head).clone();
    let (length, key) = (head.body, object.entry.key());
    let body = match &object.body {
        ObjectBody::Bytes(bytes) => {
            let stores = filling.head(head, Some(length), key);
            filling.whole(bytes.clone());
            return stores;
        }
        ObjectBody::File { file, offset, len } => {
            Body::File(FileRange { file: file.clone(), offset: *offset, len: *len })
        }
    };
    if !filling.head(head, Some(length), key) {
        return false;
    }
    let mut source = body.into_source(request);
    let background = Background::new(&request.client.loop_state.shared.background);
    loops::spawn(request.client.number, "storing a response anew", async move {
        let _background = background;
        loop {
            match source.next().await {
                Ok(Some(piece)) => {
                    if filling.push(piece).await.is_err() {
                        return;
                    }
                }
                Ok(None) => return filling.end(),
                // The stored response stays as it is.
                Err(_) => return,
            }
        }
    });
    true
}

/// Logs that there is no room for another request in the background.
pub fn log_full(request: &Request, most: usize) {
    log_error!(request, Warn, "{most} requests update caches in the background, not one more");
}
