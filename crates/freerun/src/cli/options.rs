//! The options that nginx has, too, read in nginx's own way.
//!
//! nginx reads `-tc FILE`, `-cFILE` and no `--long` ones, and scripts rely on it, so they are parsed by hand.

use std::ffi::OsString;

use freerun_conf::text_of_os;

use super::command_table::{JSON, LINT, STRICT};
use super::usage_error::UsageError;
use crate::paths::Paths;

/// The options that nginx has, too.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether `-?` or `-h` was given.
    pub help: bool,
    /// Whether `-v`, `-V` or `-h` was given.
    pub version: bool,
    /// Whether `-V` was given: print how the binary was built.
    pub build: bool,
    /// Whether `-t` or `-T` was given.
    pub test: bool,
    /// Whether `-T` was given: print the configuration.
    pub dump: bool,
    /// Whether `-q` was given: print errors only.
    pub quiet: bool,
    /// Whether `--strict` was given: a warning makes the test fail.
    pub strict: bool,
    /// Whether `--lint` was given: what is legal and most likely wrong is printed.
    pub lint: bool,
    /// Whether `--json` was given: the lint prints JSON.
    pub json: bool,
    /// The signal to send: `-s`.
    pub signal: Option<Order>,
    /// The prefix of relative paths: `-p`.
    pub prefix: Option<String>,
    /// The error log at the start: `-e`.
    pub error_log: Option<String>,
    /// The configuration file: `-c`.
    pub conf: Option<String>,
    /// Directives of the main context: `-g`.
    pub globals: Option<String>,
}

impl Options {
    /// The paths that these options and the compiled-in defaults give.
    pub fn paths(&self) -> Paths {
        Paths::new(self.prefix.as_deref(), self.conf.as_deref(), self.error_log.as_deref())
    }
}

/// The order that `-s` gives to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End immediately.
    Stop,
    /// End when the requests under way are done.
    Quit,
    /// Open the logs again.
    Reopen,
    /// Read the configuration again.
    Reload,
}

impl Order {
    fn from_name(name: &str) -> Option<Order> {
        Some(match name {
            "stop" => Order::Stop,
            "quit" => Order::Quit,
            "reopen" => Order::Reopen,
            "reload" => Order::Reload,
            _ => return None,
        })
    }
}

/// Reads the arguments of a line that begins with no command.
///
/// # Errors
/// One of them is unknown, or lacks its value.
pub fn parse(args: Vec<OsString>) -> Result<Options, UsageError> {
    let mut options = Options::default();
    let mut args = args.into_iter().map(|arg| text_of_os(&arg).into_owned());
    while let Some(arg) = args.next() {
        let long = match arg.as_str() {
            STRICT => Some(&mut options.strict),
            LINT => Some(&mut options.lint),
            JSON => Some(&mut options.json),
            _ => None,
        };
        if let Some(long) = long {
            *long = true;
            continue;
        }
        let Some(letters) = arg.strip_prefix('-') else {
            return Err(UsageError::InvalidOption(arg));
        };
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            let mut value = |what| {
                let attached = std::mem::replace(&mut rest, "".chars());
                match attached.as_str() {
                    "" => args.next().filter(|next| !next.is_empty()).ok_or(UsageError::Requires(letter, what)),
                    attached => Ok(attached.to_owned()),
                }
            };
            match letter {
                '?' | 'h' => {
                    options.help = true;
                    options.version = true;
                }
                'v' => options.version = true,
                'V' => {
                    options.version = true;
                    options.build = true;
                }
                't' => options.test = true,
                'T' => {
                    options.test = true;
                    options.dump = true;
                }
                'q' => options.quiet = true,
                's' => {
                    let name = value("parameter")?;
                    let order = Order::from_name(&name);
                    options.signal = Some(order.ok_or(UsageError::InvalidOption(format!("-s {name}")))?);
                }
                'p' => options.prefix = Some(value("directory name")?),
                'e' => options.error_log = Some(value("file name")?),
                'c' => options.conf = Some(value("file name")?),
                'g' => options.globals = Some(value("parameter")?),
                other => return Err(UsageError::InvalidOption(other.to_string())),
            }
        }
    }
    // The output of -T and the findings would be one stream.
    let misplaced = [
        (options.strict && !options.test, STRICT),
        (options.lint && (!options.test || options.dump), LINT),
        (options.json && !options.lint, JSON),
    ];
    match misplaced.into_iter().find(|(is_misplaced, _)| *is_misplaced) {
        Some((_, name)) => Err(UsageError::InvalidOption(name.to_owned())),
        None => Ok(options),
    }
}
