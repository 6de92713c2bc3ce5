//! The questions that a set of rules is asked, and its answers: about a request and its response, and about a 304.

use bytes::Bytes;

use super::control::RequestControl;
use super::headers::Field;
use super::lifetime::Lifetime;
use super::valid::Valid;

/// Fields of responses that are not acted on: nginx's `*_ignore_headers`, as far as caching goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IgnoredFields {
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

/// The part of the configuration that the rules need.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules<'a> {
    /// `*_cache_rfc9111 on`.
    pub rfc9111: bool,
    /// The fields that `*_ignore_headers` names.
    pub ignored: IgnoredFields,
    /// The lifetimes that `*_cache_valid` gives.
    pub valid: Option<&'a Valid>,
}

/// The parts of a request that decide whether its response may be stored. nginx's rules use none of them:
/// `*_cache_methods` decides before which methods use the cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestFacts {
    /// The method is `HEAD`, and was sent as `HEAD` (`*_cache_convert_head off`).
    pub head: bool,
    /// The client sent `Authorization`.
    pub authorization: bool,
    /// A `Range` was sent to the upstream, so that a 206 is the expected answer (`slice`).
    pub ranged: bool,
    /// The client's `Cache-Control`.
    pub control: RequestControl,
    /// Moment at which the request was sent to the upstream, in seconds since the epoch.
    pub sent: u64,
}

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status of the response.
    pub status: u16,
    /// The fields of the response, in their order.
    pub fields: &'a [Field],
}

/// Whether a response may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The response may be stored.
    Store {
        /// Time for which the response may be used.
        lifetime: Lifetime,
        /// The names of the request fields that choose among responses (`Vary`), in lower case, with a comma between
        /// them; `None` if there are none. [`Vary::new`](super::Vary::new) makes the variant of a request from it.
        vary: Option<Bytes>,
    },
    /// The response may not be stored.
    DoNot(NotStoredReason),
}

/// Reason why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStoredReason {
    /// `no-store`, in the response or (RFC 9111) in the request.
    NoStore,
    /// `no-cache`, in a response that cannot be validated.
    NoCache,
    /// `Cache-Control` says `private`.
    Private,
    /// The lifetime is over already: `max-age=0`, `X-Accel-Expires: 0`, `Expires` in the past.
    Expired,
    /// A field has an unreadable number where a time is expected.
    Unreadable,
    /// The lifetime is not known: neither the response nor the configuration gives one.
    NoLifetime,
    /// The response sets a cookie.
    SetCookie,
    /// `Vary: *`, or names that are too long.
    Vary,
    /// The request has `Authorization`, and the response does not allow a shared cache to store it.
    Authorization,
    /// A status that may not be stored as an answer to this request: a 206 or 304 that was not asked for, or an unknown
    /// status with `must-understand`.
    Status,
}

impl NotStoredReason {
    /// The reason in words, for the log and for the endpoint that explains a key.
    pub fn words(self) -> &'static str {
        match self {
            NotStoredReason::NoStore => "no-store",
            NotStoredReason::NoCache => "no-cache without a validator",
            NotStoredReason::Private => "private",
            NotStoredReason::Expired => "expired already",
            NotStoredReason::Unreadable => "a time that cannot be read",
            NotStoredReason::NoLifetime => "nothing says how long it may be used",
            NotStoredReason::SetCookie => "Set-Cookie",
            NotStoredReason::Vary => "Vary",
            NotStoredReason::Authorization => "the request had Authorization",
            NotStoredReason::Status => "the status cannot be stored",
        }
    }
}

/// The state of a stored response after a 304.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revalidation {
    /// The response may be used for this lifetime.
    Until(Lifetime),
    /// There is no lifetime: the response may be used for this request, and the next request revalidates it again.
    Stays,
    /// The response may not be stored any more; it may be used for this request.
    Goes(NotStoredReason),
}
