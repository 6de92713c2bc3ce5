//! The reasons why a name has no address.

/// The reason why a name could not be resolved. It is printed as in nginx, `(3: Host not found)`, without the brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name server did not understand the question, or the name is not valid.
    #[error("1: Format error")]
    Format,
    /// The name server failed.
    #[error("2: Server failure")]
    ServerFailure,
    /// There is no such name, or it has no address.
    #[error("3: Host not found")]
    NotFound,
    /// The name server does not support this kind of question.
    #[error("4: Unimplemented")]
    NotImplemented,
    /// The name server refuses to answer.
    #[error("5: Operation refused")]
    Refused,
    /// Another response code of a name server.
    #[error("{0}: Unknown error")]
    Other(u16),
    /// No name server has answered in time.
    #[error("110: Operation timed out")]
    TimedOut,
    /// A name server has answered, but the message ends too early or has no valid answer section.
    #[error("2: Server failure, the answer cannot be read")]
    Unreadable,
    /// Too many questions are waiting for an answer already.
    #[error("2: Server failure, too many questions are waiting")]
    Busy,
}

impl ResolveError {
    /// The error of a DNS response code (RFC 1035, 4.1.1); `None` for 0, which is no error.
    pub fn of_code(code: u16) -> Option<ResolveError> {
        match code {
            0 => None,
            1 => Some(ResolveError::Format),
            2 => Some(ResolveError::ServerFailure),
            3 => Some(ResolveError::NotFound),
            4 => Some(ResolveError::NotImplemented),
            5 => Some(ResolveError::Refused),
            other => Some(ResolveError::Other(other)),
        }
    }
}
