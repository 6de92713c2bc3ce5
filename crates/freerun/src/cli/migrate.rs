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
    /// The options that go with `--run`, if that was given.
    pub run: Option<MigrateRun>,
}

/// The options that go with `migrate --run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrateRun {
    /// `--log`: the access logs to replay, each a path, or `-` for stdin.
    pub logs: Vec<String>,
    /// `--log-format`: the name of a format of the configuration, or a format itself. Without it the configuration says which
    /// format a log has.
    pub log_format: Option<String>,
    /// `--requests`: the file with a list of requests, or `-` for stdin.
    pub requests: Option<String>,
    /// `--against`: the URLs where nginx is, if not at its own addresses.
    pub against: Vec<String>,
    /// `--host`: the host of requests whose log does not say it.
    pub host: Option<String>,
    /// `--all-methods`: methods that may change something are sent as well.
    pub all_methods: bool,
    /// `--count`: the most requests.
    pub count: usize,
    /// `--rate`: the most requests to each server in a second.
    pub rate: u32,
    /// `--concurrency`: the most requests at the same time.
    pub concurrency: usize,
    /// `--timeout`: the longest time for a response, in seconds.
    pub timeout: u64,
    /// `--time`: the longest time for all requests, in seconds.
    pub time: u64,
}

impl Default for MigrateRun {
    fn default() -> MigrateRun {
        MigrateRun {
            logs: Vec::new(),
            log_format: None,
            requests: None,
            against: Vec::new(),
            host: None,
            all_methods: false,
            count: 1000,
            rate: 100,
            concurrency: 4,
            timeout: 10,
            time: 300,
        }
    }
}

/// The largest value of `--count`.
const MOST_REQUESTS: u64 = 100_000;

/// The largest value of `--rate`.
const MOST_IN_A_SECOND: u64 = 10_000;

/// The largest value of `--concurrency`.
const MOST_AT_ONCE: u64 = 64;

/// The largest value of `--timeout`, in seconds.
const LONGEST_ANSWER: u64 = 600;

/// The largest value of `--time`, in seconds.
const LONGEST_TRIAL: u64 = 86_400;

/// The long options that are not about a trial; the others need `--run`.
const OF_REPORT: [&str; 4] = ["help", "json", "quiet", "run"];

/// Reads the arguments after `migrate`.
///
/// # Errors
/// One of them is unknown, lacks its value, or needs `--run`.
pub fn parse(args: &[OsString]) -> Result<Migrate, UsageError> {
    use lexopt::Arg::{Long, Short};
    let wrong = |error: lexopt::Error| UsageError::Own("migrate", error.to_string());
    let mut migrate = Migrate::default();
    let (mut runs, mut run) = (false, MigrateRun::default());
    // The first option that needs `--run`.
    let mut needs_run = None;
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        if let Long(name) = arg
            && !OF_REPORT.contains(&name)
        {
            needs_run.get_or_insert_with(|| name.to_owned());
        }
        match arg {
            Short('h') | Long("help") => migrate.help = true,
            Long("json") => migrate.json = true,
            Short('q') | Long("quiet") => migrate.quiet = true,
            Short('c') => migrate.options.conf = Some(text(&mut parser)?),
            Short('p') => migrate.options.prefix = Some(text(&mut parser)?),
            Short('g') => migrate.options.globals = Some(text(&mut parser)?),
            Long("run") => runs = true,
            Long("all-methods") => run.all_methods = true,
            Long("log-format") => run.log_format = Some(text(&mut parser)?),
            Long("requests") => run.requests = Some(text(&mut parser)?),
            Long("host") => run.host = Some(text(&mut parser)?),
            Long("log") => run.logs.push(text(&mut parser)?),
            Long("against") => run.against.push(text(&mut parser)?),
            Long("count") => run.count = number(&mut parser, ("count", MOST_REQUESTS))? as usize,
            Long("rate") => run.rate = number(&mut parser, ("rate", MOST_IN_A_SECOND))? as u32,
            Long("concurrency") => run.concurrency = number(&mut parser, ("concurrency", MOST_AT_ONCE))? as usize,
            Long("timeout") => run.timeout = number(&mut parser, ("timeout", LONGEST_ANSWER))?,
            Long("time") => run.time = number(&mut parser, ("time", LONGEST_TRIAL))?,
            other => return Err(wrong(other.unexpected())),
        }
    }
    if let (false, Some(name)) = (runs || migrate.help, needs_run) {
        let told = format!("--{name} says something of a trial: write --run, too, or leave it out");
        return Err(UsageError::Own("migrate", told));
    }
    if run.requests.is_some() && !run.logs.is_empty() {
        return Err(UsageError::Own("migrate", "write --log or --requests, not both".to_owned()));
    }
    migrate.run = runs.then_some(run);
    Ok(migrate)
}

/// The text behind an option.
///
/// # Errors
/// It is missing.
fn text(parser: &mut lexopt::Parser) -> Result<String, UsageError> {
    let value = parser.value().map_err(|error| UsageError::Own("migrate", error.to_string()))?;
    Ok(text_of_os(&value).into_owned())
}

/// The number behind the option with this name, whose largest value is `most`.
///
/// # Errors
/// It is missing, no number, 0 or too large.
fn number(parser: &mut lexopt::Parser, (name, most): (&str, u64)) -> Result<u64, UsageError> {
    let number = text(parser)?.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| UsageError::Own("migrate", format!("--{name} takes a number from 1 to {most}")))
}
