//! The commands: what the program does that a command line asks for.

mod check;
mod explain;
mod lint;
mod manual;
mod migrate;
mod missing_configuration;
mod reference;
mod serve;
mod server;
mod signal;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use freerun_conf::Contexts;

use crate::cli::{self, Command, UsageError, help};
use crate::configuration::registry;
use crate::{console, version};

#[cfg(test)]
pub use lint::lint_tree;

/// The program, unless it is a worker.
pub fn run() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    match cli::parse(given.clone()) {
        Ok(Command::Server(options)) => server::run(&options),
        Ok(Command::Serve(options)) => serve::run(&options),
        Ok(Command::Reference(options)) => reference::run(&options),
        Ok(Command::Migrate(options)) => migrate::run(&options),
        Ok(Command::Explain(asked)) => explain::run(&asked),
        Ok(Command::Completions(shell)) => {
            console::output(&shell.completions(&directives()));
            ExitCode::SUCCESS
        }
        Ok(Command::Manual) => {
            console::output(&manual::page());
            ExitCode::SUCCESS
        }
        Ok(Command::HelpOf(name)) => {
            console::output(&help::command(name));
            ExitCode::SUCCESS
        }
        Ok(Command::Help) => {
            console::output(&(version::versions() + &help::long()));
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            console::output(&version::versions());
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::print(&format!("{}: {error}\n", error.speaker()));
            if let Some(help) = error.help(&given) {
                console::print(&format!("help: {help}\n"));
            }
            match error {
                UsageError::Own("migrate", _) => ExitCode::from(migrate::NO_REPORT),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// The names that `explain` takes, sorted: directives, and rules of the lint.
fn directives() -> Vec<&'static str> {
    let rules = lint::rules::all().map(|rule| rule.name);
    registry().names(Contexts::ANY).chain(rules).collect::<BTreeSet<_>>().into_iter().collect()
}
