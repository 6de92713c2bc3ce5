//! Errors of the checks themselves.

/// The reason for which the checks could not run at all (as against: ran and found something).
#[derive(Debug, thiserror::Error)]
pub(crate) enum TidyError {
    /// A file or folder of the repository cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file that was being read.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file of the repository cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file that was being written.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
}
