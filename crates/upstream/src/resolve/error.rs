//! Why a name has no address.

/// Why a name could not be resolved. Printed as nginx prints it: `(3: Host not found)` without the brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name server did not understand the question, or the name is none.
    #[error("1: Format error")]
    Format,
    /// The name server has trouble of its own.
    #[error("2: Server failure")]
    ServerFailure,
    /// There is no such name, or it has no address.
    #[error("3: Host not found")]
    NotFound,
    /// The name server cannot answer such a question.
    #[error("4: Unimplemented")]
    NotImplemented,
    /// The name server will not answer.
    #[error("5: Operation refused")]
    Refused,
    /// Another of the codes that name servers answer with.
    #[error("{0}: Unknown error")]
    Other(u16),
    /// No name server has answered in time.
    #[error("110: Operation timed out")]
    TimedOut,
    /// A name server has answered, but what it sent ends too early or is no answer section.
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
