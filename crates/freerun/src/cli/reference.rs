//! The options of `freerun reference`.

use std::ffi::OsString;

use super::usage_error::UsageError;

/// The options of `freerun reference [--check] DIR`.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// The folder for the pages.
    pub dir: OsString,
    /// Only check whether the pages are current.
    pub check: bool,
    /// Whether `--help` was given.
    pub help: bool,
}

/// Reads the arguments after `reference`.
///
/// # Errors
/// One of them is unknown, or the folder is missing.
pub fn parse(args: &[OsString]) -> Result<Reference, UsageError> {
    use lexopt::Arg::{Long, Short, Value};
    let wrong = |error: lexopt::Error| UsageError::Own("reference", error.to_string());
    let (mut dir, mut check, mut help) = (None, false, false);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        match arg {
            Long("check") => check = true,
            Short('h') | Long("help") => help = true,
            Value(value) if dir.is_none() => dir = Some(value),
            other => return Err(wrong(other.unexpected())),
        }
    }
    let missing = || UsageError::Own("reference", "the folder of the pages is missing".into());
    let dir = if help { dir.unwrap_or_default() } else { dir.ok_or_else(missing)? };
    Ok(Reference { dir, check, help })
}
