//! `cargo xtask release`: freerun built with what a load has shown (profile-guided optimisation).
//!
//! The code of a request is long and runs between system calls. Its place, and the code next to it, are a quarter of
//! its user time (`docs/design/0016-profile-guided-builds.md`). So the binary is built twice: first a binary that
//! counts where it goes, then, after the benchmarks have run on it for a few seconds each, the final binary. Where BOLT
//! is installed, the result is counted and laid out once more ([`bolt`]). The counts are files, the *profile*: a later build
//! takes them instead of a load, and two builds with one profile are equal.

mod bolt;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bolt::Bolt;

use crate::command::{StepError, ask, at, cargo, run};

/// The benchmarks that the counting binary runs: files, connections that come and go, logs, packing, limits, proxied and
/// cached responses, tunnels, HTTP/2 and HTTP/3. With `floor` come TLS and its handshakes, sessions of stream, datagrams. A
/// protocol that is not among them has its code placed with what never runs.
const TRAINING: [&str; 10] =
    ["warm", "connections", "log", "compress", "proxy", "cache-hits", "tunnels", "http2", "http3", "floor"];

/// Seconds of each of a benchmark's measurements in the training.
const TRAINING_SECONDS: &str = "1";

/// The ending of the file with the counts.
const COUNTS: &str = "profdata";

/// The ending of the file with the counts of BOLT.
const BOLT_COUNTS: &str = "fdata";

/// The folder of the final build.
const GUIDED: &str = "guided";

/// The number of steps that the training has to have counted. Its requests, some hundred thousand of several hundred
/// steps each, come to a hundred times as many. The masters, which read their configuration, come to two millions.
const LEAST_COUNTS: u64 = 20_000_000;

/// The variable of the final build, for [`freerun -V`](../../crates/freerun/src/version.rs).
const TOLD: (&str, &str) = ("FREERUN_PROFILE_GUIDED", "1");

/// The reason why no binary was built.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The tool that merges profiles is missing, or is too old to read what this compiler's programs write.
    #[error(
        "no llvm-profdata of LLVM {llvm} or newer is there: `rustup component add llvm-tools`, Debian's llvm-{llvm}, or name one in LLVM_PROFDATA"
    )]
    NoTool {
        /// The version of the compiler's LLVM, its first number.
        llvm: u32,
    },
    /// The tool that copies parts of a program which BOLT has laid out is missing, or is too old.
    #[error(
        "no llvm-objcopy of LLVM {llvm} or newer is there, which a program laid out by BOLT needs: Debian's llvm-{llvm}"
    )]
    NoObjcopy {
        /// The version of the compiler's LLVM, its first number.
        llvm: u32,
    },
    /// The workers have left no counts: what the masters do when they start is not what a build is to be guided by.
    #[error("the load has counted {counts} steps only: do the workers reach {}?", folder.display())]
    NotCounted {
        /// The number of counted steps.
        counts: u64,
        /// The folder that it is written to.
        folder: PathBuf,
    },
    /// A profile has counts for BOLT, which is not there.
    #[error("{} needs llvm-bolt of LLVM {llvm} or newer, which is not there", counts.display())]
    NoBolt {
        /// The file with the counts.
        counts: PathBuf,
        /// The version of the compiler's LLVM.
        llvm: String,
    },
    /// A command failed, or a file cannot be made or read.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// The compiler's own description.
struct Compiler {
    /// The machine that it runs on and builds for.
    host: String,
    llvm: String,
    /// The tools that come with it.
    tools: PathBuf,
}

