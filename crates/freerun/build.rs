//! Facts about the build for `freerun -V`: the commit of the source and the versions of the linked libraries.
//!
//! The versions come from `Cargo.lock`. The commit comes from the variable `FREERUN_COMMIT`, which `cargo xtask package` sets, or
//! from Git. A debug build asks Git nothing: it would be compiled again after each commit.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The linked libraries that somebody looks for after a security report: their packages in `Cargo.lock`.
const LIBRARIES: [&str; 9] = [
    "rustls",
    "rustls-webpki",
    "aws-lc-sys",
    "quinn-proto",
    "zlib-rs",
    "libdeflate-sys",
    "brotlic-sys",
    "zstd-sys",
    "libmimalloc-sys",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = root.join("Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = std::fs::read_to_string(&lock).unwrap_or_default();
    let libraries: Vec<String> = LIBRARIES
        .iter()
        .filter_map(|library| {
            let (_, rest) = text.split_once(&format!("\nname = \"{library}\"\nversion = \""))?;
            Some(format!("{library} {}", rest.split_once('"')?.0))
        })
        .collect();
    assert_eq!(libraries.len(), LIBRARIES.len(), "Cargo.lock has no longer all of {LIBRARIES:?}");
    println!("cargo::rustc-env=FREERUN_LIBRARIES={}", libraries.join(", "));

    println!("cargo::rerun-if-env-changed=FREERUN_COMMIT");
    let named = std::env::var("FREERUN_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if let Some(commit) = named.or_else(|| if is_release { commit_of(&root) } else { None }) {
        println!("cargo::rustc-env=FREERUN_COMMIT={commit}");
    }
}

/// The commit that is checked out, if the source is in a repository of Git. The build runs again when it changes.
fn commit_of(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // The log of HEAD grows with each commit and each change of the branch.
    let log = PathBuf::from(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    let log = if log.is_absolute() { log } else { root.join(log) };
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    Some(commit)
}
