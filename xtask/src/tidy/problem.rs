//! Reports of the checks.

use std::fmt;

/// A broken rule: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// The message: the fault.
    pub(crate) message: String,
    /// The change that puts it right.
    pub(crate) fix: String,
}

impl Problem {
    /// A problem at a line of a file.
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into(), fix: fix.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}\n    do: {}", self.path, self.line, self.message, self.fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_file_line_and_remedy() {
        let problem = Problem::new("crates/http/src/a.rs", 7, "std::fs::read waits", "use the pool");
        assert_eq!(problem.to_string(), "crates/http/src/a.rs:7: std::fs::read waits\n    do: use the pool");
    }
}
