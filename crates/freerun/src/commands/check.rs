//! `-t` and `-T`: the test of the configuration.

use std::io::Write as _;
use std::process::ExitCode;

use freerun_conf::{Problem, Tree};
use freerun_proxy::upstream::{self, Upstreams};
use freerun_runtime::log::{ErrorLog, Level};
use freerun_serve::configuration::parts::FolderNeed;
use freerun_serve::configuration::zones::Zones;
use freerun_serve::upstream::resolver::NamedServers;
use freerun_stream::upstream::Upstreams as StreamUpstreams;

use super::lint;
use super::missing_configuration::tell_ways_on;
use crate::cli::Options;
use crate::configuration::{self, Configuration, KnownFacts, Side};
use crate::error::Error;
use crate::logs::{self, Logs};
use crate::master::listeners;
use crate::settings::main::SandboxMode;
use crate::source::Input;
use crate::source::loader::Recorder;
use crate::{console, kernel_limits, pidfile, temp_folders};

/// Tests the configuration, reports the result, and with `-T` prints every file; with `--lint` it says what is legal and most
/// likely wrong.
pub fn run(options: &Options, input: &Input, log: &ErrorLog) -> ExitCode {
    let mut loader = Recorder::default();
    let tree = freerun_conf::parse(&input.conf, input.globals.as_deref(), &input.conf_prefix, &mut loader);
    let linted = options.lint.then(|| tree.clone());
    let tested = test(options, input, log, (tree, &mut loader));
    let is_clean = linted.is_none_or(|tree| {
        let problems: &[Problem] = tested.as_ref().err().map_or(&[], Vec::as_slice);
        lint::run(&tree, problems, &input.conf_prefix, (options.json, options.quiet))
    });
    if tested.is_ok() && is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tests a configuration whose texts have been read, and reports the result.
///
/// # Errors
/// The test has failed: the problems that have a place in the texts.
fn test(
    options: &Options,
    input: &Input,
    log: &ErrorLog,
    (tree, loader): (Tree, &mut Recorder),
) -> Result<(), Vec<Problem>> {
    let tell = |what: &str| {
        if !options.quiet {
            console::print(&format!("nginx: {what}\n"));
        }
    };
    let syntax_ok = format!("the configuration file {} syntax is ok", input.conf);
    let failed = || {
        console::print(&format!("nginx: configuration file {} test failed\n", input.conf));
    };
    let known = (KnownFacts::default(), Zones::default());
    let configuration = match configuration::build_tree(input, tree, loader, Side::Master, known.0, known.1) {
        Ok(configuration) => configuration,
        Err(failure) => {
            if failure.syntax_ok {
                tell(&syntax_ok);
            }
            console::tell_failure(log, &failure);
            tell_ways_on(options, &input.conf);
            failed();
            return Err(failure.problems.0);
        }
    };
    console::tell_warnings(log, &configuration.warnings, &configuration.sources);
    let unknown = unknown_names(&configuration);
    console::tell_warnings(log, &unknown, &configuration.sources);
    tell(&syntax_ok);
    match surroundings(input, &configuration) {
        Ok(warnings) => console::tell_warnings(log, &warnings, &configuration.sources),
        Err(error) => {
            log.write(Level::Emerg, None, format_args!("{error}"));
            console::tell_help(&error);
            failed();
            return Err(Vec::new());
        }
    }
    let warnings = configuration.warnings.len() + unknown.len();
    if options.strict && warnings > 0 {
        let (many, is) = if warnings == 1 { ("warning", "is an error") } else { ("warnings", "are errors") };
        console::print(&format!("nginx: {warnings} {many}, which {is} with --strict\n"));
        failed();
        return Err(Vec::new());
    }
    tell_sandbox(configuration.main().worker_sandbox, tell);
    tell(&format!("configuration file {} test is successful", input.conf));
    if options.dump {
        // A reader that closes its end early, such as head, does not make the test fail.
        let _ = std::io::stdout().lock().write_all(&freerun_conf::dump(&configuration.sources));
    }
    Ok(())
}

/// Says what the worker's sandbox would lack. A whole one is not worth a line, and tools read those that nginx prints.
fn tell_sandbox(mode: SandboxMode, tell: impl Fn(&str)) {
    match mode {
        SandboxMode::On => {
            for limit in kernel_limits::missing() {
                tell(&format!(
                    "the worker's sandbox will lack \"{}\": the kernel has no {}",
                    limit.name, limit.feature
                ));
            }
        }
        SandboxMode::Log => tell("the worker's sandbox will only log: \"worker_sandbox\" is \"log\""),
        SandboxMode::Off => tell("the worker will have no sandbox: \"worker_sandbox\" is \"off\""),
    }
}

/// Servers and name servers whose names have no address. nginx would not start; here they are left out until they have
/// one.
pub fn unknown_names(configuration: &Configuration) -> Vec<Problem> {
    let parts = &configuration.blueprint.parts;
    let servers = upstream::system_names(&parts.get::<Upstreams>().unwrap_or_default());
    let of_stream = upstream::system_names(&parts.get::<StreamUpstreams>().unwrap_or_default());
    let name_servers = upstream::name_servers(&parts.get::<NamedServers>().unwrap_or_default());
    upstream::unknown(servers.into_iter().chain(of_stream).chain(name_servers))
}

/// Checks the things outside that the configuration needs: logs that can be opened, a pid file that can be written, a
/// user, addresses that can be bound. Returns warnings about things without which it serves.
fn surroundings(input: &Input, configuration: &Configuration) -> Result<Vec<Problem>, Error> {
    logs::open_all(&configuration.logs, &Logs::new())?;
    let identity = configuration.identity().map_err(Error::Configuration)?;
    let folders = &configuration.blueprint.temp_folders;
    let warnings = temp_folders::make(folders, FolderNeed::Unused, identity.as_ref())?;
    configuration.main().pid_path(&input.prefix).map_or(Ok(()), |path| pidfile::check(&path))?;
    let specs: Vec<_> = configuration.blueprint.listeners.iter().map(|spec| (**spec).clone()).collect();
    listeners::try_bind(&specs).map(|()| warnings)
}
