//! Errors in the command line, and what would be right.

use std::ffi::OsString;

use thiserror::Error;

use super::command_table::{CommandRow, JSON, LINT, ORDERS, STRICT, commands, program};

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

/// The long options of a command, or of the program itself.
fn long_options(row: &CommandRow) -> Vec<&'static str> {
    row.options.iter().filter_map(|option| option.long).collect()
}

impl UsageError {
    /// Advice for a line below the message; `given` are the arguments.
    pub fn help(&self, given: &[OsString]) -> Option<String> {
        let see = "\"freerun --help\" shows what there is";
        match self {
            UsageError::InvalidOption(wrong) if wrong == "-" => {
                let long = given.iter().filter_map(|arg| arg.to_str()).find(|arg| arg.starts_with("--"))?;
                let name = long.split_once('=').map_or(long, |(name, _)| name);
                if let Some(near) = freerun_conf::near(name, long_options(&program()).into_iter()) {
                    return Some(format!("did you mean \"{near}\"? {see}"));
                }
                let near = commands()
                    .iter()
                    .find_map(|row| Some((row.name, freerun_conf::near(name, long_options(row).into_iter())?)));
                Some(match near {
                    Some((command, near)) => format!("\"{near}\" is an option of \"freerun {command}\""),
                    None => format!("there is no option \"{name}\"; {see}"),
                })
            }
            UsageError::InvalidOption(wrong) if wrong == STRICT || wrong == LINT => {
                Some(format!("\"{wrong}\" goes with \"-t\""))
            }
            UsageError::InvalidOption(wrong) if wrong == JSON => {
                Some(format!("\"{JSON}\" goes with \"-t {LINT}\" and with \"freerun migrate\""))
            }
            UsageError::InvalidOption(wrong) => Some(match wrong.strip_prefix("-s ") {
                Some(order) => match freerun_conf::near(order, ORDERS.into_iter()) {
                    Some(near) => format!("did you mean \"-s {near}\"?"),
                    None => "signals are stop, quit, reopen and reload".to_owned(),
                },
                None => match freerun_conf::near(wrong, commands().iter().map(|row| row.name)) {
                    Some(near) => format!("did you mean \"{near}\"? {see}"),
                    None => see.to_owned(),
                },
            }),
            UsageError::Requires(..) => None,
            UsageError::Own(command, told) => {
                let shows = format!("\"freerun {command} --help\" shows its options");
                // lexopt puts the option in such quotes.
                let wrong = told.split('\'').nth(1).filter(|wrong| wrong.starts_with("--"));
                let options = commands().iter().find(|row| row.name == *command).map(long_options).unwrap_or_default();
                let near = wrong.and_then(|wrong| freerun_conf::near(wrong, options.into_iter()));
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
