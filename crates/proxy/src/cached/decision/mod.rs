//! The decision about the next step of a request that uses a cache: pure code, without a cache, a server or a clock.
//!
//! A request is a sequence of steps. [`Decision::next`] is given a [`RequestState`], the result of the last step, and
//! names the next step, an [`Action`]. The driver (`answer.rs`) takes that step, waits where it has to, and comes back
//! with the state that follows, until an action answers the request. The order of the steps:
//!
//! 1. **Look.** [`LookUp`](Action::LookUp) finds the stored response. If that may be used, it is the answer
//!    ([`UseStored`](Action::UseStored)). If it may not, and the client forbids asking a server, the request is refused
//!    ([`Refuse`](Action::Refuse)).
//! 2. **Miss.** Otherwise a server has to be asked ([`Miss`](Action::Miss)). The response to some requests must not be
//!    stored. Such a request takes the response that another request has just fetched
//!    ([`TakeWhole`](Action::TakeWhole)), or asks alone.
//! 3. **Count.** A response that is not stored yet needs `cache_min_uses` requests ([`Count`](Action::Count)); before
//!    that each request asks alone.
//! 4. **Claim.** All requests for one response claim the right to fetch it ([`Claim`](Action::Claim)). The first of them
//!    leads; the others follow.
//! 5. **Lead.** The leader asks the server and stores the response ([`Fetch`](Action::Fetch)). If a stale response may
//!    be used meanwhile, the leader answers with that, and a task in the background fetches the new response
//!    ([`Update`](Action::Update)).
//! 6. **Follow.** A follower uses the stale response if it may, and else waits for the leader's
//!    ([`Follow`](Action::Follow)). If nothing comes of that, it looks again, until `cache_lock_timeout` is over.
//!
//! In every step something may stand in the way: the cache is full of fetches, another response has been stored
//! meanwhile, the leader's response is for its client alone. The request then looks again, at most [`MAX_ROUNDS`]
//! times, or asks the server for itself and stores nothing ([`AskAlone`](Action::AskAlone)). This always works, so no
//! request ends without an answer.
//!
//! A request that bypasses the cache ([`Bypass`](Action::Bypass)) looks nothing up and follows nobody. It claims the
//! right to fetch, and replaces the stored response ([`Replace`](Action::Replace)). A response that has just come is
//! stored first ([`AwaitStored`](Action::AwaitStored)).
//!
//! The driver's things, such as a stored object, are handed on from the state to the action, so that an action cannot be
//! taken without them. The decision does not look at them, so they are type parameters here: `Object`, `Filling` (the
//! right to fetch and store a response) and `Fill` (another request's fetch).

#[cfg(test)]
mod tests;

use crate::state::cache_status::CacheStatus;

/// The number of times a request looks (or claims, if it bypasses the cache) before it asks the server for itself.
pub const MAX_ROUNDS: usize = 8;

/// Facts about a request that hold as long as it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// `cache_bypass` holds: the answer comes from a server, whatever is stored.
    pub bypasses: bool,
    /// `cache_min_uses`.
    pub min_uses: u32,
    /// `cache_background_update` is on, and the request can be made again without its client.
    pub updates_in_background: bool,
}

/// Facts about a request that change from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Progress {
    /// The number of lookups, or of claims if the request bypasses the cache.
    rounds: usize,
    /// The use is counted already: a request counts once, however often it looks.
    is_counted: bool,
    /// The request has waited in vain until `cache_lock_timeout` was over: it waits for nobody any more.
    has_waited: bool,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupResult<Object> {
    /// A response that may be used.
    Fresh(Object),
    /// A stale response which the client accepts (`max-stale`).
    Accepted(Object),
    /// A stale response.
    Stale(Stale<Object>),
    /// No response, or none that can be read.
    Absent,
    /// No response that may be used, and the client lets no server be asked (`only-if-cached`).
    Refused,
}

/// A stale response that may be revalidated, and may stand in where the server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale<Object> {
    /// The response.
    pub object: Object,
    /// Whether it may be used while a new one is fetched: `cache_use_stale updating`, `stale-while-revalidate`.
    pub may_be_used: bool,
}

/// Whether the response to a request may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storable {
    /// The response may be stored.
    Yes,
    /// The response must not be stored, because of properties of this request. Other requests for the same response may
    /// store theirs.
    NotOfThisRequest,
    /// The response cannot be stored: the response of another resource has its place (a collision of MD5).
    PlaceIsTaken,
}

/// The result of asking for the right to fetch a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<Filling, Fill> {
    /// The request leads.
    Leads(Filling),
    /// Another request leads.
    Follows {
        /// Its fetch.
        fill: Fill,
        /// Whether all of its response has come, and only has to be stored.
        is_whole: bool,
    },
    /// Another response has been stored since the lookup.
    Changed,
    /// The cache has no room for one more fetch.
    Full,
}

