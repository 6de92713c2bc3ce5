//! Limits for files beyond the rights of the user (landlock(7)).

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};

/// The newest set of rights that this program knows. A kernel with fewer enforces those that it has.
const NEWEST: ABI = ABI::V5;

/// The oldest set that is used. Before it, a file could not be renamed from one folder into another.
const OLDEST: ABI = ABI::V2;

/// Restricts this thread, and all threads that it starts. They execute no files, make no devices, and change nothing in
/// folders other than these. With `None` they may change everything. A folder that does not exist stands for the nearest
/// existing folder above it. Descriptors that are open keep their rights.
///
/// The rules hold for the folders themselves, not for their names: another folder, put in their place later, is not
/// writable.
///
/// # Errors
/// `Unsupported` if the kernel has no Landlock, or too old a Landlock; otherwise the error of a step.
pub fn restrict_files(writable: Option<&[PathBuf]>) -> io::Result<()> {
    let writes = AccessFs::from_write(NEWEST);
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let mut handled = devices | AccessFs::Execute;
    if writable.is_some() {
        handled |= writes;
    }
    let restricted = restrict(handled, writable.unwrap_or_default(), writes & !devices);
    match restricted.map_err(io::Error::other)? {
        RulesetStatus::NotEnforced => Err(io::ErrorKind::Unsupported.into()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

/// Whether the kernel can restrict files as [`restrict_files`] does.
pub fn are_files_restrictable() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::from_all(OLDEST)).and_then(Ruleset::create).is_ok()
}

fn restrict(
    handled: BitFlags<AccessFs>,
    writable: &[PathBuf],
    allowed: BitFlags<AccessFs>,
) -> Result<RulesetStatus, RulesetError> {
    if !are_files_restrictable() {
        return Ok(RulesetStatus::NotEnforced);
    }
    let mut ruleset = Ruleset::default().handle_access(handled)?.create()?;
    for folder in writable.iter().filter_map(|folder| open_nearest(folder)) {
        ruleset = ruleset.add_rule(PathBeneath::new(folder, allowed))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// The folder, or the nearest one above it that exists.
fn open_nearest(folder: &Path) -> Option<PathFd> {
    folder.ancestors().filter(|folder| folder.is_dir()).find_map(|folder| PathFd::new(folder).ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use freerun_testkit::Site;

    use super::*;

    #[test]
    fn only_the_named_folders_are_written_to_and_nothing_is_executed() {
        if !are_files_restrictable() {
            return;
        }
        let dir = Site::new();
        let (open, closed) = (dir.at("open"), dir.at("closed"));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&closed).unwrap();
        fs::write(closed.join("file"), "text").unwrap();
        let thread = std::thread::spawn(move || {
            restrict_files(Some(&[open.clone(), closed.join("absent").join("x")])).unwrap();
            fs::write(closed.join("new"), "a folder that does not exist stands for the one above it").unwrap();
        });
        thread.join().unwrap();
        let (open, closed) = (dir.at("open"), dir.at("closed"));
        let thread = std::thread::spawn(move || {
            restrict_files(Some(std::slice::from_ref(&open))).unwrap();
            fs::create_dir(open.join("level")).unwrap();
            fs::write(open.join("file"), "text").unwrap();
            fs::rename(open.join("file"), open.join("level/file")).unwrap();
            assert_eq!(fs::read(closed.join("file")).unwrap(), b"text");
            let refused = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::PermissionDenied;
            assert!(refused(fs::write(closed.join("file"), "other")));
            assert!(refused(fs::write(closed.join("other"), "other")));
            assert!(refused(fs::remove_file(closed.join("file"))));
            assert!(Command::new("/bin/true").status().is_err());
        });
        thread.join().unwrap();
    }

    #[test]
    fn without_folders_everything_may_be_written_to_and_nothing_executed() {
        if !are_files_restrictable() {
            return;
        }
        let dir = Site::new();
        let file = dir.at("file");
        let thread = std::thread::spawn(move || {
            restrict_files(None).unwrap();
            fs::write(file, "text").unwrap();
            assert!(Command::new("/bin/true").status().is_err());
        });
        thread.join().unwrap();
    }
}
