//! Which responses may be stored, and how long they may be used: pure code, with the time as an argument.
//!
//! There are two sets of rules. [`nginx`] has the rules of nginx's `proxy_cache`, which are the default; [`rfc9111`]
//! has the rules of RFC 9111, with nginx's `X-Accel-Expires`, `*_cache_valid` and `*_ignore_headers` in front
//! (`proxy_cache_rfc9111 on`). [`judge`] takes the set that is configured.

pub mod control;
pub mod headers;
mod lifetime;
pub mod nginx;
pub mod reuse;
pub mod rfc9111;
pub mod tags;
pub mod update;
pub mod valid;
pub mod vary;
mod verdict;

pub use headers::{Field, MAX_SECONDS, values};
pub use lifetime::Lifetime;
pub use valid::Valid;
pub use vary::Vary;
pub use verdict::{Answer, IgnoredFields, NotStoredReason, RequestFacts, Revalidation, Rules, Verdict};

/// Whether a response may be stored, and how long it may be used, by the rules that are configured. `now` is the time at
/// which its head came, seconds since the epoch.
pub fn judge(asked: &RequestFacts, answer: &Answer<'_>, rules: &Rules<'_>, now: u64) -> Verdict {
    if rules.rfc9111 { rfc9111::judge(asked, answer, rules, now) } else { nginx::judge(answer, rules, now) }
}

/// Whether a stored response of this status is revalidated with a conditional request (nginx: 200 and 206 only).
pub fn may_validate(status: u16) -> bool {
    matches!(status, 200 | 206)
}

/// The state of a stored response after a 304; `stored` has its fields. `now` is the time at which the head of the 304
/// came. [`update::refreshed`] says which fields change.
pub fn revalidated(
    asked: &RequestFacts,
    stored: &Answer<'_>,
    not_modified: &[Field],
    rules: &Rules<'_>,
    now: u64,
) -> Revalidation {
    if rules.rfc9111 {
        rfc9111::revalidated(asked, stored, not_modified, rules, now)
    } else {
        nginx::revalidated(stored, not_modified, rules, now)
    }
}
