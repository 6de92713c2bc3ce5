//! Starts the command that the command line gives.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use freerun_conf::path_of;

use crate::bundle::Input;
use crate::cli::{self, Command, Options, UsageError};
use crate::loader::Recorded;
use crate::master::inherited::Inherited;
use crate::master::{self, Start};
use crate::paths::Paths;
use crate::settings::user::privileged;
use crate::{check, configuration, console, explain, migrate, order, reference, serve, version};

/// The program, unless it is a worker.
pub fn run() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    match cli::parse(given.clone()) {
        Ok(Command::Server(options)) => server(&options),
        Ok(Command::Serve(options)) => serve::run(&options),
        Ok(Command::Reference(options)) => reference::run(&options),
        Ok(Command::Migrate(options)) => migrate::run(&options),
        Ok(Command::Explain(name)) => explain::run(&name),
        Ok(Command::Help) => {
            print(&(version::versions() + &version::help()));
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            print(&version::versions());
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::print(&format!("{}: {error}\n", error.speaker()));
            if let Some(help) = error.help(&given) {
                console::print(&format!("help: {help}\n"));
            }
            match error {
                UsageError::Own("migrate", _) => ExitCode::from(migrate::NO_REPORT),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Prints to stdout, of which a reader such as head may not want all.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn server(options: &Options) -> ExitCode {
    if options.version {
        eprint!("{}", version::versions());
        if options.help {
            eprint!("{}", version::help());
        }
        if options.build {
            let names: Vec<&str> = configuration::modules().iter().map(|module| module.name).collect();
            eprint!("{}", version::build(&names));
        }
        // nginx continues if a test is asked for as well.
        if !options.test {
            return ExitCode::SUCCESS;
        }
    }
    // Before anything is opened. A test, or a signal to the server, is none of the servers that sockets are for.
    let inherited = match options.test || options.signal.is_some() {
        true => Inherited::default(),
        false => Inherited::take(),
    };
    let paths = Paths::new(options);
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
        return order::run(order, &input, &log);
    }
    console::append_to_files();
    let start =
        Start { input: input.clone(), embedded: None::<Recorded>, secrets: None, inherited, log, on_ready: None };
    match master::run(start) {
        Ok(()) => ExitCode::SUCCESS,
        Err(()) => {
            tell_ways_on(options, &input);
            ExitCode::FAILURE
        }
    }
}

/// A text for a user who just tries the program and has no configuration.
const WAYS_ON: &str = "\
there is no configuration at the default place; either
  freerun serve DIR   serves a folder without one, or
  freerun -c FILE     reads another one
";

/// Prints possible next steps, if no `-c` was given and there is no file at the default path.
pub fn tell_ways_on(options: &Options, input: &Input) {
    eprint!("{}", ways_on(options, input));
}

fn ways_on(options: &Options, input: &Input) -> &'static str {
    let absent = options.conf.is_none() && !path_of(&input.conf).exists();
    if absent { WAYS_ON } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_both_ways_on_are_named() {
        let input = |conf: &str| Input {
            conf: conf.to_owned(),
            globals: None,
            prefix: "/".into(),
            conf_prefix: "/".into(),
            error_log: "stderr".into(),
            privileged: false,
        };
        let plain = Options::default();
        let given = Options { conf: Some("x".into()), ..Options::default() };
        assert!(ways_on(&plain, &input("/no/such/file")).contains("freerun serve DIR"));
        assert!(ways_on(&plain, &input("/no/such/file")).contains("freerun -c FILE"));
        assert_eq!(ways_on(&plain, &input("/")), "");
        assert_eq!(ways_on(&given, &input("/no/such/file")), "");
    }
}
