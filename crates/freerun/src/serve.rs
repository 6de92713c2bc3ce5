//! `freerun serve`: serves a folder without a configuration, special permissions or files of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use freerun_runtime::log::{Errno, ErrorLog};

use crate::bundle::Input;
use crate::cli::Serve;
use crate::loader::Recorded;
use crate::logs::STDERR;
use crate::master::listeners;
use crate::master::{self, Start};
use crate::settings::user::privileged;
use crate::version;

/// The configuration. The folder is its prefix, so that no character of the folder's name has a meaning in it.
const CONFIGURATION: &str = include_str!("../assets/serve.conf");

/// The types of files, by their names' endings.
const TYPES: &str = include_str!("../assets/mime.types");

/// The name of the configuration in messages.
const NAME: &str = "serve.conf";

/// Serves until a signal ends it.
pub fn run(options: &Serve) -> ExitCode {
    if options.help {
        print!("{}", version::serve_help());
        return ExitCode::SUCCESS;
    }
    let told = |message: String| {
        eprintln!("freerun: {message}");
        ExitCode::FAILURE
    };
    let shown = options.dir.to_string_lossy();
    let dir = match fs::canonicalize(&options.dir).and_then(|dir| fs::read_dir(&dir).map(|_| dir)) {
        Ok(dir) => dir,
        Err(error) => return told(format!("\"{shown}\" is not a folder that can be served ({})", Errno(&error))),
    };
    let Some(prefix) = dir.to_str() else { return told(format!("the name \"{shown}\" is not UTF-8")) };
    let prefix = if prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") };

    let log = ErrorLog::none().with_console();
    // The address is bound here, so that `--listen 127.0.0.1:0` can report the port that it got.
    let (adopted, address) = match listeners::bind_plain(options.listen, &log) {
        Ok(bound) => bound,
        Err(error) => return told(error.to_string()),
    };
    let start = Start {
        input: Input {
            conf: NAME.to_owned(),
            globals: None,
            prefix,
            conf_prefix: String::new(),
            error_log: STDERR.to_owned(),
            privileged: privileged(),
        },
        embedded: Some(recorded(address)),
        adopted: Some(adopted),
        log,
        on_ready: Some(Box::new(move || {
            // The process that started this one may not read stdout.
            let _ = writeln!(
                std::io::stdout(),
                "freerun: serving {} at http://{address}/ (status: http://{address}/status)",
                dir.display()
            );
        })),
    };
    if master::run(start).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The texts of the configuration, with the address filled in. An address has no character that would need quotes.
fn recorded(address: SocketAddr) -> Recorded {
    let conf = CONFIGURATION.replace("{{listen}}", &address.to_string());
    let files = [(NAME, conf.as_str()), ("mime.types", TYPES)];
    Recorded {
        files: files.into_iter().map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect(),
        globs: BTreeMap::new(),
        hosts: BTreeMap::new(),
        secrets: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{self, Side};
    use crate::error::Error;
    use crate::loader::Replay;

    #[test]
    fn the_embedded_configuration_is_good() -> Result<(), Error> {
        for address in ["127.0.0.1:8080", "[::1]:81"] {
            let texts = recorded(address.parse().unwrap());
            let input = Input {
                conf: NAME.to_owned(),
                globals: None,
                prefix: "/srv/$HOME;}{/".to_owned(),
                conf_prefix: String::new(),
                error_log: STDERR.to_owned(),
                privileged: false,
            };
            let read = configuration::read(&input, &mut Replay(&texts), Side::Master);
            let configuration = read.map_err(|f| Error::Configuration(f.problems.render(&f.sources, "")))?;
            let names: Vec<_> = configuration.blueprint.listeners().map(|spec| spec.name.clone()).collect();
            assert_eq!(names, [address]);
            assert_eq!(configuration.logs, [STDERR]);
            assert!(!configuration.main().daemon && !configuration.main().master_process);
            assert_eq!(configuration.main().pid_path("/"), None);
        }
        Ok(())
    }
}
