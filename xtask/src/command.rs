//! Other programs that a chore runs.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A command did not start or failed.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {reason}")]
pub struct CommandError {
    /// The command.
    command: String,
    /// The manner in which it ended.
    reason: String,
}

/// Cargo, to be run in the repository: the same that runs this program, if one does.
pub fn cargo(repository: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").as_deref().unwrap_or(OsStr::new("cargo")));
    cargo.current_dir(repository);
    cargo
}

fn failed(command: &Command, reason: impl fmt::Display) -> CommandError {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    CommandError { command: words.join(" "), reason: reason.to_string() }
}

/// Runs a command, whose output is the user's.
pub fn run(command: &mut Command) -> Result<(), CommandError> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(command, status)),
        Err(error) => Err(failed(command, error)),
    }
}

/// Runs a command and answers what it wrote to standard output.
pub fn ask(command: &mut Command) -> Result<String, CommandError> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            Err(failed(command, format!("{}: {last}", output.status)))
        }
        Err(error) => Err(failed(command, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_said_last_is_told_when_it_fails() {
        let error =
            ask(Command::new("sh").args(["-c", "echo first >&2; echo 'no such profile' >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().ends_with("exit status: 3: no such profile"), "{error}");
    }
}
