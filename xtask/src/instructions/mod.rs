//! `cargo xtask instructions`: what a request costs in instructions of user mode, and an idle connection in bytes, held to a
//! recorded budget.
//!
//! Times differ by several per cent from run to run and from machine to machine, and these counts hardly do. So a
//! change that makes a request 2 % dearer is seen when it is made. The counts are callgrind's, of the plain release
//! build in one process (`docs/design/0009-cost-of-a-connection.md`).

mod budget;
mod cases;
mod count;
mod error;

use std::path::{Path, PathBuf};
use std::process::Command;

use freerun_testkit::Kind;

use crate::command::{ask, cargo, run};
use budget::{Budget, BudgetVerdict};
use cases::Case;
pub use error::CountError;

/// The file with the budget, from the root of the repository.
const BUDGET: &str = "xtask/instructions.toml";

/// The options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CountOptions {
    check: bool,
    record: bool,
    nginx: bool,
    freerun: Option<PathBuf>,
    /// The name of the one case that is counted.
    case: Option<String>,
}

impl CountOptions {
    /// Reads the arguments; `None` if one is not understood.
    pub fn read(arguments: &[&str]) -> Option<CountOptions> {
        let mut options = CountOptions::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--check" => options.check = true,
                "--record" => options.record = true,
                "--nginx" => options.nginx = true,
                "--case" => options.case = Some((*arguments.next()?).to_owned()),
                "--freerun" => options.freerun = Some(arguments.next()?.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// Builds freerun, counts each case and prints the table. Answers whether all is within the budget, or need not be.
pub fn instructions(repository: &Path, options: CountOptions) -> Result<bool, CountError> {
    if ask(Command::new("valgrind").arg("--version")).is_err() {
        return Err(CountError::NoValgrind);
    }
    let binary = match options.freerun {
        Some(path) => std::path::absolute(&path).unwrap_or(path),
        None => build(repository)?,
    };
    let path = repository.join(BUDGET);
    let budget = Budget::load(&path)?;
    let here = budget::toolchain()?;
    let kept = budget.clone();
    let alike = budget.as_ref().is_none_or(|budget| budget.toolchain == here);
    let nginx = if options.nginx { Kind::Nginx.program().ok() } else { None };
    if options.nginx && nginx.is_none() {
        eprintln!("instructions: no nginx is there to be counted too");
    }

    let mut measured = Vec::new();
    let mut within = true;
    println!("{:24} {:>9} {:>9} {:>7} {:>9}", "case", "measured", "recorded", "ratio", "nginx");
    let wanted = |case: &Case| options.case.as_ref().is_none_or(|name| name == case.name());
    for case in Case::ALL.into_iter().filter(wanted) {
        let count = count::count(case, Kind::Freerun, &binary)?;
        let recorded = budget.as_ref().and_then(|budget| budget.cases.get(case.name()).copied());
        let other = match &nginx {
            Some(program) => format!("{:.0}", count::count(case, Kind::Nginx, program)?),
            None => String::new(),
        };
        let verdict = match recorded {
            Some(recorded) => BudgetVerdict::of(case, count, recorded, alike),
            None => BudgetVerdict::Unknown,
        };
        within &= verdict != BudgetVerdict::Over;
        println!(
            "{:24} {count:>9.0} {:>9} {:>7} {other:>9}{}",
            case.name(),
            recorded.map_or_else(String::new, |recorded| format!("{recorded:.0}")),
            recorded.map_or_else(String::new, |recorded| format!("{:.3}", count / recorded)),
            verdict.word()
        );
        measured.push((case.name(), count));
    }
    if let Some(budget) = budget.filter(|_| !alike) {
        println!(
            "recorded with {}, counted with {here}: held to {} % and {} bytes only",
            budget.toolchain,
            budget::OTHER_TOOLCHAIN.percent,
            budget::OTHER_TOOLCHAIN.bytes
        );
    }
    if options.record {
        // What was not counted keeps its number.
        for case in Case::ALL {
            let known = kept.as_ref().and_then(|budget| budget.cases.get(case.name()).copied());
            if let Some(known) = known.filter(|_| !measured.iter().any(|(name, _)| *name == case.name())) {
                measured.push((case.name(), known));
            }
        }
        Budget::store(&path, &here, &measured)?;
    }
    Ok(within || !options.check)
}

/// Builds freerun as users build it.
fn build(repository: &Path) -> Result<PathBuf, CountError> {
    run(cargo(repository).args(["build", "--release", "--locked", "--package", "freerun"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    Ok(std::path::absolute(&target).unwrap_or(target).join("release/freerun"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let read = CountOptions::read(&["--check", "--freerun", "/a"]);
        assert_eq!(read, Some(CountOptions { check: true, freerun: Some("/a".into()), ..CountOptions::default() }));
        assert_eq!(CountOptions::read(&["--chekc"]), None);
        assert_eq!(CountOptions::read(&["--freerun"]), None);
    }
}
