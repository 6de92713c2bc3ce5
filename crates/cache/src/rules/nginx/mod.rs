//! nginx's rules: documented with `proxy_cache_valid`, `proxy_ignore_headers` and `proxy_no_cache`.
//!
//! `X-Accel-Expires` counts before `Cache-Control`, and that before `Expires`, in whatever order they come (since
//! 1.23.0); `*_cache_valid` counts if the response has none of them. Comparisons with nginx showed the rest. nginx
//! looks for the words of `Cache-Control` anywhere in the value, `no-storex` included. It does not store a response
//! with a time that it cannot read. Of several `X-Accel-Expires` or `Expires` the first counts (since 1.23.0).

use bytes::Bytes;

use super::headers::seconds;
use super::{Answer, Field, Lifetime, NotStoredReason, Revalidation, Rules, Verdict, vary};
use freerun_proto::date::parse_http_date;

/// The longest `Vary` with which nginx stores a response, in bytes.
pub const MAX_VARY: usize = 128;

/// The state of the decision after the fields seen so far.
#[derive(Default)]
struct FieldState {
    /// The time up to which the response may be used.
    until: Option<u64>,
    /// `until` is from `X-Accel-Expires`.
    accel: bool,
    /// `Expires` is in the past, or cannot be read; a time in `Cache-Control` counts before it.
    expired: bool,
    /// `Cache-Control` forbids storing; `X-Accel-Expires` counts before it.
    forbidden: Option<NotStoredReason>,
    /// `X-Accel-Expires: 0` or a cookie forbids storing: no other field counts before that.
    never: Option<NotStoredReason>,
    stale_while_revalidate: Option<u64>,
    stale_if_error: Option<u64>,
}

/// Whether a response may be stored, and how long it may be used. `now` is in seconds since the epoch.
pub fn judge(answer: &Answer<'_>, rules: &Rules<'_>, now: u64) -> Verdict {
    let said = FieldState::of(answer.fields, rules, now);
    let vary = match vary_names(answer.fields, rules) {
        Ok(names) => names,
        Err(why) => return Verdict::DoNot(why),
    };
    match said.verdict(answer.status, rules, now) {
        Ok(lifetime) => Verdict::Store { lifetime, vary },
        Err(why) => Verdict::DoNot(why),
    }
}

/// The state of a stored response after a 304. A time in the 304 counts. Otherwise the time in the stored fields
/// counts, from now on, or the time of `*_cache_valid`. If there is none either, the stored response stays as stale as
/// it is.
pub fn revalidated(stored: &Answer<'_>, not_modified: &[Field], rules: &Rules<'_>, now: u64) -> Revalidation {
    let said = FieldState::of(not_modified, rules, now);
    if let Some(until) = said.until
        && (said.accel || said.forbidden.is_none())
    {
        return Revalidation::Until(said.lifetime(until, now));
    }
    match FieldState::of(stored.fields, rules, now).verdict(stored.status, rules, now) {
        Ok(lifetime) => Revalidation::Until(lifetime),
        Err(_) => Revalidation::Stays,
    }
}

/// The names in `Vary`.
fn vary_names(fields: &[Field], rules: &Rules<'_>) -> Result<Option<Bytes>, NotStoredReason> {
    if rules.ignored.vary {
        return Ok(None);
    }
    vary::names(fields, MAX_VARY).map_err(|()| NotStoredReason::Vary)
}

impl FieldState {
    fn of(fields: &[Field], rules: &Rules<'_>, now: u64) -> FieldState {
        let mut said = FieldState::default();
        let (mut accel_expires, mut expires) = (false, false);
        let is_first = |seen: &mut bool| !std::mem::replace(seen, true);
        for (name, value) in fields {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            if is("x-accel-expires") && !rules.ignored.accel_expires {
                if is_first(&mut accel_expires) {
                    said.accel_expires(value, now);
                }
            } else if is("cache-control") && !rules.ignored.cache_control {
                said.cache_control(value, now);
            } else if is("expires") && !rules.ignored.expires {
                if is_first(&mut expires) {
                    said.expires(value, now);
                }
            } else if is("set-cookie") && !rules.ignored.set_cookie {
                said.never = Some(NotStoredReason::SetCookie);
            }
        }
        said
    }