/// Builds the binary and answers where it is. Everything is in `target/pgo` (the folder `pgo` in `CARGO_TARGET_DIR`). The final
/// build has these variables. Without a profile that was made before, a load makes one.
pub fn release(repository: &Path, variables: &[(&str, &str)], profile: Option<&Path>) -> Result<PathBuf, ReleaseError> {
    let folder = folder(repository);
    let compiler = Compiler::ask()?;
    let bolt = Bolt::find(&compiler);
    let bolt = match profile {
        Some(profile) => take_profile(profile, &folder, bolt, &compiler)?,
        None => {
            make_profile(repository, &folder, &compiler)?;
            bolt
        }
    };

    say("the binary to use");
    // Cargo does not know that a build with other counts is of no use.
    let guided = folder.join(GUIDED);
    empty(&guided)?;
    let variables: Vec<_> = variables.iter().copied().chain([TOLD]).collect();
    let linked: &[&str] = if bolt.is_some() { &[bolt::LINKED] } else { &[] };
    let built = compiler.build(repository, &guided, &use_counts(&folder), &variables, linked)?;
    let binary = folder.join("freerun");
    let finished = match bolt {
        Some(bolt) => {
            let counted = bolt_counts_file(&folder);
            if profile.is_none() {
                say("the same load, on the jumps of that binary");
                bolt.count(&built, &counted, &folder.join("placing"), |counting| {
                    load(repository, &folder.join("scratch"), counting)
                })?;
            }
            say("its code laid out anew");
            let placed = folder.join("placed");
            bolt.place(&built, &placed, &counted)?;
            placed
        }
        None => {
            let why = match profile {
                Some(_) => "the profile has no counts for llvm-bolt".to_owned(),
                None => format!("no llvm-bolt of LLVM {} or newer is there", compiler.llvm),
            };
            say(&format!("{why}: its code stays as the linker laid it"));
            built
        }
    };
    // Not copied: a running binary could not be written to.
    at(&binary, fs::rename(&finished, &binary))?;
    say(&format!("its profile is {}", counts_file(&folder).display()));
    Ok(binary)
}

/// Has a load make the profile in `folder`, without the part of BOLT.
fn make_profile(repository: &Path, folder: &Path, compiler: &Compiler) -> Result<(), ReleaseError> {
    let profdata = compiler.profdata()?;
    let (raw, counted) = (folder.join("raw"), counts_file(folder));
    // Counts of another build would be merged with the counts of this one.
    empty(&raw)?;
    remove(&bolt_counts_file(folder))?;

    say("a binary that counts");
    let count = format!("-Cprofile-generate={}", raw.display());
    let counting = compiler.build(repository, &folder.join("counting"), &count, &[], &[])?;
    // Each process adds its counts to a common file when it ends. The first one makes it, and the workers of another user
    // have to be able to write to it.
    ask(Command::new(&counting).arg("-v"))?;
    for file in at(&raw, fs::read_dir(&raw))? {
        let file = at(&raw, file)?.path();
        at(&file, fs::set_permissions(&file, fs::Permissions::from_mode(0o666)))?;
    }

    say(&format!("load on it: {}", TRAINING.join(", ")));
    load(repository, &folder.join("scratch"), &counting)?;

    let mut merge = Command::new(&profdata);
    merge.arg("merge").arg("-o").arg(&counted).arg(&raw);
    run(&mut merge)?;
    let shown = ask(Command::new(&profdata).args(["show", "--topn=1"]).arg(&counted))?;
    let counts = total(&shown).unwrap_or(0);
    if counts < LEAST_COUNTS {
        return Err(ReleaseError::NotCounted { counts, folder: raw });
    }
    Ok(())
}

/// Puts a profile that was made before into `folder`. BOLT is used if the profile has counts for it, since a build without it
/// would be another one.
fn take_profile(
    profile: &Path,
    folder: &Path,
    bolt: Option<Bolt>,
    compiler: &Compiler,
) -> Result<Option<Bolt>, ReleaseError> {
    at(folder, fs::create_dir_all(folder))?;
    let counts = profile.with_extension(BOLT_COUNTS);
    // Read before it is written: the profile may be in `folder` already.
    let taken = at(profile, fs::read(profile))?;
    at(folder, fs::write(counts_file(folder), taken))?;
    if !counts.is_file() {
        remove(&bolt_counts_file(folder))?;
        return Ok(None);
    }
    let taken = at(&counts, fs::read(&counts))?;
    at(folder, fs::write(bolt_counts_file(folder), taken))?;
    match bolt {
        Some(bolt) => Ok(Some(bolt)),
        None => Err(ReleaseError::NoBolt { counts, llvm: compiler.llvm.clone() }),
    }
}

