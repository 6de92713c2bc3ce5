//! The tree of files as they are installed, and the debug information beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::{Build, PackageError, set_times};
use super::man_page::{conf_page, reference_pages};
use crate::command::{StepError, ask, at, run};
use crate::release;

/// The files of the repository that are installed as they are, with their places in the tree.
const FILES: [(&str, &str); 13] = [
    ("packaging/etc/freerun.conf", "etc/freerun/freerun.conf"),
    ("crates/freerun/assets/mime.types", "etc/freerun/mime.types"),
    ("packaging/etc/default", "etc/default/freerun"),
    ("packaging/logrotate/freerun.package", "etc/logrotate.d/freerun"),
    ("packaging/ufw/freerun", "etc/ufw/applications.d/freerun"),
    ("packaging/apparmor/usr.sbin.freerun", "etc/apparmor.d/usr.sbin.freerun"),
    ("packaging/html/index.html", "usr/share/freerun/html/index.html"),
    ("packaging/sysusers/freerun.conf", "usr/lib/sysusers.d/freerun.conf"),
    ("packaging/systemd/freerun.service", "usr/lib/systemd/system/freerun.service"),
    ("packaging/systemd/freerun.socket", "usr/lib/systemd/system/freerun.socket"),
    ("packaging/systemd/notify-reload.conf", "usr/share/doc/freerun/examples/notify-reload.conf"),
    ("docs/guide/running.md", "usr/share/doc/freerun/running.md"),
    ("CHANGELOG.md", "usr/share/doc/freerun/changelog"),
];

/// The completions of shells, with the folders where shells of Debian look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/freerun"),
    ("zsh", "usr/share/zsh/vendor-completions/_freerun"),
    ("fish", "usr/share/fish/vendor_completions.d/freerun.fish"),
];

/// Files that are installed compressed.
const COMPRESSED: [&str; 5] = [
    "usr/share/man/man8/freerun.8",
    "usr/share/man/man5/freerun.conf.5",
    "usr/share/doc/freerun/changelog",
    "usr/share/doc/freerun/licences",
    "usr/share/doc/freerun/running.md",
];

/// Lays out all files, uncompressed.
pub(super) fn lay_out(build: &Build) -> Result<(), PackageError> {
    let tree = build.tree();
    for (from, to) in FILES {
        let from = build.repository.join(from);
        write(&tree, to, &at(&from, fs::read(&from))?)?;
    }
    split_binary(build)?;
    let own =
        |arguments: &[&str]| ask(Command::new(&build.binary).args(arguments).env("SOURCE_DATE_EPOCH", &build.epoch));
    for (shell, to) in COMPLETIONS {
        write(&tree, to, own(&["completions", shell])?.as_bytes())?;
    }
    let page = own(&["manual"])?;
    write(&tree, "usr/share/man/man8/freerun.8", page.as_bytes())?;
    let header = header_of(&page).ok_or_else(|| PackageError::NotFreerun(build.binary.clone()))?;
    let page = conf_page(header, &reference_pages(&build.repository)?);
    Ok(write(&tree, "usr/share/man/man5/freerun.conf.5", page.as_bytes())?)
}

/// The date and the version in the header of a manual page: `.TH NAME 8 DATE "VERSION" …`.
fn header_of(page: &str) -> Option<(&str, &str)> {
    let line = page.lines().find_map(|line| line.strip_prefix(".TH FREERUN 8 "))?;
    let (date, rest) = line.split_once(" \"")?;
    Some((date, rest.split_once('"')?.0))
}

/// The binary without debug information, and a file with that information, which debuggers find by the build's number.
fn split_binary(build: &Build) -> Result<(), PackageError> {
    let debug = build.folder.join(format!("freerun-{}.debug", build.version));
    write(&build.tree(), "usr/sbin/freerun", b"")?;
    let stripped = build.tree().join("usr/sbin/freerun");
    run(Command::new(objcopy(&build.binary)?)
        .args(["--only-keep-debug", "--compress-debug-sections"])
        .arg(&build.binary)
        .arg(&debug))?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    strip(&build.binary, &stripped, &[&link])
}