/// The result of waiting for another request's response, if that was not the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowResult {
    /// There was nothing to use, or nothing yet.
    Nothing {
        /// Whether `cache_lock_timeout` is not over yet.
        time_is_left: bool,
    },
    /// The response is another variant (`Vary`): the own one has another key.
    OtherVariant,
    /// The response cannot be used, and to wait longer is of no use.
    Unusable,
}

/// The result of a request's last step; it is named for the action that has brought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState<Object, Filling, Fill> {
    /// Nothing was done yet.
    Begun,
    /// After [`LookUp`](Action::LookUp).
    LookedUp(LookupResult<Object>),
    /// After [`Miss`](Action::Miss) and [`Bypass`](Action::Bypass).
    Missed(Option<Stale<Object>>, Storable),
    /// After [`TakeWhole`](Action::TakeWhole): there was none.
    NoneWhole {
        /// The stale response.
        stale: Option<Stale<Object>>,
        /// Whether another response has been stored since the lookup.
        has_changed: bool,
    },
    /// After [`Count`](Action::Count): the number of uses with this one. `None`: another response has been stored since
    /// the lookup, and nothing was counted.
    Counted(Option<u32>),
    /// After [`Claim`](Action::Claim).
    Claimed(Option<Stale<Object>>, Claim<Filling, Fill>),
    /// After [`Update`](Action::Update): too many updates run in the background.
    NotUpdated(Object, Filling),
    /// After [`Follow`](Action::Follow): the other request's response was not the answer.
    Followed(Option<Stale<Object>>, FollowResult),
    /// After [`AwaitStored`](Action::AwaitStored).
    Awaited {
        /// Whether `cache_lock_timeout` was over before.
        is_late: bool,
    },
}

/// The next step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<Object, Filling, Fill> {
    /// Look the stored response up.
    LookUp,
    /// Record that no stored response is the answer, and find out whether a new one may be stored.
    Miss(Option<Stale<Object>>),
    /// Record that the cache is bypassed, and find out whether the response may be stored.
    Bypass,
    /// Answer with the response of another request that has come as a whole, if there is one.
    TakeWhole(Option<Stale<Object>>),
    /// Count the use of a response that is not stored.
    Count,
    /// Ask for the right to fetch the response.
    Claim(Option<Stale<Object>>),
    /// Wait for another request's response, and answer with it.
    Follow(Option<Stale<Object>>, Fill),
    /// Wait until another request's response is stored.
    AwaitStored(Fill),
    /// Answer with the stale response, after a task was started that fetches a new one.
    Update(Object, Filling),
    /// Answer with the stored response.
    UseStored(Object, CacheStatus),
    /// Ask the server, answer with its response and store it. A stale response is revalidated, or stands in for a
    /// server that fails.
    Fetch(Option<Object>, Filling, CacheStatus),
    /// Ask the server, answer with its response, and store it in place of the present one.
    Replace(Filling),
    /// Ask the server for this request alone. A stale response stands in for a server that fails.
    AskAlone(Option<Object>, CacheStatus),
    /// Refuse the request with 504 (RFC 9111 section 5.2.1.7).
    Refuse,
}

/// The decisions about one request, and what it remembers between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    facts: Facts,
    progress: Progress,
}

impl Decision {
    /// The decisions about a request that begins.
    pub fn new(facts: Facts) -> Decision {
        Decision { facts, progress: Progress { rounds: 0, is_counted: false, has_waited: false } }
    }

    /// The next step after this state. It is called first with [`RequestState::Begun`], then with what came of each action,
    /// until one of them has answered the request.
    pub fn next<O, L, F>(&mut self, state: RequestState<O, L, F>) -> Action<O, L, F> {
        match &state {
            RequestState::Counted(Some(_)) => self.progress.is_counted = true,
            RequestState::Followed(_, FollowResult::Nothing { time_is_left }) => {
                self.progress.has_waited = !time_is_left
            }
            _ => {}
        }
        let action = decide(state, &self.facts, &self.progress);
        let begins_round = match &action {
            Action::LookUp => true,
            Action::Claim(_) => self.facts.bypasses,
            _ => false,
        };
        self.progress.rounds += usize::from(begins_round);
        action
    }
}

