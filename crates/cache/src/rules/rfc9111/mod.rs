//! The rules of RFC 9111 (`*_cache_rfc9111 on`), for a shared cache.
//!
//! nginx's own rules stay in front. `X-Accel-Expires` counts before everything else that the response says about
//! caching. `*_cache_valid` counts in place of a heuristic if the response says nothing. A response with `Set-Cookie`
//! is not stored unless `*_ignore_headers` names the field: RFC 9111 section 7.3 leaves that open, and a shared session
//! is no small mistake.

use super::control::{DirectiveScope, ResponseControl, Time};
use super::headers::{Field, seconds, values};
use super::nginx::{accel_expires, clamp};
use super::{Answer, Lifetime, MAX_SECONDS, NotStoredReason, RequestFacts, Revalidation, Rules, Verdict, update, vary};
use freerun_proto::date::parse_http_date;
use freerun_proto::status;

/// The longest `Vary` with which a response is stored, in bytes.
pub const MAX_VARY: usize = 1024;

/// A heuristic lifetime is the time since the last change divided by this (RFC 9111 section 4.2.2).
const HEURISTIC_PART: u64 = 10;

/// The longest heuristic lifetime in seconds: a day, beyond which the predecessor of RFC 9111 asked for a warning.
const MAX_HEURISTIC: u64 = 86_400;

/// Statuses that may be stored without a lifetime of their own: RFC 9110 section 15.1, and 308.
fn has_heuristics(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// The fields of a response that matter to caching, put together.
struct Fields<'a> {
    control: ResponseControl<'a>,
    /// `X-Accel-Expires`, in seconds since the epoch.
    accel: Option<u64>,
    date: Option<u64>,
    /// `Expires`: `Some(None)` is a value that cannot be read, which counts as a time in the past.
    expires: Option<Option<u64>>,
    last_modified: Option<u64>,
    /// The response can be validated.
    validator: bool,
    age: Age,
}

/// The value of `Age`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Is(u64),
    /// The field is there and cannot be read, so the age is unknown.
    Unreadable,
}

fn date(value: &[u8]) -> Option<u64> {
    parse_http_date(value).and_then(|date| u64::try_from(date).ok())
}

impl<'a> Fields<'a> {
    fn of(fields: &'a [Field], rules: &Rules<'_>, now: u64) -> Fields<'a> {
        let ignored = rules.ignored;
        let first = |name: &'static [u8]| values(fields, name).next();
        let accel = || values(fields, b"x-accel-expires").filter_map(|value| accel_expires(value, now)).last();
        Fields {
            control: if ignored.cache_control {
                ResponseControl::default()
            } else {
                ResponseControl::of(values(fields, b"cache-control"))
            },
            accel: if ignored.accel_expires { None } else { accel() },
            date: first(b"date").and_then(date),
            expires: first(b"expires").filter(|_| !ignored.expires).map(date),
            last_modified: first(b"last-modified").and_then(date),
            validator: first(b"etag").is_some() || first(b"last-modified").is_some(),
            age: age(fields),
        }
    }

    /// The lifetime that the response states, if it states one: RFC 9111 section 4.2.1.
    fn explicit(&self, now: u64) -> Option<Time> {
        if self.control.s_maxage != Time::Absent {
            return Some(self.control.s_maxage);
        }
        if self.control.max_age != Time::Absent {
            return Some(self.control.max_age);
        }
        let expires = self.expires?;
        let seconds = expires.map(|expires| expires.saturating_sub(self.date.unwrap_or(now)).min(MAX_SECONDS));
        Some(seconds.map_or(Time::Unreadable, Time::Is))
    }

    fn heuristic(&self, now: u64) -> Option<u64> {
        let since = self.date.unwrap_or(now).min(now).checked_sub(self.last_modified?)?;
        Some((since / HEURISTIC_PART).min(MAX_HEURISTIC))
    }

    /// The response's age when its head came: RFC 9111 section 4.2.3.
    fn initial_age(&self, asked: &RequestFacts, now: u64) -> u64 {
        let apparent = self.date.map_or(0, |date| now.saturating_sub(date));
        let stated = match self.age {
            Age::Is(age) => age.saturating_add(now.saturating_sub(asked.sent)),
            Age::Unreadable => 0,
        };
        apparent.max(stated)
    }
}

/// Reads `Age`. By RFC 9111 section 5.1 a cache should ignore a value that it cannot read, and take the first of
/// several. A response of unknown age may always be treated as stale, which is the safe side.
fn age(fields: &[Field]) -> Age {
    let mut lines = values(fields, b"age");
    match (lines.next(), lines.next()) {
        (None, _) => Age::Is(0),
        (Some(value), None) => seconds(value).map_or(Age::Unreadable, Age::Is),
        (Some(_), Some(_)) => Age::Unreadable,
    }
}

/// Whether a response may be stored, and how long it may be used. `now` is in seconds since the epoch.
pub fn judge(asked: &RequestFacts, answer: &Answer<'_>, rules: &Rules<'_>, now: u64) -> Verdict {
    let said = Fields::of(answer.fields, rules, now);
    if let Some(why) = forbidden(asked, answer, rules, &said) {
        return Verdict::DoNot(why);
    }
    let vary = if rules.ignored.vary {
        None
    } else {
        match vary::names(answer.fields, MAX_VARY) {
            Ok(names) => names,
            Err(()) => return Verdict::DoNot(NotStoredReason::Vary),
        }
    };
    match lifetime(asked, answer.status, rules, &said, now) {
        Ok(lifetime) => Verdict::Store { lifetime, vary },
        Err(why) => Verdict::DoNot(why),
    }
}