/// The name of a section that BOLT leaves in a program which it has laid out.
const LAID_OUT: &[u8] = b".bolt.org.text";

/// The command that copies parts of this program. GNU's breaks a program that BOLT has laid out: it moves a segment, and the
/// copy ends at its first step. LLVM's is there wherever BOLT is.
fn objcopy(program: &Path) -> Result<PathBuf, PackageError> {
    let is_laid_out = contains(&at(program, fs::read(program))?, LAID_OUT);
    if is_laid_out { Ok(release::objcopy()?) } else { Ok("objcopy".into()) }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Copies a program without symbols and debug information, and sees that the copy is the same program.
pub(super) fn strip(program: &Path, to: &Path, options: &[&str]) -> Result<(), PackageError> {
    run(Command::new(objcopy(program)?).arg("--strip-all").args(options).arg(program).arg(to))?;
    run(Command::new("chmod").args(["755"]).arg(to))?;
    let version = |program: &Path| ask(Command::new(program).arg("--version"));
    // A program that does not start must not become a package.
    if version(program)? == version(to)? { Ok(()) } else { Err(PackageError::Different(to.to_path_buf())) }
}

/// Writes a file of the tree, with the folders above it.
pub(super) fn write(tree: &Path, name: &str, bytes: &[u8]) -> Result<(), StepError> {
    let path = tree.join(name);
    if let Some(folder) = path.parent() {
        at(folder, fs::create_dir_all(folder))?;
    }
    at(&path, fs::write(&path, bytes))
}

/// The names of all files of a tree, in order.
pub(super) fn files(tree: &Path) -> Result<Vec<String>, StepError> {
    let mut names = Vec::new();
    let mut folders = vec![tree.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in at(&folder, fs::read_dir(&folder))? {
            let path = at(&folder, entry)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(name) = path.strip_prefix(tree) {
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Compresses what is installed compressed, and sets all times.
pub(super) fn compress(build: &Build) -> Result<(), StepError> {
    let tree = build.tree();
    run(Command::new("gzip").args(["--best", "--no-name"]).args(COMPRESSED.map(|name| tree.join(name))))?;
    set_times(build, &tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_page_has_a_date_and_a_version() {
        let page = ".ie \\n(.g\n.TH FREERUN 8 2026-11-29 \"freerun 0.2.0\" freerun\n.SH NAME\n";
        assert_eq!(header_of(page), Some(("2026-11-29", "freerun 0.2.0")));
        assert_eq!(header_of(".TH OTHER 8"), None);
    }

    #[test]
    fn all_files_of_the_tree_are_there() {
        for (from, _) in FILES {
            assert!(crate::repository().join(from).is_file(), "{from}");
        }
    }

    #[test]
    fn packages_of_debian_know_all_files_of_the_configuration() {
        let manifest = fs::read_to_string(crate::repository().join("crates/freerun/Cargo.toml")).expect("the manifest");
        let manifest: toml::Table = toml::from_str(&manifest).expect("the manifest");
        let known = manifest["package"]["metadata"]["deb"]["conf-files"].as_array().expect("conf-files");
        let mut known: Vec<_> = known.iter().filter_map(toml::Value::as_str).collect();
        known.sort_unstable();
        let mut here: Vec<_> =
            FILES.iter().map(|(_, to)| format!("/{to}")).filter(|to| to.starts_with("/etc/")).collect();
        here.sort_unstable();
        assert_eq!(known, here);
    }

    #[test]
    fn the_files_of_a_tree_are_named_in_order() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/package");
        let names = files(&tree).expect("this folder");
        assert!(names.is_sorted() && names.contains(&"tree.rs".to_owned()), "{names:?}");
    }
}
