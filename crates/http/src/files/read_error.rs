//! The reason why a piece of a file could not be read.

use freerun_runtime::files::FileError;

/// The reason why a piece of a file could not be read for a response or a request.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file has become shorter than it was when its length was announced.
    #[error("file was truncated while it was sent")]
    Truncated,
    /// The name of the thread pool, made of variables, names none. That is logged already.
    #[error("no such thread pool")]
    NoPool,
    /// The file operation failed.
    #[error(transparent)]
    File(#[from] FileError),
}
