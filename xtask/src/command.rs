//! Other programs that a chore runs, the files that it works with, and the error of both.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reason why a step of a chore was not done.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A command did not start or failed.
    #[error("{command}: {reason}")]
    Command {
        /// The command.
        command: String,
        /// The manner in which it ended.
        reason: String,
    },
    /// A file or folder cannot be made or read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: std::io::Error,
    },
}

/// The result of an operation at `path`.
pub fn at<T>(path: &Path, result: std::io::Result<T>) -> Result<T, StepError> {
    result.map_err(|reason| StepError::File { path: path.to_path_buf(), reason })
}

/// Cargo, to be run in the repository: the same that runs this program, if one does.
pub fn cargo(repository: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").as_deref().unwrap_or(OsStr::new("cargo")));
    cargo.current_dir(repository);
    cargo
}

fn failed(command: &Command, reason: impl fmt::Display) -> StepError {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    StepError::Command { command: words.join(" "), reason: reason.to_string() }
}

/// Runs a command, whose output is the user's.
pub fn run(command: &mut Command) -> Result<(), StepError> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(command, status)),
        Err(error) => Err(failed(command, error)),
    }
}

/// Runs a command and answers what it wrote to standard output.
pub fn ask(command: &mut Command) -> Result<String, StepError> {
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
