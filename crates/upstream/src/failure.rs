//! The ways in which an attempt to have a request answered can fail, and the consequences for the server.

/// The way in which an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    /// No connection could be made: refused, unreachable, reset.
    Connect,
    /// Connecting, sending or receiving took too long.
    Timeout,
    /// The connection ended before the response did.
    Closed,
    /// The bytes received were not a valid response.
    Invalid,
    /// The response's status counts as a failure (`proxy_next_upstream http_500` and others).
    Status,
    /// The server may not be asked (`proxy_allow_upstream`).
    Denied,
    /// An idle connection was found dead when it was to be used. This does not count against the server.
    Stale,
    /// Any other error between the proxy and the server.
    Other,
}

impl AttemptFailure {
    /// All failures, in the order of their numbers.
    pub const ALL: [AttemptFailure; 8] = [
        AttemptFailure::Connect,
        AttemptFailure::Timeout,
        AttemptFailure::Closed,
        AttemptFailure::Invalid,
        AttemptFailure::Status,
        AttemptFailure::Denied,
        AttemptFailure::Stale,
        AttemptFailure::Other,
    ];

    /// The name of the failure in `status`.
    pub fn word(self) -> &'static str {
        match self {
            AttemptFailure::Connect => "connect",
            AttemptFailure::Timeout => "timeout",
            AttemptFailure::Closed => "closed",
            AttemptFailure::Invalid => "invalid",
            AttemptFailure::Status => "status",
            AttemptFailure::Denied => "denied",
            AttemptFailure::Stale => "stale",
            AttemptFailure::Other => "other",
        }
    }
}

/// The consequence of a failure for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureVerdict {
    /// Whether the server is unavailable for a while now.
    pub disabled: bool,
    /// Whether the outlier detection leaves the server out for a while.
    pub ejected: bool,
}

impl FailureVerdict {
    /// nginx's words for a server that is unavailable for a while now.
    const DISABLED: &'static str = "upstream server temporarily disabled";

    /// The words for a server that the outlier detection leaves out.
    pub const EJECTED: &'static str = "upstream server ejected as an outlier";

    /// Words for the error log at the level `warn`: none, if the server is used as before.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        [(self.disabled, FailureVerdict::DISABLED), (self.ejected, FailureVerdict::EJECTED)]
            .into_iter()
            .filter_map(|(is, words)| is.then_some(words))
    }
}
