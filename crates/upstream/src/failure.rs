//! What goes wrong with an attempt to have a request answered, and what follows from it for the server.

/// What went wrong with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There was no connection: refused, unreachable, reset.
    Connect,
    /// Connecting, sending or receiving took too long.
    Timeout,
    /// The connection ended before the response did.
    Closed,
    /// What came was no response.
    Invalid,
    /// The response's status is one that counts as a failure (`proxy_next_upstream http_500` and others).
    Status,
    /// It may not be asked (`proxy_allow_upstream`).
    Denied,
    /// An idle connection was dead when it was to be used. It does not count against the server.
    Stale,
    /// Anything else between us and the server.
    Other,
}

impl Failure {
    /// All of them, in the order of their numbers.
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

    /// Its name in `status`.
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

/// What became of the server after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// It is unavailable for a while now: nginx logs `upstream server temporarily disabled`.
    pub disabled: bool,
    /// The outlier detection leaves it out for a while.
    pub ejected: bool,
}
