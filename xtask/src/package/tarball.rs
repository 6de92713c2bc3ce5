//! Archives for systems without a package: the tree, with a program that needs no shared libraries, to be unpacked at the root.
//! The debug information of the program in the packages has an archive of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{Build, PackageError};
use super::tree::strip;
use crate::command::{StepError, run};

/// Makes the archives and answers where they are.
pub(super) fn tarballs(build: &Build) -> Result<Vec<PathBuf>, PackageError> {
    let name = build.name();
    let mut archives = Vec::new();
    if let Some(program) = &build.static_binary {
        let tree = build.folder.join("static-tree");
        run(Command::new("cp").args(["--archive", "--no-target-directory"]).arg(build.tree()).arg(&tree))?;
        strip(program, &tree.join("usr/sbin/freerun"), &[])?;
        let archive = build.folder.join(format!("{name}.tar.gz"));
        pack(&build.epoch, &tree, Path::new("."), &archive)?;
        archives.push(archive);
    }
    let debug = build.folder.join(format!("{name}-debug.tar.gz"));
    pack(&build.epoch, &build.folder, &PathBuf::from(format!("freerun-{}.debug", build.version)), &debug)?;
    archives.push(debug);
    Ok(archives)
}

/// Archives a file or folder that is in another one, with the same owner and the same time for all.
fn pack(epoch: &str, folder: &Path, name: &Path, archive: &Path) -> Result<(), StepError> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{epoch}")).arg("--use-compress-program=gzip --best --no-name");
    run(tar.arg("--file").arg(archive).arg("--directory").arg(folder).arg(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use freerun_testkit::TempDir;

    use super::*;

    #[test]
    fn equal_files_make_equal_archives_whatever_their_times_and_order() {
        let dir = TempDir::new("archives");
        let mut archives = Vec::new();
        for (name, files, time) in [("one", ["a", "b"], "@1000000000"), ("other", ["b", "a"], "@1500000000")] {
            let tree = dir.path().join(name);
            fs::create_dir(&tree).expect("a folder");
            for file in files {
                fs::write(tree.join(file), file).expect("a file");
                run(Command::new("touch").args(["--date", time]).arg(tree.join(file))).expect("touch");
            }
            let archive = dir.path().join(name).with_extension("tar.gz");
            pack("1700000000", &tree, Path::new("."), &archive).expect("an archive");
            archives.push(fs::read(&archive).expect("an archive"));
        }
        assert!(!archives[0].is_empty());
        assert!(archives[0] == archives[1], "the archives differ");
    }
}