/// The next step of a request, by what it has just learned and what is known of it.
fn decide<O, L, F>(state: RequestState<O, L, F>, facts: &Facts, progress: &Progress) -> Action<O, L, F> {
    match state {
        RequestState::Begun if facts.bypasses => Action::Bypass,
        RequestState::Begun => Action::LookUp,

        RequestState::LookedUp(LookupResult::Fresh(object)) => Action::UseStored(object, CacheStatus::Hit),
        RequestState::LookedUp(LookupResult::Accepted(object)) => Action::UseStored(object, CacheStatus::Stale),
        RequestState::LookedUp(LookupResult::Refused) => Action::Refuse,
        RequestState::LookedUp(LookupResult::Stale(stale)) => Action::Miss(Some(stale)),
        RequestState::LookedUp(LookupResult::Absent) => Action::Miss(None),

        RequestState::Missed(None, Storable::Yes) if is_to_be_counted(facts, progress) => Action::Count,
        RequestState::Missed(stale, Storable::Yes) => Action::Claim(stale),
        RequestState::Missed(stale, Storable::NotOfThisRequest) if !facts.bypasses => Action::TakeWhole(stale),
        RequestState::Missed(stale, _) => ask_alone(stale, facts),

        // The response that was not whole before may have been stored since the lookup.
        RequestState::NoneWhole { has_changed: true, .. } => look_again(facts, progress),
        RequestState::NoneWhole { stale, .. } => ask_alone(stale, facts),

        RequestState::Counted(None) => look_again(facts, progress),
        RequestState::Counted(Some(uses)) if uses < facts.min_uses => ask_alone(None, facts),
        RequestState::Counted(Some(_)) => Action::Claim(None),

        RequestState::Claimed(stale, Claim::Leads(filling)) => lead(stale, filling, facts),
        RequestState::Claimed(stale, Claim::Follows { fill, is_whole }) => {
            follow(stale, fill, is_whole, facts, progress)
        }
        RequestState::Claimed(_, Claim::Changed) => look_again(facts, progress),
        RequestState::Claimed(stale, Claim::Full) => ask_alone(stale, facts),
        RequestState::NotUpdated(object, filling) => Action::Fetch(Some(object), filling, CacheStatus::Expired),

        RequestState::Followed(_, FollowResult::Nothing { .. } | FollowResult::OtherVariant) => {
            look_again(facts, progress)
        }
        RequestState::Followed(stale, FollowResult::Unusable) => ask_alone(stale, facts),
        RequestState::Awaited { is_late: false } => look_again(facts, progress),
        RequestState::Awaited { is_late: true } => ask_alone(None, facts),
    }
}

/// Whether the use of an absent response is counted before anything is fetched for it.
fn is_to_be_counted(facts: &Facts, progress: &Progress) -> bool {
    facts.min_uses > 1 && !progress.is_counted && !facts.bypasses
}

/// The step of the request that leads.
fn lead<O, L, F>(stale: Option<Stale<O>>, filling: L, facts: &Facts) -> Action<O, L, F> {
    match stale {
        _ if facts.bypasses => Action::Replace(filling),
        Some(stale) if stale.may_be_used && facts.updates_in_background => Action::Update(stale.object, filling),
        Some(stale) => Action::Fetch(Some(stale.object), filling, CacheStatus::Expired),
        None => Action::Fetch(None, filling, CacheStatus::Miss),
    }
}

/// The step of a request that another one leads.
fn follow<O, L, F>(
    stale: Option<Stale<O>>,
    fill: F,
    is_whole: bool,
    facts: &Facts,
    progress: &Progress,
) -> Action<O, L, F> {
    match stale {
        // The response that comes replaces the stored response as well as this request's would have. A response that has
        // come already is older than this request, whose own response replaces it afterwards.
        _ if facts.bypasses && is_whole => Action::AwaitStored(fill),
        _ if facts.bypasses => ask_alone(None, facts),
        Some(stale) if stale.may_be_used && !is_whole => Action::UseStored(stale.object, CacheStatus::Updating),
        // All requests that have waited in vain ask at once, unless a response is stored by now.
        stale if progress.has_waited => ask_alone(stale, facts),
        stale => Action::Follow(stale, fill),
    }
}

/// The beginning of a new round, unless this is the last one.
fn look_again<O, L, F>(facts: &Facts, progress: &Progress) -> Action<O, L, F> {
    if progress.rounds >= MAX_ROUNDS {
        // A stale response is not kept for this: it is the result of a lookup that has been overtaken.
        ask_alone(None, facts)
    } else if facts.bypasses {
        Action::Claim(None)
    } else {
        Action::LookUp
    }
}

fn ask_alone<O, L, F>(stale: Option<Stale<O>>, facts: &Facts) -> Action<O, L, F> {
    let status = match &stale {
        _ if facts.bypasses => CacheStatus::Bypass,
        Some(_) => CacheStatus::Expired,
        None => CacheStatus::Miss,
    };
    Action::AskAlone(stale.map(|stale| stale.object), status)
}
