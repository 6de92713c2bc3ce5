//! Messages before, and in addition to, the error log: stderr as nginx uses it.

use std::io::Write as _;

use freerun_conf::{MAX_SHOWN, Problem, Severity, Sources, bytes_of};
use freerun_runtime::log::{ErrorLog, Level, Writer};

use crate::configuration::Failure;
use crate::error::Error;
use crate::logs::{self, STDERR};
use crate::paths::Paths;

/// The log that exists before the configuration is read: the file of `-e`, and stderr.
///
/// If that file is stderr itself, lines there have the short form `nginx: [emerg] …` that tools look for.
pub fn initial_log(paths: &Paths) -> Result<ErrorLog, Error> {
    if paths.error_log == STDERR {
        return Ok(ErrorLog::none().with_console());
    }
    let writer = Writer::direct();
    let file = writer.file(&paths.error_log, logs::open(&paths.error_log)?);
    Ok(ErrorLog::new(vec![(file, Level::Notice)]).with_console())
}

/// Has stdout and stderr append to the files that a shell has opened for them. Lines of the logs go there through
/// several descriptors (`> log 2>&1`, `access_log /dev/stdout`). Each has a place of its own in the file; without this,
/// one would overwrite another's lines.
pub fn append_to_files() {
    use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
    for stream in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let is_file = fstat(stream).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if is_file && let Ok(flags) = fcntl_getfl(stream) {
            // Without it lines may be lost, as before.
            let _ = fcntl_setfl(stream, flags | OFlags::APPEND);
        }
    }
}

fn level(severity: Severity) -> Level {
    match severity {
        Severity::Notice => Level::Notice,
        Severity::Warn => Level::Warn,
        Severity::Crit => Level::Crit,
        Severity::Emerg => Level::Emerg,
    }
}

/// nginx's line without `[level] `.
fn line(problem: &Problem, sources: &Sources) -> String {
    let line = problem.first_line(sources);
    line.strip_prefix(&format!("[{}] ", problem.level.name())).map(str::to_owned).unwrap_or(line)
}

/// Writes a problem to the log, as one line.
pub fn log_problem(log: &ErrorLog, problem: &Problem, sources: &Sources) {
    log.write(level(problem.level), None, format_args!("{}", line(problem, sources)));
}

/// Prints a text to stderr, with the bytes that it stands for.
pub fn print(text: &str) {
    let _ = std::io::stderr().write_all(&bytes_of(text));
}

/// Prints a text to stdout, with the bytes that it stands for. A reader that closes its end early, such as head, is no error.
pub fn output(text: &str) {
    let _ = std::io::stdout().lock().write_all(&bytes_of(text));
}

/// Reports a failure to a person at a terminal: warnings, then all problems with their lines, carets and help, nginx's first.
/// The log without the console gets the line of the first alone.
pub fn tell_failure(log: &ErrorLog, failure: &Failure) {
    tell_warnings(log, &failure.warnings, &failure.sources);
    print(&failure.problems.render_all(&failure.sources, "nginx: "));
    log_failure(&log.without_console(), failure);
}

/// Tells a person at a terminal what may help with an error that the log has, if anything does.
pub fn tell_help(error: &Error) {
    if let Some(help) = error.help() {
        print(&format!("help: {help}\n"));
    }
}

/// The first problem of a failure and what helps, on one line without level.
pub fn summary(failure: &Failure) -> String {
    let Some(problem) = failure.problems.first() else { return String::new() };
    let help = problem.help(&failure.sources).map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{}{help}", line(problem, &failure.sources))
}

/// Reports a failure to the log alone, for a reload, when stderr is not read.
pub fn log_failure(log: &ErrorLog, failure: &Failure) {
    if let Some(problem) = failure.problems.first() {
        log.write(level(problem.level), None, format_args!("{}", summary(failure)));
    }
}

/// Writes each warning to the log, and to the console while there is one: there the first [`MAX_SHOWN`] with their lines, carets
/// and help, as errors have them.
pub fn tell_warnings(log: &ErrorLog, warnings: &[Problem], sources: &Sources) {
    let mut shown = 0;
    for warning in warnings {
        log_problem(log, warning, sources);
        // The console has no lines below this level.
        if log.has_console() && warning.level >= Severity::Warn && shown < MAX_SHOWN {
            shown += 1;
            print(&warning.explained(sources));
        }
    }
}
