//! Starts the command that the command line gives.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use freerun_conf::{path_of, text_of_os};

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
            console::output(&(version::versions() + &version::help()));
            ExitCode::SUCCESS
        }
        Ok(Command::Version) => {
            console::output(&version::versions());
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
            tell_ways_on(options, &input.conf);
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

/// Prints possible next steps, if there is no file at the path `conf`, which was not given or is below another folder than the
/// current one.
pub fn tell_ways_on(options: &Options, conf: &str) {
    let here = std::env::current_dir().unwrap_or_default();
    console::print(&ways_on(options, conf, &here).unwrap_or_default());
}

fn ways_on(options: &Options, conf: &str, here: &Path) -> Option<String> {
    if path_of(conf).exists() {
        return None;
    }
    let Some(given) = &options.conf else { return Some(WAYS_ON.to_owned()) };
    let found = here.join(path_of(given));
    let found = text_of_os(found.as_os_str());
    (options.prefix.is_none() && *found != *conf && path_of(&found).is_file()).then(|| {
        format!("help: a relative path begins in the prefix, as with nginx; the file of this folder is {found}\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_both_ways_on_are_named() {
        let plain = Options::default();
        let told = ways_on(&plain, "/no/such/file", Path::new("/")).expect("there is no file");
        assert!(told.contains("freerun serve DIR") && told.contains("freerun -c FILE"), "{told}");
        assert_eq!(ways_on(&plain, "/", Path::new("/")), None);
    }

    #[test]
    fn a_file_of_the_current_folder_is_named() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let given = |name: &str| Options { conf: Some(name.into()), ..Options::default() };
        let told = ways_on(&given("Cargo.toml"), "/no/such/Cargo.toml", here).expect("it is there");
        assert!(told.ends_with("/freerun/Cargo.toml\n"), "{told}");
        assert_eq!(ways_on(&given("x"), "/no/such/x", here), None);
        let prefix = Some("/no".into());
        assert_eq!(ways_on(&Options { prefix, ..given("Cargo.toml") }, "/no/Cargo.toml", here), None);
    }
}
