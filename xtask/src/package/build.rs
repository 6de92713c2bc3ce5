//! The facts that all packages share, and the errors.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{StepError, run};
use crate::release::ReleaseError;

/// The reason why there are no packages.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// There is no binary.
    #[error(transparent)]
    Build(#[from] ReleaseError),
    /// A command failed, or a file cannot be made or read.
    #[error(transparent)]
    Step(#[from] StepError),
    /// A library in the program has no text of its licence.
    #[error("{0} has no text of its licence: packaging/licences is the place for it")]
    NoLicence(String),
    /// cargo-cyclonedx has written something else than JSON.
    #[error("the list of cargo-cyclonedx: {0}")]
    NoList(serde_json::Error),
    /// A copy of a program that says another version than the program.
    #[error("{}: it is not the program that it was made of", .0.display())]
    Different(PathBuf),
    /// A binary that is no freerun.
    #[error("{} prints no version of freerun", .0.display())]
    NotFreerun(PathBuf),
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
    /// The begin of the names of files that no distribution has a rule for.
    pub(super) fn name(&self) -> String {
        format!("freerun-{}-linux-{}", self.version, std::env::consts::ARCH)
    }

    /// The folder with the files as they are installed.
    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }
}

/// Sets the times of everything below a folder to the commit's, so that archives are the same each time.
pub(super) fn set_times(build: &Build, folder: &Path) -> Result<(), StepError> {
    let mut command = Command::new("find");
    command.arg(folder).args(["-exec", "touch", "--no-dereference", "--date"]).arg(format!("@{}", build.epoch));
    run(command.args(["{}", "+"]))
}
