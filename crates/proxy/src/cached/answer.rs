//! Takes the steps that the decision (`decision/`) names for a request, until one of them answers it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_cache::cache::{Entry, Leave};
use freerun_cache::fill::{Fill, FillWriter, Lead, Progress};
use freerun_cache::key::Key;
use freerun_cache::object::StoredObject;
use freerun_http::request::Request;
use freerun_http::request::handler::Outcome;
use freerun_proto::{Method, Status};
use freerun_runtime::loops;
use freerun_runtime::timer::timeout;

use crate::cached::background;
use crate::cached::clock::unix_now;
use crate::cached::context::{CacheContext, Usability};
use crate::cached::decision::{
    Action, Claim, Decision, Facts, FollowResult, LookupResult, RequestState, Stale, Storable,
};
use crate::cached::fetch::Ask;
use crate::cached::find::CacheLookup;
use crate::cached::follow::{FollowEnd, follow};
use crate::cached::store_decision::control;
use crate::state::cache_status;
use crate::state::cache_status::CacheStatus;

type StaleObject = Stale<Arc<StoredObject>>;
type Next = RequestState<Arc<StoredObject>, FillWriter, Arc<Fill>>;

/// Answers a request for a response that may be stored. `bypasses`: by one from a server, whatever is stored.
pub async fn answer(context: &CacheContext<'_>, request: &mut Request, bypasses: bool) -> Outcome {
    let mut driver = AnswerDriver::new(context);
    let mut decision = Decision::new(Facts {
        bypasses,
        min_uses: context.shared.proxy_cache_min_uses,
        updates_in_background: context.shared.proxy_cache_background_update && request.asked.method != Method::Post,
    });
    let mut state = RequestState::Begun;
    loop {
        state = match decision.next(state) {
            Action::LookUp => RequestState::LookedUp(driver.look_up(request).await),
            Action::Miss(stale) => {
                let status = if stale.is_some() { CacheStatus::Expired } else { CacheStatus::Miss };
                cache_status::note(request, context.cache(), status);
                let storable = driver.storable(request);
                RequestState::Missed(stale, storable)
            }
            Action::Bypass => {
                cache_status::note(request, context.cache(), CacheStatus::Bypass);
                RequestState::Missed(None, driver.storable(request))
            }
            Action::TakeWhole(stale) => match driver.take_whole(request, stale).await {
                Ok(outcome) => return outcome,
                Err(state) => state,
            },
            Action::Count => RequestState::Counted(driver.count()),
            Action::Claim(stale) if bypasses => RequestState::Claimed(stale, driver.claim_anew(request)),
            Action::Claim(stale) => {
                let claim = driver.claim(request, stale.as_ref());
                RequestState::Claimed(stale, claim)
            }
            Action::Follow(stale, fill) => match driver.follow(request, &fill).await {
                Ok(outcome) => return outcome,
                Err(followed) => RequestState::Followed(stale, followed),
            },
            Action::AwaitStored(fill) => {
                let stored = timeout(context.shared.proxy_cache_lock_timeout, fill.closed()).await;
                RequestState::Awaited { is_late: stored.is_err() }
            }
            Action::Update(object, filling) => match background::update(request, context, object.clone(), filling) {
                Ok(()) => return context.use_stored(request, &object, CacheStatus::Stale),
                Err(filling) => RequestState::NotUpdated(object, filling),
            },
            Action::UseStored(object, status) => return context.use_stored(request, &object, status),
            Action::Fetch(stale, filling, status) => {
                return driver.ask(request).keeping(request, filling, status, stale).await;
            }
            Action::Replace(filling) => return driver.replace(request, filling).await,
            Action::AskAlone(stale, status) => return driver.ask(request).alone(request, status, stale).await,
            Action::Refuse => return Outcome::Status(Status::GATEWAY_TIMEOUT),
        };
    }
}

/// A request that is being answered: what the steps need and the decision does not.
struct AnswerDriver<'c> {
    context: &'c CacheContext<'c>,
    began: Instant,
    /// The place of the response in the cache, by the last lookup.
    place: CacheLookup,
    /// The key of the request's variant, and the names of the fields that choose it, as another request's response has
    /// told them.
    variant: Option<(Key, Bytes)>,
    /// The entry that the response to a request which bypasses the cache replaces.
    replaced: Option<Arc<Entry>>,
}

