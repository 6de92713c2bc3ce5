//! The table of decisions, and what holds for every step that any request can come to.

use std::collections::{BTreeSet, HashSet};

use super::*;

type AnyState = RequestState<(), (), ()>;
type AnyAction = Action<(), (), ()>;

/// `cache_min_uses` is 1 and nothing else is set.
const PLAIN: Facts = Facts { bypasses: false, min_uses: 1, updates_in_background: false };
const BYPASSES: Facts = Facts { bypasses: true, ..PLAIN };
const TWO_USES: Facts = Facts { min_uses: 2, ..PLAIN };
const UPDATES: Facts = Facts { updates_in_background: true, ..PLAIN };

const FIRST: Progress = Progress { rounds: 1, is_counted: false, has_waited: false };
const COUNTED: Progress = Progress { is_counted: true, ..FIRST };
const WAITED: Progress = Progress { has_waited: true, ..FIRST };
const LAST: Progress = Progress { rounds: MAX_ROUNDS, ..FIRST };

const NONE: Option<Stale<()>> = None;
/// A stale response that has to be revalidated before it is used.
const STALE: Option<Stale<()>> = Some(Stale { object: (), may_be_used: false });
/// A stale response that may be used while a new one is fetched.
const USABLE: Option<Stale<()>> = Some(Stale { object: (), may_be_used: true });

const COMING: Claim<(), ()> = Claim::Follows { fill: (), is_whole: false };
const WHOLE: Claim<(), ()> = Claim::Follows { fill: (), is_whole: true };
const IN_VAIN: FollowResult = FollowResult::Nothing { time_is_left: true };

/// All actions by name. A new one has to be added here, and then be found in the table and by a request.
const ACTIONS: [&str; 14] = [
    "AskAlone",
    "AwaitStored",
    "Bypass",
    "Claim",
    "Count",
    "Fetch",
    "Follow",
    "LookUp",
    "Miss",
    "Refuse",
    "Replace",
    "TakeWhole",
    "Update",
    "UseStored",
];

fn name(action: &AnyAction) -> &'static str {
    match action {
        Action::LookUp => "LookUp",
        Action::Miss(_) => "Miss",
        Action::Bypass => "Bypass",
        Action::TakeWhole(_) => "TakeWhole",
        Action::Count => "Count",
        Action::Claim(_) => "Claim",
        Action::Follow(..) => "Follow",
        Action::AwaitStored(_) => "AwaitStored",
        Action::Update(..) => "Update",
        Action::UseStored(..) => "UseStored",
        Action::Fetch(..) => "Fetch",
        Action::Replace(_) => "Replace",
        Action::AskAlone(..) => "AskAlone",
        Action::Refuse => "Refuse",
    }
}