/// The files of the profile that the last [`release`] was guided by, each with its ending.
pub fn profile_files(repository: &Path) -> Vec<(PathBuf, &'static str)> {
    let folder = folder(repository);
    let files = [(counts_file(&folder), COUNTS), (bolt_counts_file(&folder), BOLT_COUNTS)];
    files.into_iter().filter(|(file, _)| file.is_file()).collect()
}

/// Builds the binary without shared libraries, for systems with another C library or none, with the counts of the [`release`]
/// before it, and answers where it is.
pub fn release_static(repository: &Path, variables: &[(&str, &str)]) -> Result<PathBuf, ReleaseError> {
    let folder = folder(repository);
    let compiler = Compiler::ask()?;
    say("the same without shared libraries");
    let variables: Vec<_> = variables.iter().copied().chain([TOLD]).collect();
    let (guided, last) = (folder.join(GUIDED), ["-Ctarget-feature=+crt-static"]);
    let finished = compiler.build(repository, &guided, &use_counts(&folder), &variables, &last)?;
    let binary = folder.join("freerun-static");
    at(&binary, fs::rename(&finished, &binary))?;
    Ok(binary)
}

/// The folder of everything that is built here: `target/pgo`.
fn folder(repository: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    std::path::absolute(&target).unwrap_or(target).join("pgo")
}

/// The file with the counts.
fn counts_file(folder: &Path) -> PathBuf {
    folder.join("freerun").with_extension(COUNTS)
}

/// The file with the counts of BOLT, beside the other one.
fn bolt_counts_file(folder: &Path) -> PathBuf {
    folder.join("freerun").with_extension(BOLT_COUNTS)
}

/// The options that have the compiler use the counts. A function that exists in several units under one name has the counts of
/// one of them: no reason for a warning.
fn use_counts(folder: &Path) -> String {
    format!("-Cprofile-use={} -Cllvm-args=-no-pgo-warn-mismatch", counts_file(folder).display())
}

/// Runs the benchmarks of the training on a binary that counts.
fn load(repository: &Path, scratch: &Path, counting: &Path) -> Result<(), ReleaseError> {
    // With `worker_sandbox on` a worker could not write what it has counted.
    let starts = counting.with_extension("sh");
    let script = format!("#!/bin/sh\nexec '{}' -g 'worker_sandbox off;' \"$@\"\n", counting.display());
    at(&starts, fs::write(&starts, script))?;
    at(&starts, fs::set_permissions(&starts, fs::Permissions::from_mode(0o755)))?;
    let mut load = cargo(repository);
    load.args(["run", "--release", "--quiet", "--package", "freerun-bench", "--"]).args(TRAINING);
    load.args(["--only", "freerun", "--runs", "1", "--seconds", TRAINING_SECONDS]);
    // Standard output is for the path alone.
    load.stdout(Stdio::null());
    load.arg("--scratch").arg(scratch).arg("--freerun").arg(&starts);
    Ok(run(&mut load)?)
}

/// LLVM's tool that copies parts of a program.
///
/// # Errors
/// There is none that is as new as the compiler's LLVM.
pub fn objcopy() -> Result<PathBuf, ReleaseError> {
    let compiler = Compiler::ask()?;
    compiler
        .tool("llvm-objcopy", &["--version"])
        .ok_or_else(|| ReleaseError::NoObjcopy { llvm: major(&compiler.llvm).unwrap_or(0) })
}

impl Compiler {
    fn ask() -> Result<Compiler, ReleaseError> {
        let version = ask(Command::new("rustc").arg("-vV"))?;
        let field =
            |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
        let (host, llvm) = (field("host:"), field("LLVM version:"));
        let sysroot = ask(Command::new("rustc").args(["--print", "sysroot"]))?;
        let tools = Path::new(sysroot.trim()).join("lib/rustlib").join(&host).join("bin");
        Ok(Compiler { host, llvm, tools })
    }