impl<'c> AnswerDriver<'c> {
    fn new(context: &'c CacheContext<'c>) -> AnswerDriver<'c> {
        let place = CacheLookup { object: None, unreadable: None, key: context.wanted.key, names: None, taken: false };
        AnswerDriver { context, began: loops::now(), place, variant: None, replaced: None }
    }

    fn ask(&self, request: &Request) -> Ask<'c> {
        Ask::new(self.context, request).of_variant(self.place.names.clone())
    }

    async fn look_up(&mut self, request: &Request) -> LookupResult<Arc<StoredObject>> {
        let CacheContext { shared, wanted, aio, .. } = self.context;
        let now = unix_now();
        self.place = wanted.locate(request, aio, now).await;
        let variant = self.variant.take();
        let Some(object) = self.place.object.take() else {
            if let Some((key, names)) = variant {
                (self.place.key, self.place.names) = (key, Some(names));
            }
            let is_refused = shared.proxy_cache_rfc9111 && control(request).only_if_cached;
            return if is_refused { LookupResult::Refused } else { LookupResult::Absent };
        };
        match Usability::of(request, shared, &object.entry.lifetime(), now) {
            Usability::Fresh => LookupResult::Fresh(object),
            Usability::Accepted => LookupResult::Accepted(object),
            Usability::Refused => LookupResult::Refused,
            Usability::Stale => {
                let may_be_used = self.context.may_use_while_updating(&object, now);
                LookupResult::Stale(Stale { object, may_be_used })
            }
        }
    }

    fn storable(&self, request: &Request) -> Storable {
        if self.place.taken {
            Storable::PlaceIsTaken
        } else if self.context.may_keep(request) {
            Storable::Yes
        } else {
            Storable::NotOfThisRequest
        }
    }

    /// The entry at the place, if it cannot be used.
    fn known<'a>(&'a self, stale: Option<&'a StaleObject>) -> Option<&'a Arc<Entry>> {
        stale.map(|stale| &stale.object.entry).or(self.place.unreadable.as_ref())
    }

    async fn take_whole(&self, request: &mut Request, stale: Option<StaleObject>) -> Result<Outcome, Next> {
        let cache = self.context.cache();
        let key = self.place.key;
        if let Some(fill) = cache.fill_of(key).filter(|fill| fill.is_whole())
            && let FollowEnd::Answered(outcome) = follow(self.context, request, &fill, Duration::ZERO).await
        {
            return Ok(outcome);
        }
        let has_changed = cache.has_changed(key, self.known(stale.as_ref()));
        Err(RequestState::NoneWhole { stale, has_changed })
    }

    fn count(&self) -> Option<u32> {
        self.context.cache().count(self.place.key, self.known(None), unix_now())
    }

    fn claim(&self, request: &Request, stale: Option<&StaleObject>) -> Claim<FillWriter, Arc<Fill>> {
        let CacheContext { shared, wanted, aio, .. } = self.context;
        let (key, known) = (self.place.key, self.known(stale));
        let age = Some(shared.proxy_cache_lock_age);
        claim_of(wanted.cache.lead(key, wanted.key, known, age, aio, request.client_key()))
    }

    /// Claims the place of the response that is stored or being fetched, unless it is just coming.
    fn claim_anew(&mut self, request: &Request) -> Claim<FillWriter, Arc<Fill>> {
        let CacheContext { wanted, aio, .. } = self.context;
        let (cache, key) = (&wanted.cache, wanted.key);
        self.replaced = cache.peek(key);
        let is_coming = |fill: &Arc<Fill>| matches!(fill.progress(), Progress::Known(_)) && !fill.is_whole();
        if let Some(fill) = cache.fill_of(key).filter(is_coming) {
            return Claim::Follows { fill, is_whole: false };
        }
        let age = Some(Duration::ZERO);
        claim_of(cache.lead(key, key, self.replaced.as_ref(), age, aio, request.client_key()))
    }

    async fn follow(&mut self, request: &mut Request, fill: &Arc<Fill>) -> Result<Outcome, FollowResult> {
        let limit = self.context.shared.proxy_cache_lock_timeout;
        let left = limit.saturating_sub(loops::now() - self.began);
        match follow(self.context, request, fill, left).await {
            FollowEnd::Answered(outcome) => Ok(outcome),
            FollowEnd::Nothing => Err(FollowResult::Nothing { time_is_left: loops::now() - self.began < limit }),
            FollowEnd::Unusable => Err(FollowResult::Unusable),
            FollowEnd::OtherVariant(key, names) => {
                self.variant = Some((key, names));
                Err(FollowResult::OtherVariant)
            }
        }
    }

    async fn replace(&self, request: &mut Request, filling: FillWriter) -> Outcome {
        let (cache, key) = (self.context.cache(), self.context.wanted.key);
        let outcome = self.ask(request).keeping(request, filling, CacheStatus::Bypass, None).await;
        // A response that is being stored is used by all requests; the response that it replaces is not used any more.
        let coming = cache.fill_of(key);
        if let Some(old) = &self.replaced
            && coming.is_some_and(|fill| matches!(fill.progress(), Progress::Known(_)))
        {
            cache.discard(old, Leave::Invalidated);
        }
        outcome
    }
}

fn claim_of(lead: Lead) -> Claim<FillWriter, Arc<Fill>> {
    match lead {
        Lead::Leader(filling) => Claim::Leads(filling),
        Lead::Follow(fill) => Claim::Follows { is_whole: fill.is_whole(), fill },
        Lead::Changed => Claim::Changed,
        Lead::Alone => Claim::Full,
    }
}