#[rustfmt::skip]
const TABLE: [(AnyState, Facts, Progress, AnyAction); 47] = [
    // Look.
    (RequestState::Begun, PLAIN, FIRST, Action::LookUp),
    (RequestState::LookedUp(LookupResult::Fresh(())), PLAIN, FIRST, Action::UseStored((), CacheStatus::Hit)),
    (RequestState::LookedUp(LookupResult::Accepted(())), PLAIN, FIRST, Action::UseStored((), CacheStatus::Stale)),
    (RequestState::LookedUp(LookupResult::Refused), PLAIN, FIRST, Action::Refuse),
    (RequestState::LookedUp(LookupResult::Stale(Stale { object: (), may_be_used: true })), PLAIN, FIRST, Action::Miss(USABLE)),
    (RequestState::LookedUp(LookupResult::Absent), PLAIN, FIRST, Action::Miss(NONE)),
    // Miss.
    (RequestState::Missed(NONE, Storable::Yes), PLAIN, FIRST, Action::Claim(NONE)),
    (RequestState::Missed(STALE, Storable::Yes), PLAIN, FIRST, Action::Claim(STALE)),
    (RequestState::Missed(STALE, Storable::NotOfThisRequest), PLAIN, FIRST, Action::TakeWhole(STALE)),
    (RequestState::Missed(NONE, Storable::PlaceIsTaken), PLAIN, FIRST, Action::AskAlone(None, CacheStatus::Miss)),
    (RequestState::NoneWhole { stale: STALE, has_changed: false }, PLAIN, FIRST, Action::AskAlone(Some(()), CacheStatus::Expired)),
    (RequestState::NoneWhole { stale: STALE, has_changed: true }, PLAIN, FIRST, Action::LookUp),
    (RequestState::NoneWhole { stale: STALE, has_changed: true }, PLAIN, LAST, Action::AskAlone(None, CacheStatus::Miss)),
    // Count: only what is absent, and once.
    (RequestState::Missed(NONE, Storable::Yes), TWO_USES, FIRST, Action::Count),
    (RequestState::Missed(NONE, Storable::Yes), TWO_USES, COUNTED, Action::Claim(NONE)),
    (RequestState::Missed(STALE, Storable::Yes), TWO_USES, FIRST, Action::Claim(STALE)),
    (RequestState::Missed(NONE, Storable::NotOfThisRequest), TWO_USES, FIRST, Action::TakeWhole(NONE)),
    (RequestState::Counted(Some(1)), TWO_USES, COUNTED, Action::AskAlone(None, CacheStatus::Miss)),
    (RequestState::Counted(Some(2)), TWO_USES, COUNTED, Action::Claim(NONE)),
    (RequestState::Counted(None), TWO_USES, FIRST, Action::LookUp),
    (RequestState::Counted(None), TWO_USES, LAST, Action::AskAlone(None, CacheStatus::Miss)),
    // Lead.
    (RequestState::Claimed(NONE, Claim::Leads(())), UPDATES, FIRST, Action::Fetch(None, (), CacheStatus::Miss)),
    (RequestState::Claimed(STALE, Claim::Leads(())), UPDATES, FIRST, Action::Fetch(Some(()), (), CacheStatus::Expired)),
    (RequestState::Claimed(USABLE, Claim::Leads(())), PLAIN, FIRST, Action::Fetch(Some(()), (), CacheStatus::Expired)),
    (RequestState::Claimed(USABLE, Claim::Leads(())), UPDATES, FIRST, Action::Update((), ())),
    (RequestState::NotUpdated((), ()), UPDATES, FIRST, Action::Fetch(Some(()), (), CacheStatus::Expired)),
    (RequestState::Claimed(STALE, Claim::Changed), PLAIN, FIRST, Action::LookUp),
    (RequestState::Claimed(STALE, Claim::Changed), PLAIN, LAST, Action::AskAlone(None, CacheStatus::Miss)),
    (RequestState::Claimed(STALE, Claim::Full), PLAIN, FIRST, Action::AskAlone(Some(()), CacheStatus::Expired)),
    // Follow.
    (RequestState::Claimed(NONE, COMING), PLAIN, FIRST, Action::Follow(NONE, ())),
    (RequestState::Claimed(STALE, COMING), PLAIN, FIRST, Action::Follow(STALE, ())),
    (RequestState::Claimed(USABLE, COMING), PLAIN, FIRST, Action::UseStored((), CacheStatus::Updating)),
    (RequestState::Claimed(USABLE, WHOLE), PLAIN, FIRST, Action::Follow(USABLE, ())),
    (RequestState::Claimed(STALE, COMING), PLAIN, WAITED, Action::AskAlone(Some(()), CacheStatus::Expired)),
    (RequestState::Followed(STALE, IN_VAIN), PLAIN, FIRST, Action::LookUp),
    (RequestState::Followed(STALE, IN_VAIN), PLAIN, LAST, Action::AskAlone(None, CacheStatus::Miss)),
    (RequestState::Followed(NONE, FollowResult::OtherVariant), PLAIN, FIRST, Action::LookUp),
    (RequestState::Followed(STALE, FollowResult::Unusable), PLAIN, FIRST, Action::AskAlone(Some(()), CacheStatus::Expired)),
    // Bypass.
    (RequestState::Begun, BYPASSES, FIRST, Action::Bypass),
    (RequestState::Missed(NONE, Storable::NotOfThisRequest), BYPASSES, FIRST, Action::AskAlone(None, CacheStatus::Bypass)),
    (RequestState::Missed(NONE, Storable::Yes), BYPASSES, FIRST, Action::Claim(NONE)),
    (RequestState::Claimed(NONE, Claim::Leads(())), BYPASSES, FIRST, Action::Replace(())),
    (RequestState::Claimed(NONE, COMING), BYPASSES, FIRST, Action::AskAlone(None, CacheStatus::Bypass)),
    (RequestState::Claimed(NONE, WHOLE), BYPASSES, FIRST, Action::AwaitStored(())),
    (RequestState::Awaited { is_late: false }, BYPASSES, FIRST, Action::Claim(NONE)),
    (RequestState::Awaited { is_late: false }, BYPASSES, LAST, Action::AskAlone(None, CacheStatus::Bypass)),
    (RequestState::Awaited { is_late: true }, BYPASSES, FIRST, Action::AskAlone(None, CacheStatus::Bypass)),
];