    fn accel_expires(&mut self, value: &[u8], now: u64) {
        let until = match accel_expires(value, now) {
            Some(0) => return self.never = Some(NotStoredReason::Expired),
            Some(until) => until,
            None => return,
        };
        (self.until, self.accel) = (Some(until), true);
    }

    fn cache_control(&mut self, value: &[u8], now: u64) {
        for (word, why) in [
            ("no-cache", NotStoredReason::NoCache),
            ("no-store", NotStoredReason::NoStore),
            ("private", NotStoredReason::Private),
        ] {
            if find(value, word).is_some() {
                self.forbidden = Some(why);
            }
        }
        match parameter(value, "s-maxage=").or_else(|| parameter(value, "max-age=")) {
            Some(Ok(0)) => self.forbidden = Some(NotStoredReason::Expired),
            Some(Err(())) => self.forbidden = Some(NotStoredReason::Unreadable),
            Some(Ok(seconds)) if !self.accel => {
                (self.until, self.expired) = (Some(now + seconds), false);
            }
            Some(Ok(_)) | None => {}
        }
        for (word, slot) in [
            ("stale-while-revalidate=", &mut self.stale_while_revalidate),
            ("stale-if-error=", &mut self.stale_if_error),
        ] {
            match parameter(value, word) {
                Some(Ok(seconds)) => *slot = Some(seconds),
                Some(Err(())) => self.forbidden = Some(NotStoredReason::Unreadable),
                None => {}
            }
        }
    }

    fn expires(&mut self, value: &[u8], now: u64) {
        if self.until.is_some() {
            return;
        }
        match parse_http_date(value).and_then(|date| u64::try_from(date).ok()) {
            Some(date) if date >= now => self.until = Some(date.min(now + super::MAX_SECONDS)),
            _ => self.expired = true,
        }
    }

    fn verdict(self, status: u16, rules: &Rules<'_>, now: u64) -> Result<Lifetime, NotStoredReason> {
        if let Some(why) = self.never {
            return Err(why);
        }
        if !self.accel {
            if let Some(why) = self.forbidden {
                return Err(why);
            }
            if self.expired {
                return Err(NotStoredReason::Expired);
            }
        }
        let fresh_until = match self.until {
            Some(until) => until,
            None => match rules.valid.map_or(0, |valid| valid.seconds(status)) {
                0 => return Err(NotStoredReason::NoLifetime),
                seconds => now + u64::from(seconds),
            },
        };
        Ok(self.lifetime(fresh_until, now))
    }

    fn lifetime(&self, fresh_until: u64, now: u64) -> Lifetime {
        // nginx lets stale-while-revalidate cover errors, too.
        let stale_if_error = self.stale_if_error.or(self.stale_while_revalidate).unwrap_or(0);
        Lifetime {
            fresh_until,
            born: now,
            stale_while_revalidate: clamp(self.stale_while_revalidate.unwrap_or(0)),
            stale_if_error: clamp(stale_if_error),
            ..Lifetime::default()
        }
    }
}

/// A number of seconds in the width that an entry has for it.
pub(super) fn clamp(seconds: u64) -> u32 {
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The time of `X-Accel-Expires`, in seconds since the epoch: `0` for "not at all"; `None` if the value cannot be read.
pub(super) fn accel_expires(value: &[u8], now: u64) -> Option<u64> {
    let (absolute, digits) = value.strip_prefix(b"@").map_or((false, value), |time| (true, time));
    // Unlike in Cache-Control, nginx cannot read a number here that is too large.
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    let latest = now + super::MAX_SECONDS;
    match (absolute, digits.parse::<u64>().ok()?) {
        (true, time) => (time > 0).then_some(time.min(latest)),
        (false, 0) => Some(0),
        (false, seconds) => Some(now.saturating_add(seconds).min(latest)),
    }
}

/// The place where a word begins in a value, in any case and with anything around it.
fn find(value: &[u8], word: &str) -> Option<usize> {
    value.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// The number behind a word that ends with `=`, at its first place in the value. The number ends with `,`, `;` or a
/// space.
fn parameter(value: &[u8], word: &str) -> Option<Result<u64, ()>> {
    let rest = &value[find(value, word)? + word.len()..];
    let end = rest.iter().position(|b| matches!(b, b',' | b';' | b' ')).unwrap_or(rest.len());
    Some(seconds(&rest[..end]).ok_or(()))
}

#[cfg(test)]
mod tests;
