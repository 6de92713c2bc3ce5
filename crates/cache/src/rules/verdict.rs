//! What a set of rules is asked, and what it answers: about a request and its response, and about a 304.

use bytes::Bytes;

use super::control::RequestControl;
use super::headers::Field;
use super::lifetime::Lifetime;
use super::valid::Valid;

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
    pub control: RequestControl,
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
        /// none. [`Vary::new`](super::Vary::new) makes the variant of a request from it.
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
