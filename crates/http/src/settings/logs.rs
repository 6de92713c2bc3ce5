//! `error_log`, at any level.

use freerun_conf::{Cx, Many, Node, Problem, Shape, Value, settings};
use freerun_runtime::log::Level;

use crate::generation::Paths;

/// Paths of all log files that the configuration names; settings refer to them by index. Lives in the
/// configuration's context.
#[derive(Debug, Default)]
pub struct LogPaths(pub Vec<String>);

impl LogPaths {
    /// The index of a path, added if it is new.
    pub fn index(&mut self, path: &str) -> usize {
        match self.0.iter().position(|known| known == path) {
            Some(index) => index,
            None => {
                self.0.push(path.to_owned());
                self.0.len() - 1
            }
        }
    }
}

/// The path that stands for standard error.
pub const STDERR: &str = "stderr";

/// One `error_log` directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorLogTarget {
    /// Index of the file in [`LogPaths`].
    pub log: usize,
    /// The least important level that is written.
    pub level: Level,
}

impl Value for ErrorLogTarget {
    const SHAPE: Shape = Shape::at_least(1, "file | stderr [level]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ErrorLogTarget, Problem> {
        let file = &directive.args[0];
        if file.text.starts_with("syslog:") || file.text.starts_with("memory:") {
            let (kind, _) = file.text.split_once(':').unwrap_or_default();
            return Err(Problem::new(format!("error_log to \"{kind}:\" is not supported yet")).at(file.place));
        }
        let level = match directive.args.get(1) {
            None => Level::Error,
            Some(word) => word.text.parse().map_err(|_| {
                Problem::new(format!("invalid log level \"{}\"", word.text))
                    .at(word.place)
                    .hint("levels are debug, info, notice, warn, error, crit, alert, emerg")
            })?,
        };
        if let Some(second) = directive.args.get(2) {
            return Err(Problem::new(format!("duplicate log level \"{}\"", second.text)).at(second.place));
        }
        let path = match file.text.as_str() {
            STDERR => STDERR.to_owned(),
            path => cx.extensions.get_or_default::<Paths>().absolute(path),
        };
        Ok(ErrorLogTarget { log: cx.extensions.get_or_default::<LogPaths>().index(&path), level })
    }
}

settings! {
    /// The error log.
    #[module = "error_log"]
    pub struct ErrorLogSettings {
        /// Where errors are written, and from which level on.
        error_log: Many<ErrorLogTarget>, in MAIN | HTTP | SERVER | LOCATION;
    }
}
