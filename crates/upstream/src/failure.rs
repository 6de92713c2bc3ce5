//! The ways in which an attempt to have a request answered can fail, and the consequences for the server.

/// The way in which an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made: refused, unreachable, reset.
    Connect,
    /// Connecting, sending or receiving took too long.
    Timeout,
    /// The connection ended before the response did.
    Closed,
    /// The bytes received were not a valid response.
    Invalid,
    /// The response's status is one that counts as a failure (`proxy_next_upstream http_500` and others).
    Status,
    /// The server may not be asked (`proxy_allow_upstream`).
    Denied,
    /// An idle connection was found dead when it was to be used. This does not count against the server.
    Stale,
    /// Any other error between the proxy and the server.
    Other,
}

impl Failure {
    /// All failures, in the order of their numbers.
    pub const ALL: [Failure; 8] = [
        Failure::Connect,
        Failure::Timeout,
        Failure::Closed,
        Failure::Invalid,
        Failure::Status,
        Failure::Denied,
        Failure::Stale,
        Failure::Other,
    ];

    /// The name of the failure in `status`.
    pub fn word(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::Timeout => "timeout",
            Failure::Closed => "closed",
            Failure::Invalid => "invalid",
            Failure::Status => "status",
            Failure::Denied => "denied",
            Failure::Stale => "stale",
            Failure::Other => "other",
        }
    }
}

/// The consequence of a failure for the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Whether the server is unavailable for a while now.
    pub disabled: bool,
    /// Whether the outlier detection leaves the server out for a while.
    pub ejected: bool,
}

impl Verdict {
    /// nginx's words for a server that is unavailable for a while now.
    const DISABLED: &'static str = "upstream server temporarily disabled";

    /// The words for a server that the outlier detection leaves out.
    pub const EJECTED: &'static str = "upstream server ejected as an outlier";

    /// What the error log tells of it, at the level `warn`: nothing, if the server is used as before.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        [(self.disabled, Verdict::DISABLED), (self.ejected, Verdict::EJECTED)]
            .into_iter()
            .filter_map(|(is, words)| is.then_some(words))
    }
}