#[test]
fn the_table_of_decisions_names_all_actions() {
    for (state, facts, progress, action) in TABLE {
        assert_eq!(decide(state, &facts, &progress), action, "{state:?} {facts:?} {progress:?}");
    }
    let named: BTreeSet<&str> = TABLE.iter().map(|(.., action)| name(action)).collect();
    assert!(named.iter().eq(&ACTIONS), "{named:?}");
}

/// All states that an action can bring: what the driver can find in the cache, and what may happen meanwhile. None: the
/// action answers the request.
fn states_after(action: AnyAction, facts: &Facts) -> Vec<AnyState> {
    match action {
        Action::LookUp => vec![
            RequestState::LookedUp(LookupResult::Fresh(())),
            RequestState::LookedUp(LookupResult::Accepted(())),
            RequestState::LookedUp(LookupResult::Refused),
            RequestState::LookedUp(LookupResult::Absent),
            RequestState::LookedUp(LookupResult::Stale(Stale { object: (), may_be_used: false })),
            RequestState::LookedUp(LookupResult::Stale(Stale { object: (), may_be_used: true })),
        ],
        Action::Miss(stale) => [Storable::Yes, Storable::NotOfThisRequest, Storable::PlaceIsTaken]
            .map(|storable| RequestState::Missed(stale, storable))
            .to_vec(),
        Action::Bypass => {
            [Storable::Yes, Storable::NotOfThisRequest].map(|storable| RequestState::Missed(None, storable)).to_vec()
        }
        Action::TakeWhole(stale) => {
            [true, false].map(|has_changed| RequestState::NoneWhole { stale, has_changed }).to_vec()
        }
        Action::Count => (1..=facts.min_uses).map(Some).chain([None]).map(RequestState::Counted).collect(),
        Action::Claim(stale) => [Claim::Leads(()), COMING, WHOLE, Claim::Changed, Claim::Full]
            .map(|claim| RequestState::Claimed(stale, claim))
            .to_vec(),
        Action::Follow(stale, ()) => {
            let in_vain = [true, false].map(|time_is_left| FollowResult::Nothing { time_is_left });
            let others = [FollowResult::OtherVariant, FollowResult::Unusable];
            in_vain.into_iter().chain(others).map(|followed| RequestState::Followed(stale, followed)).collect()
        }
        Action::AwaitStored(()) => [true, false].map(|is_late| RequestState::Awaited { is_late }).to_vec(),
        Action::Update((), ()) => vec![RequestState::NotUpdated((), ())],
        Action::UseStored(..) | Action::Fetch(..) | Action::Replace(_) | Action::AskAlone(..) | Action::Refuse => {
            vec![]
        }
    }
}

