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

/// The largest values of `--count`, `--rate`, `--concurrency`, `--timeout` and `--time`.
const MOST: [(&str, u64); 5] =
    [("--count", 100_000), ("--rate", 10_000), ("--concurrency", 64), ("--timeout", 600), ("--time", 86_400)];

/// Reads the arguments after `migrate`.
///
/// # Errors
/// One of them is unknown, lacks its value, or needs `--run`.
pub fn parse(args: &[OsString]) -> Result<Migrate, UsageError> {
    use lexopt::Arg::{Long, Short};
    let wrong = |error: lexopt::Error| UsageError::Own("migrate", error.to_string());
    let mut migrate = Migrate::default();
    let (mut runs, mut run) = (false, MigrateRun::default());
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(wrong)? {
        let flag = match arg {
            Short('h') | Long("help") => Some(&mut migrate.help),
            Long("json") => Some(&mut migrate.json),
            Short('q') | Long("quiet") => Some(&mut migrate.quiet),
            Long("run") => Some(&mut runs),
            Long("all-methods") => Some(&mut run.all_methods),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            continue;
        }
        let slot = match arg {
            Short('c') => &mut migrate.options.conf,
            Short('p') => &mut migrate.options.prefix,
            Short('g') => &mut migrate.options.globals,
            Long("log-format") => &mut run.log_format,
            Long("requests") => &mut run.requests,
            Long("host") => &mut run.host,
            Long("log") => {
                run.logs.push(text_of_os(&parser.value().map_err(wrong)?).into_owned());
                continue;
            }
            Long("against") => {
                run.against.push(text_of_os(&parser.value().map_err(wrong)?).into_owned());
                continue;
            }
            Long("count") => {
                run.count = number(&mut parser, 0)? as usize;
                continue;
            }
            Long("rate") => {
                run.rate = number(&mut parser, 1)? as u32;
                continue;
            }
            Long("concurrency") => {
                run.concurrency = number(&mut parser, 2)? as usize;
                continue;
            }
            Long("timeout") => {
                run.timeout = number(&mut parser, 3)?;
                continue;
            }
            Long("time") => {
                run.time = number(&mut parser, 4)?;
                continue;
            }
            other => return Err(wrong(other.unexpected())),
        };
        *slot = Some(text_of_os(&parser.value().map_err(wrong)?).into_owned());
    }
    if !runs && run != MigrateRun::default() {
        return Err(UsageError::Own("migrate", "options about requests go with --run".to_owned()));
    }
    if run.requests.is_some() && !run.logs.is_empty() {
        return Err(UsageError::Own("migrate", "write --log or --requests, not both".to_owned()));
    }
    migrate.run = runs.then_some(run);
    Ok(migrate)
}

/// The number behind the option at this place of [`MOST`].
///
/// # Errors
/// It is missing, no number, 0 or too large.
fn number(parser: &mut lexopt::Parser, option: usize) -> Result<u64, UsageError> {
    let (name, most) = MOST[option];
    let value = parser.value().map_err(|error| UsageError::Own("migrate", error.to_string()))?;
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| UsageError::Own("migrate", format!("{name} takes a number from 1 to {most}")))
}
