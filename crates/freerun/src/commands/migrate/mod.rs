//! `freerun migrate`: says what an installation of nginx would be here, before anything is started, and tries it beside nginx.

mod concern;
mod machine;
mod report;
mod survey;
#[cfg(test)]
mod tests;
mod trial;

use std::process::ExitCode;

use super::missing_configuration::tell_ways_on;
use crate::cli::{Migrate, Options, help};
use crate::console;
use crate::quoting::shell_word;
use crate::source::Input;
use survey::Survey;
use trial::TrialServer;

/// The exit code if there is no report.
pub const NO_REPORT: u8 = 3;

/// Prints the report.
pub fn run(migrate: &Migrate) -> ExitCode {
    if migrate.help {
        console::output(&help::command("migrate"));
        return ExitCode::SUCCESS;
    }
    let paths = migrate.options.paths();
    let input = Input {
        conf: paths.conf,
        globals: migrate.options.globals.clone(),
        prefix: paths.prefix,
        conf_prefix: paths.conf_prefix,
        error_log: paths.error_log,
        // Servers are started with the rights of root, whoever asks for the report.
        privileged: true,
    };
    let no_report = if migrate.run.is_some() { survey::Verdict::Missing as u8 } else { NO_REPORT };
    let server = match migrate.run.as_ref().map(|_| TrialServer::prepare()).transpose() {
        Ok(server) => server,
        Err(told) => {
            console::print(&format!("freerun: {told}\n"));
            return ExitCode::from(no_report);
        }
    };
    let mut survey = match Survey::of(&input, &mut survey::disk()) {
        Ok(survey) => survey,
        Err(problem) => {
            console::print(&format!("freerun: {}\n", problem.message));
            match migrate.options.conf {
                Some(_) => tell_ways_on(&migrate.options, &input.conf),
                None => console::print("help: \"freerun migrate -c FILE\" reads another configuration\n"),
            }
            return ExitCode::from(no_report);
        }
    };
    if let Some((run, server)) = migrate.run.as_ref().zip(server)
        && let Some(code) = trial::run(migrate, run, server, &input, &survey)
    {
        return code;
    }
    // Another file than the installed one says nothing of how this machine is set up.
    if !paths.conf_given {
        survey.warnings.extend(machine::warnings(&mut survey::disk()));
    }
    if migrate.json {
        match serde_json::to_string_pretty(&survey) {
            Ok(text) => console::output(&format!("{text}\n")),
            Err(error) => {
                eprintln!("freerun: {error}");
                return ExitCode::from(NO_REPORT);
            }
        }
    } else {
        console::output(&report::text(&survey, &start(&migrate.options), &input.conf_prefix, migrate.quiet));
    }
    ExitCode::from(survey.verdict() as u8)
}

/// The command that starts a server with the configuration.
fn start(options: &Options) -> String {
    let mut command = "freerun".to_owned();
    for (option, value) in [("-p", &options.prefix), ("-c", &options.conf), ("-g", &options.globals)] {
        if let Some(value) = value {
            command += &format!(" {option} {}", shell_word(value));
        }
    }
    command
}