/// A step that some request can come to.
#[derive(Debug, Clone, Copy)]
struct Step {
    facts: Facts,
    before: Progress,
    state: AnyState,
    action: AnyAction,
    after: Progress,
}

/// All steps that requests with all combinations of facts can come to, whatever they meet.
fn all_steps() -> Vec<Step> {
    let mut open = Vec::new();
    for bypasses in [false, true] {
        for min_uses in [0, 1, 3] {
            for updates_in_background in [false, true] {
                let facts = Facts { bypasses, min_uses, updates_in_background };
                open.push((Decision::new(facts), AnyState::Begun));
            }
        }
    }
    let (mut seen, mut steps) = (HashSet::new(), Vec::new());
    while let Some((decision, state)) = open.pop() {
        if !seen.insert(format!("{decision:?} {state:?}")) {
            continue;
        }
        let mut next = decision;
        let action = next.next(state);
        let facts = decision.facts;
        steps.push(Step { facts, before: decision.progress, state, action, after: next.progress });
        open.extend(states_after(action, &facts).into_iter().map(|state| (next, state)));
    }
    steps
}

/// The stale response that a state holds.
fn stale_of(state: &AnyState) -> Option<Stale<()>> {
    match *state {
        RequestState::LookedUp(LookupResult::Stale(stale)) => Some(stale),
        RequestState::Missed(stale, _) | RequestState::Claimed(stale, _) | RequestState::Followed(stale, _) => stale,
        RequestState::NoneWhole { stale, .. } => stale,
        RequestState::NotUpdated(object, ()) => Some(Stale { object, may_be_used: true }),
        RequestState::Begun | RequestState::LookedUp(_) | RequestState::Counted(_) | RequestState::Awaited { .. } => {
            None
        }
    }
}

#[test]
fn each_action_is_taken_by_some_request() {
    let taken: BTreeSet<&str> = all_steps().iter().map(|step| name(&step.action)).collect();
    assert!(taken.iter().eq(&ACTIONS), "{taken:?}");
}

#[test]
fn each_request_comes_to_an_end() {
    // Without a new round a request only goes on to later steps, and the number of rounds has an end.
    let rank = |state: &AnyState| match state {
        RequestState::Begun => 0,
        RequestState::LookedUp(_) => 1,
        RequestState::Missed(..) => 2,
        RequestState::NoneWhole { .. } | RequestState::Counted(_) => 3,
        RequestState::Claimed(..) => 4,
        RequestState::NotUpdated(..) | RequestState::Followed(..) | RequestState::Awaited { .. } => 5,
    };
    for step in all_steps() {
        assert!(step.after.rounds <= MAX_ROUNDS, "{step:?}");
        let is_new_round = step.after.rounds > step.before.rounds;
        for next in states_after(step.action, &step.facts) {
            assert!(is_new_round || rank(&next) > rank(&step.state), "{step:?} {next:?}");
        }
    }
}