    /// The tool that merges counts: named by the user, the compiler's own, or an installed one. It is looked for before
    /// anything is built, and asked for its version: an older tool does not read these counts.
    fn profdata(&self) -> Result<PathBuf, ReleaseError> {
        if let Some(named) = std::env::var_os("LLVM_PROFDATA") {
            return Ok(named.into());
        }
        self.tool("llvm-profdata", &["merge", "--version"])
            .ok_or(ReleaseError::NoTool { llvm: major(&self.llvm).unwrap_or(0) })
    }

    /// A tool of LLVM that says with `version` that it is as new as the compiler's.
    fn tool(&self, name: &str, version: &[&str]) -> Option<PathBuf> {
        let least = major(&self.llvm).unwrap_or(0);
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::iter::once(self.tools.clone())
            .chain(std::env::split_paths(&path))
            .flat_map(|folder| [name, &format!("{name}-{least}")].map(|name| folder.join(name)))
            .filter(|tool| tool.is_file())
            .find(|tool| {
                let said = ask(Command::new(tool).args(version)).unwrap_or_default();
                version_said(&said).and_then(major).is_some_and(|version| version >= least)
            })
    }

    /// The folders of the machine whose names would be in the binary, with the names that stand for them. Of two that contain
    /// a file, the last one counts.
    fn folders(repository: &Path) -> [(PathBuf, &'static str); 3] {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
        [(home, "cargo"), (repository.to_path_buf(), "freerun"), (folder(repository), "freerun/target/pgo")]
    }

    /// Builds freerun with `flags` for the compiler, and `last` for its last step alone: builds that differ in `last` have the same
    /// libraries, which are compiled once. With `--target` they are not for build scripts.
    fn build(
        &self,
        repository: &Path,
        target: &Path,
        flags: &str,
        told: &[(&str, &str)],
        last: &[&str],
    ) -> Result<PathBuf, ReleaseError> {
        let mut build = self.cargo(repository, target, flags, told);
        run(build.args(["--bin", "freerun", "--"]).args(last))?;
        Ok(self.binary(target))
    }

    /// The binary of a build in this folder.
    fn binary(&self, target: &Path) -> PathBuf {
        target.join(&self.host).join("release/freerun")
    }

    /// The command of cargo for such a build.
    fn cargo(&self, repository: &Path, target: &Path, flags: &str, told: &[(&str, &str)]) -> Command {
        let mut build = cargo(repository);
        build.args(["rustc", "--locked", "--release", "--package", "freerun", "--target", &self.host]);
        // No path of this machine is in the binary: neither of Rust's code nor of that in C.
        let mut flags = flags.to_owned();
        let mut c_flags = String::new();
        for (folder, name) in Self::folders(repository) {
            flags += &format!(" --remap-path-prefix={}={name}", folder.display());
            c_flags += &format!(" -ffile-prefix-map={}={name}", folder.display());
        }
        build.env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", flags).env("CARGO_INCREMENTAL", "0");
        build.env("CFLAGS", c_flags.trim()).env("CXXFLAGS", c_flags.trim());
        // Its own PCRE2, also where the machine has one: packages are used on others.
        build.env("PCRE2_SYS_STATIC", "1");
        // A variable of the user leaves the debug information as it is in the manifest: packages have it.
        build.env_remove("CARGO_PROFILE_RELEASE_DEBUG");
        // One unit: what is counted decides across all crates.
        build.env("CARGO_PROFILE_RELEASE_LTO", "fat").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        build.envs(told.iter().copied());
        build
    }
}

/// The version in what a tool of LLVM says of itself.
fn version_said(text: &str) -> Option<&str> {
    text.split_once("LLVM version")?.1.split_whitespace().next()
}

/// The first number of a version.
fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The sum of all counts in what llvm-profdata shows.
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("Total count: "))?.trim().parse().ok()
}

