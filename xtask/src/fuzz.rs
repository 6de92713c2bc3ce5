//! `cargo xtask fuzz [SECONDS]`: libFuzzer on every target of `fuzz/`, one after the other.
//!
//! The targets are built with the counters of the branches taken that libFuzzer is guided by. The stable compiler can do
//! that, so neither a nightly one nor cargo-fuzz is needed, only a compiler for libFuzzer's C++. What the targets run is safe
//! Rust, for which a sanitizer would find nothing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fmt, fs, io};

use serde::Deserialize;

/// Seconds after which one input is a hang.
const HANG: u32 = 10;

/// Megabytes that a target may use.
const MEMORY: u32 = 1024;

/// Flags of the compiler, so that the programs tell libFuzzer where they go and what they compare.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The reason that the targets were not run to their end, or their findings.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// There is no C++ compiler.
    #[error(
        "`{compiler}` does not run ({reason}): libFuzzer is written in C++. Install a compiler (Debian's package g++), or name \
         one in CXX"
    )]
    NoCompiler {
        /// The command that was tried.
        compiler: String,
        /// The manner in which it failed.
        reason: String,
    },
    /// A command did not start or failed.
    #[error("{command}: {reason}")]
    Failed {
        /// The command.
        command: String,
        /// The manner in which it ended.
        reason: String,
    },
    /// A file cannot be read or made.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: io::Error,
    },
    /// `fuzz/Cargo.toml` is not what it should be.
    #[error("fuzz/Cargo.toml: {0}")]
    Manifest(#[from] toml::de::Error),
    /// Some targets have failed; what they did has been printed.
    #[error("found something: {}", .0.join(", "))]
    Found(Vec<String>),
}

/// The part of `fuzz/Cargo.toml` that says which targets there are.
#[derive(Deserialize)]
struct Manifest {
    bin: Vec<Binary>,
}

#[derive(Deserialize)]
struct Binary {
    name: String,
}

/// Runs every target for this number of seconds. A finding in one does not keep the others from running.
pub fn fuzz(repository: &Path, seconds: u32) -> Result<(), FuzzError> {
    let manifest = repository.join("fuzz/Cargo.toml");
    let names = names(&at(&manifest, fs::read_to_string(&manifest))?)?;
    needs_a_compiler()?;
    let programs = build(repository, &manifest)?;
    let corpus = repository.join("fuzz/corpus");
    let mut found = Vec::new();
    for name in names {
        eprintln!("fuzz: {name}, {seconds} s");
        if !run(repository, &programs.join(&name), &name, &corpus, seconds)? {
            found.push(name);
        }
    }
    if found.is_empty() { Ok(()) } else { Err(FuzzError::Found(found)) }
}

/// The names of the targets, as a manifest lists them.
fn names(manifest: &str) -> Result<Vec<String>, FuzzError> {
    let manifest: Manifest = toml::from_str(manifest)?;
    Ok(manifest.bin.into_iter().map(|binary| binary.name).collect())
}

/// Says what is missing before cargo has compiled everything else.
fn needs_a_compiler() -> Result<(), FuzzError> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let reason = match Command::new(&compiler).arg("--version").output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => output.status.to_string(),
        Err(error) => error.to_string(),
    };
    Err(FuzzError::NoCompiler { compiler, reason })
}

/// Builds all targets, and answers where they are.
fn build(repository: &Path, manifest: &Path) -> Result<PathBuf, FuzzError> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let target = target.join("fuzz");
    let host = host()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").as_deref().unwrap_or(OsStr::new("cargo")));
    cargo.current_dir(repository);
    // With `--target` the flags are not for build scripts, which have no libFuzzer to tell anything.
    cargo.args(["build", "--locked", "--release", "--bins", "--target", &host, "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(&target);
    cargo.env("RUSTFLAGS", FLAGS).env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = cargo.status().map_err(|error| failed(&cargo, error))?;
    if !status.success() {
        return Err(failed(&cargo, status));
    }
    Ok(target.join(host).join("release"))
}

/// The machine that the compiler runs on and builds for.
fn host() -> Result<String, FuzzError> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV");
    let output = rustc.output().map_err(|error| failed(&rustc, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| failed(&rustc, output.status))
}

/// Runs one target and says what came of it; whether nothing was found. All that libFuzzer says is in the file `log`.
fn run(repository: &Path, program: &Path, name: &str, corpus: &Path, seconds: u32) -> Result<bool, FuzzError> {
    let artifacts = repository.join("fuzz/artifacts").join(name);
    let own = corpus.join(name);
    for folder in [&artifacts, &own] {
        at(folder, fs::create_dir_all(folder))?;
    }
    let log = artifacts.join("log");
    let output = at(&log, fs::File::create(&log))?;
    let mut fuzzer = Command::new(program);
    fuzzer.current_dir(repository).env("FUZZ_CORPUS", corpus).env("RUST_BACKTRACE", "0");
    fuzzer.args([format!("-max_total_time={seconds}"), format!("-timeout={HANG}"), format!("-rss_limit_mb={MEMORY}")]);
    fuzzer.args(["-verbosity=0", "-print_final_stats=1"]);
    fuzzer.arg(prefixed("-dict=", &corpus.join(format!("{name}.dict"))));
    // With a slash behind it, it is a folder.
    fuzzer.arg(prefixed("-artifact_prefix=", &artifacts.join("")));
    fuzzer.arg(&own);
    fuzzer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let status = fuzzer.status().map_err(|error| failed(&fuzzer, error))?;
    let said = at(&log, fs::read(&log))?;
    let said = String::from_utf8_lossy(&said);
    if status.success() {
        eprintln!("fuzz: {name}: {} inputs", inputs(&said).unwrap_or("?"));
    } else {
        eprintln!("{}", last_words(&said));
        eprintln!("fuzz: {name}: {status}; all of it is in {}; again:", log.display());
        eprintln!("    {} {}", program.display(), artifacts.join("FILE").display());
    }
    Ok(status.success())
}

/// The number of inputs that were tried, from libFuzzer's last lines.
fn inputs(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")).map(str::trim)
}

/// The part of the output that tells of a failure: the panic and the input. The rest speaks of the progress before.
fn last_words(said: &str) -> &str {
    let begin = ["\nthread ", "\n=="].iter().filter_map(|mark| said.find(mark)).min();
    begin.map_or(said, |at| said[at..].trim())
}

fn prefixed(option: &str, path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from(option);
    argument.push(path);
    argument
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, FuzzError> {
    result.map_err(|reason| FuzzError::File { path: path.to_path_buf(), reason })
}

fn failed(command: &Command, reason: impl fmt::Display) -> FuzzError {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    FuzzError::Failed { command: words.join(" "), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_of_the_folder_is_in_the_manifest() {
        let fuzz = crate::repository().join("fuzz");
        let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
        let listed: BTreeSet<String> = names(&manifest).unwrap().into_iter().collect();
        let files: BTreeSet<String> = fs::read_dir(fuzz.join("targets"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(listed, files);
    }

    #[test]
    fn what_failed_is_told_without_the_progress() {
        let said = "INFO: seed\n#2 NEW\n\nthread '<unnamed>' panicked at x.rs:1:2:\nno\n==7== ERROR: deadly signal\nBase64: QQ==\n";
        assert!(last_words(said).starts_with("thread '<unnamed>' panicked"));
        assert!(last_words(said).ends_with("Base64: QQ=="));
        assert_eq!(last_words("cannot open"), "cannot open");
        assert_eq!(inputs("DONE\nstat::number_of_executed_units: 272870\nstat::x: 1\n"), Some("272870"));
    }
}
