//! Errors of a count.

use std::path::PathBuf;

use crate::command::StepError;

/// The reason for which there are no counts.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// A command did not start or failed.
    #[error(transparent)]
    Command(#[from] StepError),
    /// Without valgrind nothing can be counted.
    #[error("valgrind is not installed; on Debian: apt-get install valgrind")]
    NoValgrind,
    /// A server under valgrind did not start.
    #[error(transparent)]
    Server(#[from] freerun_testkit::HarnessError),
    /// A server did not answer as it has to.
    #[error("{case}: {what}")]
    Answer {
        /// The name of the case.
        case: String,
        /// The answer that came instead.
        what: String,
    },
    /// Valgrind has written something else than a count.
    #[error("no count in what valgrind has written: {0}")]
    NoCount(String),
    /// The budget cannot be read or written.
    #[error("{}: {reason}", path.display())]
    Budget {
        /// Its file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// As many connections as are wanted need more open files than may be had.
    #[error("{wanted} open files are needed, and {limit} may be had: ulimit -n")]
    OpenFiles {
        /// Needed.
        wanted: u64,
        /// The hard limit.
        limit: u64,
    },
}
