//! Errors of a benchmark.

use std::fmt::Display;
use std::io;

/// The reason that a benchmark, or one server of it, gave no figure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed, with the path or address.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Something the benchmark needs is missing or not permitted; the text says what to do.
    #[error("{0}")]
    Setup(String),
    /// A server or client did something that makes the figure worthless.
    #[error("{0}")]
    Failed(String),
    /// SIGINT or SIGTERM arrived.
    #[error("interrupted")]
    Interrupted,
}

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds what was being done to an I/O error.
pub trait ErrorContext<T> {
    /// Turns the error into [`Error::Io`] with `what`.
    fn doing(self, what: impl Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> ErrorContext<T> for std::result::Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Error::Io { what: what.to_string(), source: error.into() })
    }
}
