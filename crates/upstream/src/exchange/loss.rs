//! Reasons why a shared connection ends.

use std::io;

/// Reason why a connection carries nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossReason {
    /// The server has closed it.
    Closed,
    /// The system call failed with this error.
    Error(io::ErrorKind, Option<i32>),
    /// The server has not answered a PING in time.
    Unanswered,
    /// The server has broken the rules; the text for the log says how.
    Invalid(String),
}

impl From<&io::Error> for LossReason {
    fn from(error: &io::Error) -> LossReason {
        LossReason::Error(error.kind(), error.raw_os_error())
    }
}

impl LossReason {
    /// The error that a reader of the connection gets as of a byte stream; `None`: it sees the end.
    pub fn error(&self) -> Option<io::Error> {
        match self {
            LossReason::Error(_, Some(code)) => Some(io::Error::from_raw_os_error(*code)),
            LossReason::Error(kind, None) => Some((*kind).into()),
            LossReason::Unanswered => Some(io::ErrorKind::TimedOut.into()),
            LossReason::Closed | LossReason::Invalid(_) => None,
        }
    }
}
