//! The options of `freerun migrate`.

use std::ffi::OsString;

use freerun_conf::text_of_os;

use super::options::Options;
use super::usage_error::UsageError;

/// The options of `freerun migrate`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Migrate {
    /// `-c`, `-p` and `-g`.
    pub options: Options,
    /// Whether `--json` was given.
    pub json: bool,
    /// Whether `--quiet` was given: what needs nobody's attention is left out.
    pub quiet: bool,
    /// Whether `--help` was given.
    pub help: bool,
}

/// Reads the arguments after `migrate`.
///
/// # Errors
/// One of them is unknown, or lacks its value.
pub fn parse(args: &[OsString]) -> Result<Migrate, UsageError> {
    use lexopt::Arg::{Long, Short};
    let wrong = |error: lexopt::Error| UsageError::Own("migrate", error.to_string());
    let mut migrate = Migrate::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        let slot = match arg {
            Short('h') | Long("help") => {
                migrate.help = true;
                continue;
            }
            Long("json") => {
                migrate.json = true;
                continue;
            }
            Short('q') | Long("quiet") => {
                migrate.quiet = true;
                continue;
            }
            Short('c') => &mut migrate.options.conf,
            Short('p') => &mut migrate.options.prefix,
            Short('g') => &mut migrate.options.globals,
            other => return Err(wrong(other.unexpected())),
        };
        *slot = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned());
    }
    Ok(migrate)
}
