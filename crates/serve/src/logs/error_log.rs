//! The files that logs are written to, and the value of `error_log`.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_size};
use freerun_runtime::log::syslog::Header;
use freerun_runtime::log::{Level, LogFile, MAX_LINE, MAX_MEMORY, MEMORY, SYSLOG, Target};

use super::syslog::Syslog;
use crate::parts::Paths;

/// The smallest size of a log in memory, which has room for more than one line.
const MIN_MEMORY: u64 = MAX_LINE as u64 + 512;

/// The paths of all log files that the configuration names; settings refer to them by index. Lives in the
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLogTarget {
    /// Index of the file in [`LogPaths`].
    pub log: usize,
    /// The least important level that is written.
    pub level: Level,
    /// The header of messages, if the log is a syslog server.
    pub syslog: Option<Arc<Header>>,
}

impl ErrorLogTarget {
    /// The target with its open file; `logs` are the files that [`LogPaths`] names.
    pub fn open(&self, logs: &[LogFile]) -> Option<Target> {
        Some(Target { file: logs.get(self.log)?.clone(), level: self.level, syslog: self.syslog.clone() })
    }
}

impl Value for ErrorLogTarget {
    const SHAPE: Shape =
        Shape::at_least(1, "file | stderr | syslog:server=address[,parameter=value] | memory:size [level]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ErrorLogTarget, Problem> {
        let file = &directive.args[0];
        let mut syslog = None;
        let path = if file.text == STDERR {
            STDERR.to_owned()
        } else if file.text.starts_with(SYSLOG) {
            let server = Syslog::parse(file, cx)?;
            syslog = Some(server.header);
            server.name
        } else if let Some(size) = file.text.strip_prefix(MEMORY) {
            let bytes = parse_size(size).filter(|bytes| *bytes > MIN_MEMORY);
            let bytes = bytes.ok_or_else(|| Problem::new(format!("invalid buffer size \"{size}\"")).at(file.place))?;
            format!("{MEMORY}{}", bytes.min(MAX_MEMORY as u64))
        } else {
            cx.extensions.get_or_default::<Paths>().absolute(&file.text)
        };
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
        Ok(ErrorLogTarget { log: cx.extensions.get_or_default::<LogPaths>().index(&path), level, syslog })
    }
}
