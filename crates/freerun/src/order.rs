//! `-s`: sends an order to a running master.

use std::process::ExitCode;

use freerun_runtime::log::{ErrorLog, Level};
use rustix::process::{Pid, Signal, kill_process};

use crate::bundle::Input;
use crate::cli::Order;
use crate::configuration::{self, Side};
use crate::error::Error;
use crate::loader::Recorder;
use crate::{console, pidfile};

/// Reads the configuration for the path of the pid file, as nginx does, and sends the signal.
pub fn run(order: Order, input: &Input, log: &ErrorLog) -> ExitCode {
    let configuration = match configuration::read(input, &mut Recorder::default(), Side::Master) {
        Ok(configuration) => configuration,
        Err(failure) => {
            console::tell_failure(log, &failure);
            return ExitCode::FAILURE;
        }
    };
    log.write(Level::Notice, None, format_args!("signal process started"));
    let Some(path) = configuration.main().pid_path(&input.prefix) else {
        log.write(Level::Error, None, format_args!("\"pid off\" leaves no file that tells whom to signal"));
        return ExitCode::FAILURE;
    };
    let sent = match pidfile::read(&path) {
        Ok(pid) => send(order, pid),
        Err(error) => Err((Level::Error, error)),
    };
    match sent {
        Ok(()) => ExitCode::SUCCESS,
        Err((level, error)) => {
            log.write(level, None, format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
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
