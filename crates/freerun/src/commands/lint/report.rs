//! The findings as lines for people and editors, and as JSON.

use freerun_conf::{Problem, Sources, fold, unmarked};
use serde::Serialize;

use super::rule::{LintFault, RuleLevel};

/// The name of a finding that is a problem of the test itself.
pub const TEST: &str = "test";

/// A finding with its place in words.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ReportedFault {
    /// The file, or `command line`.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The byte in that line, from 1.
    pub column: u32,
    /// `error` or `warning`.
    pub level: &'static str,
    /// The rule.
    pub name: &'static str,
    /// The message: what is written there, and what happens.
    pub message: String,
    /// The reason.
    pub reason: String,
    /// The advice: what to write instead.
    pub fix: String,
}

impl ReportedFault {
    /// Looks the file up, and takes the marks of Markdown out.
    pub fn new(finding: &LintFault, sources: &Sources) -> Self {
        let LintFault { rule, place, message } = finding;
        let file = sources.get(place.file).map(|source| source.path.clone()).unwrap_or_default();
        ReportedFault {
            file,
            line: place.line,
            column: place.column,
            level: rule.level.name(),
            name: rule.name,
            message: message.replace(['\n', '\r'], " "),
            reason: unmarked(rule.reason),
            fix: unmarked(rule.fix),
        }
    }

    /// A problem for which the test has failed, as a finding of the rule `test`; none for one without a place.
    pub fn of_problem(problem: &Problem, sources: &Sources) -> Option<Self> {
        let place = problem.place.or(problem.reported)?;
        Some(ReportedFault {
            file: sources.get(place.file)?.path.clone(),
            line: place.line,
            column: place.column,
            level: RuleLevel::Error.name(),
            name: TEST,
            message: problem.message.replace(['\n', '\r'], " "),
            reason: "the configuration is refused".to_owned(),
            fix: problem.help(sources).unwrap_or_default(),
        })
    }

    /// `file:line:column: level: message [name]`.
    pub fn line(&self) -> String {
        let ReportedFault { file, line, column, level, name, message, .. } = self;
        format!("{file}:{line}:{column}: {level}: {message} [{name}]\n")
    }
}

/// The number of findings in words.
pub fn summary(findings: &[LintFault]) -> String {
    let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let errors = findings.iter().filter(|finding| finding.rule.level == RuleLevel::Error).count();
    let warnings = findings.len() - errors;
    let both = format!("{} and {} of the lint", count(errors, "error"), count(warnings, "warning"));
    fold(&format!("{both}; \"freerun explain NAME\" has reason and fix"), 0).trim_end().replace('\n', " ")
}
