//! The facts that all packages share, and the errors.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, run};
use crate::release::ReleaseError;

/// The reason why there are no packages.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There is no binary.
    #[error(transparent)]
    Build(#[from] ReleaseError),
    /// A command did not start or failed.
    #[error(transparent)]
    Failed(#[from] command::CommandError),
    /// A file or folder cannot be made or read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
    /// A binary that is no freerun.
    #[error("{} prints no version of freerun", .0.display())]
    NotFreerun(PathBuf),
}

/// The result of an operation at `path`.
pub(super) fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, PackageError> {
    result.map_err(|reason| PackageError::File { path: path.to_path_buf(), reason })
}

/// The facts that all packages have.
pub(super) struct Build {
    /// The root of the repository.
    pub(super) repository: PathBuf,
    /// `target/package`.
    pub(super) folder: PathBuf,
    /// The binary that was built, with debug information.
    pub(super) binary: PathBuf,
    /// The same without shared libraries, if there is one.
    pub(super) static_binary: Option<PathBuf>,
    /// The version that the binary prints.
    pub(super) version: String,
    /// Seconds since 1970 of the commit.
    pub(super) epoch: String,
}

impl Build {
    /// The folder with the files as they are installed.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }
}

/// Sets the times of everything below a folder to the commit's, so that archives are the same each time.
pub(super) fn set_times(build: &Build, folder: &Path) -> Result<(), PackageError> {
    let mut command = Command::new("find");
    command.arg(folder).args(["-exec", "touch", "--no-dereference", "--date"]).arg(format!("@{}", build.epoch));
    Ok(run(command.args(["{}", "+"]))?)
}