/// Makes an empty folder.
fn empty(folder: &Path) -> Result<(), StepError> {
    if folder.exists() {
        at(folder, fs::remove_dir_all(folder))?;
    }
    at(folder, fs::create_dir_all(folder))
}

/// Removes a file, if it is there.
fn remove(file: &Path) -> Result<(), StepError> {
    if file.exists() { at(file, fs::remove_file(file)) } else { Ok(()) }
}

fn say(what: &str) {
    eprintln!("release: {what}");
}

#[cfg(test)]
mod tests {
    use freerun_testkit::TempDir;

    use super::*;

    fn compiler() -> Compiler {
        Compiler { host: "x86_64-unknown-linux-gnu".into(), llvm: "22.1.2".into(), tools: PathBuf::new() }
    }

    #[test]
    fn a_profile_is_taken_with_all_of_its_counts() {
        let dir = TempDir::new("profile");
        let (folder, profile) = (dir.path().join("pgo"), dir.path().join("given.profdata"));
        fs::write(&profile, "counts").expect("a profile");
        fs::create_dir(&folder).expect("a folder");
        // Counts of another build, which the profile does not have.
        fs::write(bolt_counts_file(&folder), "old").expect("counts");
        assert!(take_profile(&profile, &folder, None, &compiler()).expect("a profile").is_none());
        assert_eq!(fs::read_to_string(counts_file(&folder)).expect("counts"), "counts");
        assert!(!bolt_counts_file(&folder).exists());
        // The profile that is there already.
        take_profile(&counts_file(&folder), &folder, None, &compiler()).expect("the profile");
        assert_eq!(fs::read_to_string(counts_file(&folder)).expect("counts"), "counts");
        // Without BOLT its counts cannot be used.
        fs::write(profile.with_extension(BOLT_COUNTS), "jumps").expect("counts");
        let error = take_profile(&profile, &folder, None, &compiler()).err().expect("no BOLT");
        assert!(error.to_string().ends_with("needs llvm-bolt of LLVM 22.1.2 or newer, which is not there"), "{error}");
    }

    #[test]
    fn no_folder_of_the_machine_stays_in_the_names_of_files() {
        let repository = Path::new("/a/repository");
        let build = compiler().cargo(repository, Path::new("/a/repository/target/pgo/guided"), "-Cx", &[]);
        let flags = |name: &str| {
            let value = build.get_envs().find(|(variable, _)| *variable == name).and_then(|(_, value)| value);
            value.expect(name).to_string_lossy().into_owned()
        };
        assert!(flags("RUSTFLAGS").starts_with("-Cx "));
        let folders = Compiler::folders(repository);
        for (name, option) in [("RUSTFLAGS", "--remap-path-prefix"), ("CFLAGS", "-ffile-prefix-map")] {
            for (folder, stands) in &folders {
                let flag = format!("{option}={}={stands}", folder.display());
                assert!(flags(name).split(' ').any(|word| word == flag), "{name} without {flag}");
            }
        }
        // The folder of the build may be inside the repository: the last flag counts.
        assert!(folders[2].0.ends_with("pgo"));
    }

    #[test]
    fn the_version_of_a_tool_is_found_in_what_it_says() {
        let own = "LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0-stable\n  Optimized build.\n";
        assert_eq!(version_said(own).and_then(major), Some(22));
        let debian = "Debian LLVM version 14.0.6\n  \n  Optimized build.\n";
        assert_eq!(version_said(debian).and_then(major), Some(14));
        assert_eq!(version_said("llvm-profdata: Unknown command!"), None);
    }

    #[test]
    fn the_sum_of_counts_is_found_in_what_is_shown() {
        let shown = "Total functions: 14990\nMaximum function count: 131072\nTotal count: 1895245\nTop 1 functions\n";
        assert_eq!(total(shown), Some(1_895_245));
        assert_eq!(total("Total functions: 3\n"), None);
    }
}
