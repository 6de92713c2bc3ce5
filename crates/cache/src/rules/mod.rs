//! What may be stored, and how long it may be used: pure code, with the time as an argument.
//!
//! There are two sets of rules. [`nginx`] has those of nginx's `proxy_cache`, which are the default; [`rfc9111`] has those of
//! RFC 9111, with nginx's `X-Accel-Expires`, `*_cache_valid` and `*_ignore_headers` in front (`proxy_cache_rfc9111 on`).
//! [`judge`] takes the one that is asked for.

pub mod control;
pub mod headers;
pub mod nginx;
pub mod reuse;
pub mod rfc9111;
pub mod tags;
pub mod update;
pub mod valid;
pub mod vary;

use bytes::Bytes;

pub use headers::{Field, values};
pub use valid::Valid;
pub use vary::Vary;

/// The largest number of seconds that a field can ask for: 2^31, as RFC 9111 section 1.2.2 has it for what is larger.
pub const MAX_SECONDS: u64 = 1 << 31;

/// How long a stored response may be used, and how old it is. All times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// Fresh while the time is not greater than this.
    pub fresh_until: u64,
    /// When its age was zero: `Age` is what has gone by since then (RFC 9111 section 4.2.3).
    pub born: u64,
    /// Seconds behind `fresh_until` in which it may be used while a fresh one is fetched (RFC 5861 section 3).
    pub stale_while_revalidate: u32,
    /// Seconds behind `fresh_until` in which it may be used where the upstream fails (RFC 5861 section 4).
    pub stale_if_error: u32,
    /// It may not be used stale, whatever `*_cache_use_stale` and a client's `max-stale` say: `must-revalidate`,
    /// `proxy-revalidate`, `s-maxage` (RFC 9111 section 5.2.2). Never set by nginx's rules.
    pub must_revalidate: bool,
    /// It may not be used at all before the upstream was asked: `no-cache` (RFC 9111 section 5.2.2.4). Never set by nginx's
    /// rules, by which such a response is not stored.
    pub no_cache: bool,
}

impl Lifetime {
    /// Whether it may be used without asking.
    pub fn is_fresh(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until
    }

    /// Whether `stale-while-revalidate` allows its use at that time.
    pub fn may_refresh_behind(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until.saturating_add(self.stale_while_revalidate.into())
    }

    /// Whether `stale-if-error` allows its use at that time.
    pub fn may_cover_errors(&self, now: u64) -> bool {
        !self.no_cache && now <= self.fresh_until.saturating_add(self.stale_if_error.into())
    }

    /// Its age in seconds (RFC 9111 section 4.2.3).
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.born)
    }

    /// Seconds that it stays fresh.
    pub fn remaining(&self, now: u64) -> u64 {
        self.fresh_until.saturating_sub(now)
    }
}

/// Fields of responses that are not acted on: nginx's `*_ignore_headers`, as far as caching goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ignored {
    /// Whether `X-Accel-Expires` is ignored.
    pub accel_expires: bool,
    /// Whether `Expires` is ignored.
    pub expires: bool,
    /// Whether `Cache-Control` is ignored.
    pub cache_control: bool,
    /// Whether `Set-Cookie` is ignored.
    pub set_cookie: bool,
    /// Whether `Vary` is ignored.
    pub vary: bool,
}

/// What the configuration says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules<'a> {
    /// `*_cache_rfc9111 on`
    pub rfc9111: bool,
    /// The fields that `*_ignore_headers` names.
    pub ignored: Ignored,
    /// The lifetimes that `*_cache_valid` gives.
    pub valid: Option<&'a Valid>,
}

/// What of a request matters to whether its response may be stored. nginx's rules look at none of it: which methods have
/// to do with the cache is `*_cache_methods`, and decided before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Asked {
    /// The method is `HEAD`, and was sent as such (`*_cache_convert_head off`).
    pub head: bool,
    /// The client sent `Authorization`.
    pub authorization: bool,
    /// A `Range` was sent to the upstream, so that a 206 is what was asked for (`slice`).
    pub ranged: bool,
    /// The client's `Cache-Control`.
    pub control: control::RequestControl,
    /// When the request was sent to the upstream, seconds since the epoch.
    pub sent: u64,
}

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields, in their order.
    pub fields: &'a [Field],
}

/// What is to be done with a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be stored.
    Store {
        /// How long it may be used.
        lifetime: Lifetime,
        /// The names of request fields that choose among responses (`Vary`), lower case, comma between them; `None` for
        /// none. [`Vary::new`] makes the variant of a request from it.
        vary: Option<Bytes>,
    },
    /// It may not.
    DoNot(Why),
}

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// `no-store`, of the response or (RFC 9111) of the request.
    NoStore,
    /// `no-cache`, where nothing could be validated.
    NoCache,
    /// `Cache-Control` says `private`.
    Private,
    /// Its time is over already, or it says so: `max-age=0`, `X-Accel-Expires: 0`, `Expires` in the past.
    Expired,
    /// A number that cannot be read stands where a time is expected.
    Unreadable,
    /// Nothing says how long it may be used.
    NoLifetime,
    /// It sets a cookie.
    SetCookie,
    /// `Vary: *`, or names that are too long.
    Vary,
    /// It answers a request with `Authorization`, and does not say that others may have it.
    Authorization,
    /// A status that may not be stored as an answer to this request: a 206 or 304 that nobody asked for, or one that is not
    /// understood, with `must-understand`.
    Status,
}

impl Why {
    /// In words, for the log and for the endpoint that explains a key.
    pub fn words(self) -> &'static str {
        match self {
            Why::NoStore => "no-store",
            Why::NoCache => "no-cache without a validator",
            Why::Private => "private",
            Why::Expired => "expired already",
            Why::Unreadable => "a time that cannot be read",
            Why::NoLifetime => "nothing says how long it may be used",
            Why::SetCookie => "Set-Cookie",
            Why::Vary => "Vary",
            Why::Authorization => "the request had Authorization",
            Why::Status => "the status cannot be stored",
        }
    }
}

/// Whether a response may be stored, and how long it may be used, by the rules that are configured. `now` is the time at
/// which its head came, seconds since the epoch.
pub fn judge(asked: &Asked, answer: &Answer<'_>, rules: &Rules<'_>, now: u64) -> Verdict {
    match rules.rfc9111 {
        true => rfc9111::judge(asked, answer, rules, now),
        false => nginx::judge(answer, rules, now),
    }
}

/// What a 304 makes of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It may be used for so long.
    Until(Lifetime),
    /// Nothing says how long it may be used: it is good for this request, and the next one asks again.
    Stays,
    /// It may not be stored any more; it is good for this request.
    Goes(Why),
}

/// Whether an upstream is asked about a stored response with a condition (nginx: 200 and 206 only).
pub fn may_validate(status: u16) -> bool {
    matches!(status, 200 | 206)
}

/// What a 304 makes of a stored response, whose fields are `stored`. `now` is the time at which its head came. Which fields
/// change is [`update::refreshed`].
pub fn revalidated(asked: &Asked, stored: &Answer<'_>, not_modified: &[Field], rules: &Rules<'_>, now: u64) -> Renewed {
    match rules.rfc9111 {
        true => rfc9111::revalidated(asked, stored, not_modified, rules, now),
        false => nginx::revalidated(stored, not_modified, rules, now),
    }
}
