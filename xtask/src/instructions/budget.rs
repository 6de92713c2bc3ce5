//! The recorded counts, and how far a count may be above its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::CountError;
use super::cases::{Case, Unit};
use crate::command::ask;

/// The comment at the top of the file.
const HEADER: &str = "\
# What requests may cost: user-mode instructions a request, bytes an idle connection, as `cargo xtask instructions` counts
# them. `cargo xtask instructions --check`, a step of the gate, fails where a count is more than 2 % above (16 bytes for the
# idle connection; 9 % for the file, 4 % for the hit and 5 % for a connection of its own, whose counts depend on how busy the
# machine is). `--record` writes this file, on a quiet machine: a commit that does so says what became dearer, and what for.
#
# Another compiler makes other code, another C library has another malloc and memcpy. So the counts are held to this file
# strictly where the toolchain is the one named here, and loosely (10 %, 64 bytes) elsewhere. The model of the processor
# should hardly matter: programs under valgrind see the processor that valgrind shows them, of one model for all machines
# that have AVX2.
";

/// The excess over the recorded count that the budget tolerates.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Of instructions, per cent.
    pub percent: f64,
    /// Of memory.
    pub bytes: f64,
}

/// With the compiler and C library that the budget was recorded with.
pub const TOLERANCE: Tolerance = Tolerance { percent: 2.0, bytes: 16.0 };

/// With others, whose code is not the same.
pub const OTHER_TOOLCHAIN: Tolerance = Tolerance { percent: 10.0, bytes: 64.0 };

/// The file.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The tools that the counts were made with, as [`toolchain`] reports them.
    pub toolchain: String,
    /// The counts by the name of the case.
    pub cases: BTreeMap<String, f64>,
}

impl Budget {
    /// Reads the file; `None` if there is none.
    pub fn load(path: &Path) -> Result<Option<Budget>, CountError> {
        let failed = |reason: String| CountError::Budget { path: path.to_owned(), reason };
        match fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).map(Some).map_err(|error| failed(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the file.
    pub fn store(path: &Path, toolchain: &str, cases: &[(&str, f64)]) -> Result<(), CountError> {
        fs::write(path, text(toolchain, cases))
            .map_err(|error| CountError::Budget { path: path.to_owned(), reason: error.to_string() })
    }
}

/// The text of a budget.
fn text(toolchain: &str, cases: &[(&str, f64)]) -> String {
    let lines: String = cases.iter().map(|(name, count)| format!("{name} = {count:.1}\n")).collect();
    format!("{HEADER}\ntoolchain = \"{toolchain}\"\n\n[cases]\n{lines}")
}

/// The environment that the counts depend on: the compiler, the kind of machine and the C library.
pub fn toolchain() -> Result<String, CountError> {
    let compiler = ask(Command::new("rustc").arg("--version"))?;
    // Only glibc's getconf knows this name.
    let library = ask(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    let version = compiler.split(' ').nth(1).unwrap_or_default();
    Ok(format!("rustc {version}, {}, {}", std::env::consts::ARCH, library.trim()))
}

/// The judgement of the budget about a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetVerdict {
    /// Not more than it may be.
    Within,
    /// More.
    Over,
    /// Nothing is recorded for it.
    Unknown,
}

impl BudgetVerdict {
    /// Compares a count with the recorded one; `alike` says that both were made with the same toolchain.
    pub fn of(case: Case, count: f64, recorded: f64, alike: bool) -> BudgetVerdict {
        let tolerance = if alike { TOLERANCE } else { OTHER_TOOLCHAIN };
        let most = match case.unit() {
            Unit::Instructions => recorded * (1.0 + (tolerance.percent + case.chance()) / 100.0),
            Unit::Bytes => recorded + tolerance.bytes,
        };
        if count <= most { BudgetVerdict::Within } else { BudgetVerdict::Over }
    }

    /// The text that is printed behind the figures.
    pub fn word(self) -> &'static str {
        match self {
            BudgetVerdict::Within => "",
            BudgetVerdict::Over => "  OVER BUDGET",
            BudgetVerdict::Unknown => "  not recorded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_two_per_cent_and_bytes_sixteen() {
        let instructions = |count| BudgetVerdict::of(Case::Return, count, 1_000.0, true);
        assert_eq!((instructions(1_020.0), instructions(1_021.0)), (BudgetVerdict::Within, BudgetVerdict::Over));
        let bytes = |count| BudgetVerdict::of(Case::Idle, count, 400.0, true);
        assert_eq!((bytes(416.0), bytes(417.0)), (BudgetVerdict::Within, BudgetVerdict::Over));
        assert_eq!(instructions(500.0), BudgetVerdict::Within);
    }

    #[test]
    fn another_toolchain_is_held_loosely() {
        assert_eq!(BudgetVerdict::of(Case::Return, 1_099.0, 1_000.0, false), BudgetVerdict::Within);
        assert_eq!(BudgetVerdict::of(Case::Return, 1_101.0, 1_000.0, false), BudgetVerdict::Over);
        assert_eq!(BudgetVerdict::of(Case::Idle, 465.0, 400.0, false), BudgetVerdict::Over);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text =
            text("rustc 1.95.0, x86_64, glibc 2.36", &[("return-200", 7_300.26), ("idle-connection-bytes", 400.0)]);
        let read: Budget = toml::from_str(&text).unwrap();
        assert_eq!(read.toolchain, "rustc 1.95.0, x86_64, glibc 2.36");
        assert_eq!(read.cases.get("return-200"), Some(&7_300.3));
        assert_eq!(read.cases.len(), 2);
    }

    #[test]
    fn the_budget_of_the_repository_names_every_case() {
        let budget = Budget::load(&crate::repository().join(super::super::BUDGET)).unwrap().expect("a budget");
        let mut names: Vec<_> = Case::ALL.iter().map(|case| case.name()).collect();
        names.sort_unstable();
        assert_eq!(budget.cases.keys().map(String::as_str).collect::<Vec<_>>(), names);
    }
}