/// The state of a stored response after a 304: RFC 9111 section 4.3.4. The fields of the 304 replace those stored; the
/// age begins anew, so neither the stored `Age` nor the stored `Date` counts any more.
pub fn revalidated(
    asked: &RequestFacts,
    stored: &Answer<'_>,
    not_modified: &[Field],
    rules: &Rules<'_>,
    now: u64,
) -> Revalidation {
    let mut fields = update::merged(stored.fields, update::of_a_304(not_modified, rules.ignored));
    for name in [&b"age"[..], b"date"] {
        if values(not_modified, name).next().is_none() {
            fields.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
        }
    }
    // Whether a partial response may be stored was decided when it was stored.
    let asked = RequestFacts { ranged: true, ..*asked };
    match judge(&asked, &Answer { status: stored.status, fields: &fields }, rules, now) {
        Verdict::Store { lifetime, .. } => Revalidation::Until(lifetime),
        Verdict::DoNot(NotStoredReason::Expired | NotStoredReason::NoLifetime | NotStoredReason::Unreadable) => {
            Revalidation::Stays
        }
        Verdict::DoNot(why) => Revalidation::Goes(why),
    }
}

/// The reason that forbids storing, by RFC 9111 section 3, except for the rules about lifetimes.
fn forbidden(
    asked: &RequestFacts,
    answer: &Answer<'_>,
    rules: &Rules<'_>,
    said: &Fields<'_>,
) -> Option<NotStoredReason> {
    let control = &said.control;
    // The request had no range or condition, so the response is no answer to other requests.
    if answer.status < 200 || answer.status == 304 || (answer.status == 206 && !asked.ranged) {
        return Some(NotStoredReason::Status);
    }
    if !rules.ignored.set_cookie && values(answer.fields, b"set-cookie").next().is_some() {
        return Some(NotStoredReason::SetCookie);
    }
    if asked.control.no_store {
        return Some(NotStoredReason::NoStore);
    }
    if said.accel.is_some() {
        return None;
    }
    if control.must_understand && status::reason(answer.status).is_empty() {
        return Some(NotStoredReason::Status);
    }
    // A cache that knows must-understand, and the status, ignores no-store beside it: section 5.2.2.3.
    if control.no_store && !control.must_understand {
        return Some(NotStoredReason::NoStore);
    }
    if control.private == DirectiveScope::All {
        return Some(NotStoredReason::Private);
    }
    let for_others = control.public || control.must_revalidate || control.s_maxage != Time::Absent;
    if asked.authorization && !for_others {
        return Some(NotStoredReason::Authorization);
    }
    None
}

fn lifetime(
    asked: &RequestFacts,
    status: u16,
    rules: &Rules<'_>,
    said: &Fields<'_>,
    now: u64,
) -> Result<Lifetime, NotStoredReason> {
    let control = &said.control;
    let age = said.initial_age(asked, now);
    let born = now.saturating_sub(age);
    if let Some(until) = said.accel {
        return match until {
            0 => Err(NotStoredReason::Expired),
            fresh_until => Ok(Lifetime { fresh_until, born, ..stale(control, false) }),
        };
    }
    let no_cache = control.no_cache == DirectiveScope::All;
    let explicit = said.explicit(now);
    let must_revalidate =
        control.must_revalidate || control.proxy_revalidate || control.s_maxage != Time::Absent || no_cache;
    let mut lifetime = Lifetime { born, no_cache, ..stale(control, must_revalidate) };
    let configured = rules.valid.map_or(0, |valid| valid.seconds(status));
    let mut why = NotStoredReason::Expired;
    // Fresh while the age is less than the lifetime: section 4.2.
    lifetime.fresh_until = match explicit {
        _ if said.age == Age::Unreadable => now - 1,
        Some(Time::Is(seconds)) => (born + seconds).saturating_sub(1),
        Some(Time::Unreadable | Time::Absent) => {
            why = NotStoredReason::Unreadable;
            now - 1
        }
        None if configured > 0 => now + u64::from(configured) - 1,
        None if has_heuristics(status) || control.public => match said.heuristic(now) {
            Some(seconds) => (born + seconds).saturating_sub(1),
            None if no_cache => now - 1,
            None => return Err(NotStoredReason::NoLifetime),
        },
        None if no_cache => now - 1,
        None => return Err(NotStoredReason::NoLifetime),
    };
    // Without a lifetime the response is of use only if it can be validated, or may be used stale.
    if !said.validator {
        if no_cache {
            return Err(NotStoredReason::NoCache);
        }
        if !lifetime.is_fresh(now) && !lifetime.may_refresh_behind(now) && !lifetime.may_cover_errors(now) {
            return Err(why);
        }
    }
    Ok(lifetime)
}

/// The part of a lifetime that is about stale use. A response that must be revalidated is never used stale.
fn stale(control: &ResponseControl<'_>, must_revalidate: bool) -> Lifetime {
    let seconds = |time: Time| if must_revalidate { 0 } else { clamp(time.seconds().unwrap_or(0)) };
    Lifetime {
        stale_while_revalidate: seconds(control.stale_while_revalidate),
        stale_if_error: seconds(control.stale_if_error),
        must_revalidate,
        ..Lifetime::default()
    }
}

#[cfg(test)]
mod tests;
