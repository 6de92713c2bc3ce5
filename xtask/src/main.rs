//! Source checks and chores of the repository: `cargo xtask tidy`, `map`, `release`, `package`, `book`, `fuzz`,
//! `instructions` and `peer`.
//!
//! The same checks run as a test of this package, so `cargo test --workspace` cannot pass on a tree that `cargo xtask tidy`
//! refuses.

mod book;
mod command;
mod fuzz;
mod instructions;
mod map;
mod package;
mod peer;
mod release;
mod tidy;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The text that `cargo xtask` prints when it does not understand its arguments.
const USAGE: &str = "\
usage: cargo xtask tidy|map|release|package|book|fuzz|instructions|peer

  tidy      check the rules that the compiler cannot: see CONTRIBUTING.md
    --layers  show the imports that lead upward inside a crate, and the circles
    --words [PATH]
              show the names and sentences below PATH that are against the rules of xtask/words.toml
    --record  lower the numbers of both in xtask/tidy.toml to what is there, then check
  map [PATH]
            print each Rust file below PATH with the first sentence of what it says about itself
  release [--profile FILE]
            build freerun with what a load on it has shown (profile-guided): see docs/guide/running.md
            --profile  with what an earlier build was shown: target/pgo/freerun.profdata
  package [--profile FILE | --binary FILE [--static FILE]] [--image]
            make what is installed in target/package: packages of Debian and RPM, archives
            --profile  for the release that is built first
            --binary  of this binary, instead of a release
            --static  and of this one without shared libraries, for the archive
            --image   make container images, too
  book      build the guide, the reference and the design notes as a static site, with mdBook, and check its links
  fuzz [SECONDS]
            run every fuzz target for SECONDS (60) with libFuzzer: see fuzz/README.md
  instructions [--check] [--record] [--nginx] [--case NAME]
            count what a request costs, under valgrind: see bench/README.md
            --check   fail where it is more than xtask/instructions.toml allows
            --record  write what was counted there
            --nginx   count nginx too
            --case    count this case alone
  peer FOLDER
            run another server's test suite, which is in FOLDER: see tests/peer/README.md
";

/// The root of the repository: the folder above this package.
fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy_command(),
        ["tidy", "--layers"] => match tidy::show_layers(&repository()) {
            Ok(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => failed(&error),
        },
        ["tidy", "--words"] => words_command(""),
        ["tidy", "--words", below] => words_command(below),
        ["tidy", "--record"] => match tidy::record(&repository()) {
            Ok(()) => tidy_command(),
            Err(error) => failed(&error),
        },
        ["map"] => map_command(""),
        ["map", below] => map_command(below),
        ["release"] => release_command(None),
        ["release", "--profile", profile] => release_command(Some(Path::new(profile))),
        ["package", options @ ..] => package_command(options),
        ["book"] => book_command(),
        ["fuzz"] => fuzz_command("60"),
        ["fuzz", seconds] => fuzz_command(seconds),
        ["instructions", options @ ..] => instructions_command(options),
        ["peer", folder] => peer_command(Path::new(folder)),
        ["-h" | "--help" | "help"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Prints the map of the files below a path.
fn map_command(below: &str) -> ExitCode {
    match map::map(&repository(), below) {
        Ok(map) if map.is_empty() => {
            eprintln!("map: there is no Rust file below {below}");
            ExitCode::FAILURE
        }
        Ok(map) => {
            // Whoever reads it may have seen enough, as `head` has.
            let _ = std::io::stdout().write_all(map.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("map: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the binary and prints where it is.
fn release_command(profile: Option<&Path>) -> ExitCode {
    match release::release(&repository(), &[], profile) {
        Ok(binary) => {
            println!("{}", binary.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("release: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the packages.
fn package_command(options: &[&str]) -> ExitCode {
    let Some(options) = package::PackageOptions::read(options) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match package::package(&repository(), &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("package: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the book and prints where it begins.
fn book_command() -> ExitCode {
    match book::book(&repository()) {
        Ok(first) => {
            println!("{}", first.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("book: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the fuzz targets, which print what they find.
fn fuzz_command(seconds: &str) -> ExitCode {
    // libFuzzer takes 0 for no limit.
    let Some(seconds) = seconds.parse().ok().filter(|&seconds| seconds > 0) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match fuzz::fuzz(&repository(), seconds) {
        Ok(()) => {
            println!("fuzz: nothing found");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts what requests cost, and prints it.
fn instructions_command(options: &[&str]) -> ExitCode {
    let Some(options) = instructions::CountOptions::read(options) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    match instructions::instructions(&repository(), options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs another server's suite and says which files got worse or better.
fn peer_command(folder: &Path) -> ExitCode {
    match peer::run(&repository(), folder) {
        Ok(peer::Report { worse, better, unexplained, sum }) => {
            better.iter().for_each(|line| println!("better: {line}"));
            worse.iter().for_each(|line| eprintln!("worse: {line}"));
            unexplained.iter().for_each(|line| eprintln!("without a reason: {line}"));
            println!(
                "peer: {sum} pass; {} files are worse than the baseline, {} better, {} fail without a reason",
                worse.len(),
                better.len(),
                unexplained.len()
            );
            if worse.is_empty() && unexplained.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("peer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs every check on the repository and prints what it found.
fn words_command(below: &str) -> ExitCode {
    match tidy::show_words(&repository(), below) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn tidy_command() -> ExitCode {
    match tidy::check_folder(&repository()) {
        Ok(report) => {
            for problem in &report.problems {
                eprintln!("{problem}");
            }
            if report.problems.is_empty() {
                println!("tidy: {} files, nothing to say; {}", report.files, report.assertions);
                ExitCode::SUCCESS
            } else {
                eprintln!("tidy: {} files, {} problems", report.files, report.problems.len());
                ExitCode::FAILURE
            }
        }
        Err(error) => failed(&error),
    }
}

/// Says why the checks could not run.
fn failed(error: &tidy::TidyError) -> ExitCode {
    eprintln!("tidy: {error}");
    ExitCode::FAILURE
}
