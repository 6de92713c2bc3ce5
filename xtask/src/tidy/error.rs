//! Errors of the checks themselves.

/// The reason for which the checks could not run at all (as against: ran and found something).
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file or folder of the repository cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// What was being read.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of the repository cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// What was being written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}