#[test]
fn a_stored_response_is_used_only_where_it_may_be() {
    for step in all_steps() {
        match step.action {
            Action::UseStored((), CacheStatus::Hit) => {
                assert_eq!(step.state, RequestState::LookedUp(LookupResult::Fresh(())), "{step:?}")
            }
            Action::UseStored((), CacheStatus::Stale) => {
                assert_eq!(step.state, RequestState::LookedUp(LookupResult::Accepted(())), "{step:?}");
            }
            // Somebody else fetches the new one, and it is not here yet.
            Action::UseStored((), status) => {
                assert_eq!(
                    (status, step.state),
                    (CacheStatus::Updating, RequestState::Claimed(USABLE, COMING)),
                    "{step:?}"
                );
            }
            Action::Update((), ()) => {
                assert_eq!(step.state, RequestState::Claimed(USABLE, Claim::Leads(())), "{step:?}");
                assert!(step.facts.updates_in_background, "{step:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_stale_response_that_may_be_used_is_not_waited_for() {
    for step in all_steps() {
        match step.state {
            RequestState::Claimed(USABLE, COMING) => {
                assert_eq!(step.action, Action::UseStored((), CacheStatus::Updating), "{step:?}");
            }
            RequestState::Claimed(USABLE, Claim::Leads(())) if step.facts.updates_in_background => {
                assert_eq!(step.action, Action::Update((), ()), "{step:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_stale_response_is_kept_for_a_server_that_fails() {
    for step in all_steps() {
        let stale = stale_of(&step.state).map(|stale| stale.object);
        match step.action {
            Action::Fetch(object, (), status) => {
                let is_stale = status == CacheStatus::Expired;
                assert!(object == stale && object.is_some() == is_stale, "{step:?}");
            }
            // In the last round the response of the lookup is known to be overtaken.
            Action::AskAlone(object, status) if step.before.rounds < MAX_ROUNDS => {
                assert!(object == stale && object.is_some() == (status == CacheStatus::Expired), "{step:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_request_that_bypasses_the_cache_uses_nothing_of_it() {
    for step in all_steps() {
        let is_of_a_bypass = match step.action {
            Action::Bypass | Action::AwaitStored(()) | Action::Replace(()) => true,
            Action::AskAlone(_, status) => status == CacheStatus::Bypass,
            // Both claim.
            Action::Claim(stale) => step.facts.bypasses && stale.is_none(),
            _ => false,
        };
        assert_eq!(is_of_a_bypass, step.facts.bypasses, "{step:?}");
    }
}

#[test]
fn a_request_whose_response_must_not_be_stored_does_not_claim_to_fetch_it() {
    for step in all_steps() {
        if let RequestState::Missed(_, storable) = step.state
            && storable != Storable::Yes
        {
            // Where the place is another resource's, what comes for it is no answer either.
            let takes = storable == Storable::NotOfThisRequest && !step.facts.bypasses;
            assert_eq!(name(&step.action), if takes { "TakeWhole" } else { "AskAlone" }, "{step:?}");
        }
    }
}

#[test]
fn uses_are_counted_once_and_only_of_what_is_absent() {
    for step in all_steps() {
        match (step.state, step.action) {
            (RequestState::Counted(Some(uses)), action) => {
                assert_eq!(uses >= step.facts.min_uses, action == Action::Claim(None), "{step:?}");
                assert!(step.after.is_counted, "{step:?}");
            }
            (state, Action::Count) => {
                assert_eq!(state, RequestState::Missed(None, Storable::Yes), "{step:?}");
                assert!(step.facts.min_uses > 1 && !step.before.is_counted, "{step:?}");
            }
            // Nothing is fetched for the cache before.
            (RequestState::Missed(None, _), Action::Claim(_)) if !step.facts.bypasses => {
                assert!(step.facts.min_uses <= 1 || step.before.is_counted, "{step:?}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_request_that_has_waited_as_long_as_it_may_waits_for_nobody() {
    for step in all_steps() {
        if step.after.has_waited {
            assert_ne!(name(&step.action), "Follow", "{step:?}");
            // It looks once more, because the response may be stored by now.
            let is_in_vain =
                matches!(step.state, RequestState::Followed(_, FollowResult::Nothing { time_is_left: false }));
            assert!(!is_in_vain || step.action == Action::LookUp || step.before.rounds == MAX_ROUNDS, "{step:?}");
        }
    }
}

#[test]
fn a_server_is_not_asked_where_the_client_forbids_it() {
    for step in all_steps() {
        assert_eq!(
            step.state == RequestState::LookedUp(LookupResult::Refused),
            step.action == Action::Refuse,
            "{step:?}"
        );
    }
}
