//! The command without a name: runs the server, or answers what nginx's options ask for.

use std::process::ExitCode;

use super::missing_configuration::tell_ways_on;
use super::{check, signal};
use crate::cli::{Options, help};
use crate::master::inherited::InheritedSockets;
use crate::master::{self, Start};
use crate::settings::user::privileged;
use crate::source::Input;
use crate::source::loader::RecordedTexts;
use crate::{configuration, console, version};

/// Runs the server until its end, or does what another option asks for.
pub fn run(options: &Options) -> ExitCode {
    if options.version {
        eprint!("{}", version::versions());
        if options.help {
            eprint!("{}", help::short());
        }
        if options.build {
            let names: Vec<&str> = configuration::modules().iter().map(|module| module.name).collect();
            eprint!("{}", version::build(&names));
        }
        // nginx continues if `-t` is given as well.
        if !options.test {
            return ExitCode::SUCCESS;
        }
    }
    // Before anything is opened. A test, or a signal to the server, is none of the servers that sockets are for.
    let inherited =
        if options.test || options.signal.is_some() { InheritedSockets::default() } else { InheritedSockets::take() };
    let paths = options.paths();
    let log = match console::initial_log(&paths) {
        Ok(log) => log,
        Err(error) => {
            console::print(&format!("nginx: [alert] could not open error log file: {error}\n"));
            freerun_runtime::log::ErrorLog::none().with_console()
        }
    };
    let input = Input {
        conf: paths.conf.clone(),
        globals: options.globals.clone(),
        prefix: paths.prefix.clone(),
        conf_prefix: paths.conf_prefix.clone(),
        error_log: paths.error_log.clone(),
        privileged: privileged(),
    };
    if options.test {
        return check::run(options, &input, &log);
    }
    if let Some(order) = options.signal {
        return signal::run(order, &input, &log);
    }
    console::append_to_files();
    let start =
        Start { input: input.clone(), embedded: None::<RecordedTexts>, secrets: None, inherited, log, on_ready: None };
    match master::run(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(()) => {
            tell_ways_on(options, &input.conf);
            ExitCode::FAILURE
        }
    }
}
