//! `-s`: sends an order to a running master, and waits for the result of a reload.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use freerun_runtime::log::{Errno, ErrorLog, Level};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::Order;
use crate::configuration::{self, Side};
use crate::error::Error;
use crate::master::reload::BUILD_PATIENCE;
use crate::master::reload_waiters::{Outcome, Question};
use crate::source::Input;
use crate::source::loader::Recorder;
use crate::{console, pidfile};

/// The longest time to wait for the result of a reload: the worker has its time, and the master may have to read, to
/// look names up and to bind.
const PATIENCE: Duration = BUILD_PATIENCE.saturating_add(Duration::from_secs(60));

/// The time after which a message says that the result is still to come.
const PAUSE: Duration = Duration::from_secs(5);

/// Reads the configuration for the path of the pid file, as nginx does, and sends the signal. A server has to be ended, and its
/// logs are rotated, whatever somebody has written into the file since it was started: of a broken one, the path alone counts.
pub fn run(order: Order, input: &Input, log: &ErrorLog) -> ExitCode {
    let pid_path = match configuration::read(input, &mut Recorder::default(), Side::Master) {
        Ok(configuration) => configuration.main().pid_path(&input.prefix),
        Err(failure) => {
            console::tell_failure(log, &failure);
            match (order, configuration::pid_path(input, &mut Recorder::default())) {
                (Order::Stop | Order::Quit | Order::Reopen, Some(path)) => Some(path),
                _ => return ExitCode::FAILURE,
            }
        }
    };
    log.write(Level::Notice, None, format_args!("signal process started"));
    let Some(path) = pid_path else {
        log.write(Level::Error, None, format_args!("\"pid off\" leaves no file that tells whom to signal"));
        return ExitCode::FAILURE;
    };
    let told = |level, error: Error| {
        log.write(level, None, format_args!("{error}"));
        ExitCode::FAILURE
    };
    let pid = match pidfile::read(&path) {
        Ok(pid) => pid,
        Err(error) => return told(Level::Error, error),
    };
    // Before the signal: the master answers those who have asked when it begins to read.
    let question = match order {
        Order::Reload => u32::try_from(pid).ok().and_then(Question::ask),
        Order::Stop | Order::Quit | Order::Reopen => None,
    };
    match (send(order, pid), question) {
        (Err((level, error)), _) => told(level, error),
        (Ok(()), None) => ExitCode::SUCCESS,
        (Ok(()), Some(question)) => result(question, log),
    }
}

/// Waits for the result of the reload, and reports it.
fn result(question: Question, log: &ErrorLog) -> ExitCode {
    let slow = || {
        let (pause, patience) = (PAUSE.as_secs(), PATIENCE.as_secs());
        log.write(
            Level::Warn,
            None,
            format_args!(
                "the server has the signal, but has not said for {pause} seconds whether it took the configuration, and is \
                 waited for up to {patience} seconds: a log or a file may be on a disk, or a pipe, that hangs"
            ),
        );
    };
    let why = match question.wait_or_tell(PATIENCE, PAUSE, slow) {
        Ok(Outcome::Used(notes)) => {
            notes.iter().for_each(|note| log.write(Level::Warn, None, format_args!("{note}")));
            return ExitCode::SUCCESS;
        }
        Ok(Outcome::Refused(why)) => format!("the server did not take the new configuration: {why}"),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            format!("the server has not said within {} seconds whether it took the configuration", PATIENCE.as_secs())
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the server ended before it had said whether it took the configuration".to_owned()
        }
        Err(error) => format!("the server's answer cannot be read ({})", Errno(&error)),
    };
    log.write(Level::Emerg, None, format_args!("{why}"));
    ExitCode::FAILURE
}

fn send(order: Order, pid: i32) -> Result<(), (Level, Error)> {
    let signal = match order {
        Order::Stop => Signal::TERM,
        Order::Quit => Signal::QUIT,
        Order::Reopen => Signal::USR1,
        Order::Reload => Signal::HUP,
    };
    let call = format!("kill({pid}, {})", signal.as_raw());
    // The reader of the pid file accepts only positive numbers: neither a group nor "all processes".
    let pid = Pid::from_raw(pid).ok_or((Level::Error, Error::Gone))?;
    kill_process(pid, signal).map_err(|error| (Level::Alert, Error::call(&call)(error)))
}
