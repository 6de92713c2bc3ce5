//! `cargo xtask package`: what a stranger installs, in `target/package`.
//!
//! It is made of one tree of files (`tree`), which holds the binary without debug information, the manual pages, the completions
//! and what `packaging/` has. Two runs on the same commit, in different folders, make the same bytes: times are the commit's
//! (`SOURCE_DATE_EPOCH`), and paths of the machine are not in the binary.

mod build;
mod debian;
mod inventory;
mod man_page;
mod rpm;
mod sbom;
mod scripts;
mod tarball;
mod tools;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use build::Build;

use crate::command::{StepError, ask, at, run};
use crate::release;

pub use build::PackageError;

/// The choices of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PackageOptions {
    /// A binary that is there, instead of a release that is built first.
    pub binary: Option<PathBuf>,
    /// The same for the binary without shared libraries, which the archive has.
    pub static_binary: Option<PathBuf>,
    /// The profile of an earlier release, for a release that is built first.
    pub profile: Option<PathBuf>,
    /// Whether container images are made, too.
    pub image: bool,
}

impl PackageOptions {
    /// Reads the options; `None` if one is unknown or lacks its value.
    pub fn read(options: &[&str]) -> Option<PackageOptions> {
        let mut read = PackageOptions::default();
        let mut words = options.iter();
        while let Some(word) = words.next() {
            match *word {
                "--binary" => read.binary = Some(words.next()?.into()),
                "--static" => read.static_binary = Some(words.next()?.into()),
                "--profile" => read.profile = Some(words.next()?.into()),
                "--image" => read.image = true,
                _ => return None,
            }
        }
        // A binary that is there is not built with a profile.
        let is_possible = read.binary.is_none() || read.profile.is_none();
        is_possible.then_some(read)
    }
}

/// Makes the packages. Prints the files with their sizes.
pub fn package(repository: &Path, options: &PackageOptions) -> Result<(), PackageError> {
    let git = |arguments: &[&str]| ask(Command::new("git").arg("-C").arg(repository).args(arguments));
    let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => epoch,
        Err(_) => git(&["log", "-1", "--format=%ct"])?.trim().to_owned(),
    };
    let (binary, static_binary) = match &options.binary {
        Some(binary) => (at(binary, fs::canonicalize(binary))?, options.static_binary.clone()),
        None => {
            let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
            let is_changed = !git(&["status", "--porcelain"])?.trim().is_empty();
            let commit = format!("{}{}", commit.trim(), if is_changed { "-modified" } else { "" });
            let variables = [("FREERUN_COMMIT", commit.as_str()), ("SOURCE_DATE_EPOCH", &epoch)];
            let binary = release::release(repository, &variables, options.profile.as_deref())?;
            (binary, Some(release::release_static(repository, &variables)?))
        }
    };
    let version = ask(Command::new(&binary).arg("--version"))?;
    let version = version.lines().next().and_then(|line| line.strip_prefix("freerun version: freerun/"));
    let version = version.ok_or_else(|| PackageError::NotFreerun(binary.clone()))?.to_owned();
    let folder = repository.join("target/package");
    if folder.exists() {
        at(&folder, fs::remove_dir_all(&folder))?;
    }
    let build = Build { repository: repository.to_path_buf(), folder, binary, static_binary, version, epoch };
    tree::lay_out(&build)?;
    inventory::write(&build)?;
    tree::compress(&build)?;
    let mut files = debian::packages(&build)?;
    files.push(rpm::package(&build)?);
    files.push(sbom::write(&build)?);
    files.extend(tarball::tarballs(&build)?);
    if options.binary.is_none() {
        files.extend(profile(&build)?);
    }
    sums(&build, &files)?;
    if options.image {
        images(&build)?;
    }
    Ok(())
}

/// Makes the container images, for root and for another user.
fn images(build: &Build) -> Result<(), StepError> {
    for kind in ["privileged", "unprivileged"] {
        let name = if kind == "privileged" { "image" } else { "image-unprivileged" };
        let mut script = Command::new(build.repository.join("packaging/image/build"));
        script.arg(build.tree()).arg(build.folder.join(name)).arg(kind);
        run(script.env("SOURCE_DATE_EPOCH", &build.epoch))?;
    }
    Ok(())
}

/// Copies the profile that the binary was built with, for those who want to build the same.
fn profile(build: &Build) -> Result<Vec<PathBuf>, StepError> {
    let mut files = Vec::new();
    for (file, ending) in release::profile_files(&build.repository) {
        let copy = build.folder.join(format!("{}.{ending}", build.name()));
        at(&file, fs::copy(&file, &copy))?;
        files.push(copy);
    }
    Ok(files)
}

/// Writes the checksums, and prints the size of each file.
fn sums(build: &Build, files: &[PathBuf]) -> Result<(), StepError> {
    let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    let sums = ask(Command::new("sha256sum").current_dir(&build.folder).args(&names))?;
    let path = build.folder.join("SHA256SUMS");
    at(&path, fs::write(&path, sums))?;
    for file in files.iter().chain([&path, &build.tree().join("usr/sbin/freerun")]) {
        let size = at(file, fs::metadata(file))?.len();
        println!("{size:>12} {}", file.strip_prefix(&build.repository).unwrap_or(file).display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_there_has_no_profile() {
        let read = PackageOptions::read(&["--profile", "a.profdata", "--image"]).expect("options");
        assert_eq!((read.profile, read.image), (Some("a.profdata".into()), true));
        assert!(PackageOptions::read(&["--binary", "a", "--static", "b"]).is_some());
        assert_eq!(PackageOptions::read(&["--binary", "a", "--profile", "a.profdata"]), None);
        assert_eq!(PackageOptions::read(&["--profile"]), None);
    }
}
