//! Errors in the command line, and what would be right.

use std::ffi::OsString;

use thiserror::Error;

/// An invalid command line; the messages are nginx's for nginx's options.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UsageError {
    /// An unknown option, or an argument that is not an option.
    #[error("invalid option: \"{0}\"")]
    InvalidOption(String),
    /// An option at the end of the line that needs an argument.
    #[error("option \"-{0}\" requires {1}")]
    Requires(char, &'static str),
    /// An error in the arguments of one of freerun's own commands.
    #[error("{0}: {1}")]
    Own(&'static str, String),
}

/// The commands that freerun has besides nginx's options.
const COMMANDS: [&str; 4] = ["serve", "reference", "migrate", "explain"];

/// The option that makes a warning an error of `-t`.
pub const STRICT: &str = "--strict";

/// Long options of the program itself.
const PROGRAM_OPTIONS: &[&str] = &["--help", "--version", STRICT];

/// Long options of each command.
const COMMAND_OPTIONS: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "--listen",
            "--port",
            "--tls",
            "--quiet",
            "--hidden",
            "--follow-links",
            "--host",
            "--http",
            "--email",
            "--acme-directory",
            "--acme-ca",
            "--help",
        ],
    ),
    ("migrate", &["--json", "--quiet", "--help"]),
    ("reference", &["--check", "--help"]),
    ("explain", &["--help"]),
];

impl UsageError {
    /// Advice for a line below the message; `given` are the arguments.
    pub fn help(&self, given: &[OsString]) -> Option<String> {
        let see = "\"freerun --help\" shows what there is";
        match self {
            UsageError::InvalidOption(wrong) if wrong == "-" => {
                let long = given.iter().filter_map(|arg| arg.to_str()).find(|arg| arg.starts_with("--"))?;
                let name = long.split_once('=').map_or(long, |(name, _)| name);
                if let Some(near) = freerun_conf::near(name, PROGRAM_OPTIONS.iter().copied()) {
                    return Some(format!("did you mean \"{near}\"? {see}"));
                }
                let near = COMMAND_OPTIONS
                    .iter()
                    .find_map(|(command, options)| Some((command, freerun_conf::near(name, options.iter().copied())?)));
                Some(match near {
                    Some((command, near)) => format!("\"{near}\" is an option of \"freerun {command}\""),
                    None => format!("there is no option \"{name}\"; {see}"),
                })
            }
            UsageError::InvalidOption(wrong) if wrong == STRICT => Some(format!("\"{STRICT}\" goes with \"-t\"")),
            UsageError::InvalidOption(wrong) => Some(match wrong.strip_prefix("-s ") {
                Some(order) => match freerun_conf::near(order, ["stop", "quit", "reopen", "reload"].into_iter()) {
                    Some(near) => format!("did you mean \"-s {near}\"?"),
                    None => "signals are stop, quit, reopen and reload".to_owned(),
                },
                None => match freerun_conf::near(wrong, COMMANDS.into_iter()) {
                    Some(near) => format!("did you mean \"{near}\"? {see}"),
                    None => see.to_owned(),
                },
            }),
            UsageError::Requires(..) => None,
            UsageError::Own(command, told) => {
                let shows = format!("\"freerun {command} --help\" shows its options");
                // lexopt puts the option in such quotes.
                let wrong = told.split('\'').nth(1).filter(|wrong| wrong.starts_with("--"));
                let options = COMMAND_OPTIONS.iter().find(|(name, _)| name == command).map(|(_, options)| *options);
                let near =
                    wrong.and_then(|wrong| freerun_conf::near(wrong, options.unwrap_or_default().iter().copied()));
                Some(match near.filter(|near| Some(*near) != wrong) {
                    Some(near) => format!("did you mean \"{near}\"? {shows}"),
                    None => shows,
                })
            }
        }
    }

    /// The name in front of the message. Tools look for nginx's.
    pub fn speaker(&self) -> &'static str {
        match self {
            UsageError::InvalidOption(_) | UsageError::Requires(..) => "nginx",
            UsageError::Own(..) => "freerun",
        }
    }
}
