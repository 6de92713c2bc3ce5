//! The files that logs are written to, and the value of `error_log`.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, parse_size};
use freerun_runtime::log::syslog::Header;
use freerun_runtime::log::{ErrorFormat, ErrorTarget, Level, LogFile, MAX_LINE, MAX_MEMORY, MEMORY, SYSLOG};

use super::syslog::Syslog;
use crate::configuration::log_paths::LogPaths;
use crate::configuration::parts::Paths;

/// The smallest size of a log in memory, which has room for more than one line.
const MIN_MEMORY: u64 = MAX_LINE as u64 + 512;

/// The path that stands for standard error.
pub const STDERR: &str = "stderr";

/// An `error_log` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorLogTarget {
    /// Index of the file in [`LogPaths`].
    pub log: usize,
    /// The least important level that is written.
    pub level: Level,
    /// The header of messages, if the log is a syslog server.
    pub syslog: Option<Arc<Header>>,
    /// The format of the lines.
    pub format: ErrorFormat,
}

impl ErrorLogTarget {
    /// The target with its open file; `logs` are the files that [`LogPaths`] names.
    pub fn open(&self, logs: &[LogFile]) -> Option<ErrorTarget> {
        Some(ErrorTarget {
            file: logs.get(self.log)?.clone(),
            level: self.level,
            syslog: self.syslog.clone(),
            format: self.format,
        })
    }
}

/// The parts of nginx whose lines of the level `debug` can be asked for: here they are all of the level `debug`.
const DEBUG_PARTS: [&str; 7] =
    ["debug_core", "debug_alloc", "debug_mutex", "debug_event", "debug_http", "debug_mail", "debug_stream"];

/// The level of the words behind the file: one level, or several parts of `debug`.
fn level(words: &[&Word]) -> Result<Level, Problem> {
    let is_part = |word: &&Word| DEBUG_PARTS.contains(&word.text.as_str());
    let mut level = None;
    let mut has_level = false;
    for word in words {
        level = Some(match word.text.parse::<Level>() {
            Ok(_) if level.is_some() => {
                return Err(Problem::new(format!("duplicate log level \"{}\"", word.text)).at(word.place));
            }
            Ok(named) => {
                has_level = true;
                named
            }
            Err(()) if is_part(word) && !has_level => Level::Debug,
            Err(()) => {
                return Err(Problem::new(format!("invalid log level \"{}\"", word.text))
                    .at(word.place)
                    .hint("levels are debug, info, notice, warn, error, crit, alert, emerg"));
            }
        });
    }
    Ok(level.unwrap_or(Level::Error))
}

impl Value for ErrorLogTarget {
    const SHAPE: Shape = Shape::at_least(
        1,
        "file | stderr | syslog:server=address[,parameter=value] | memory:size [level] [format=text | json]",
    );

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
        let mut format = None;
        let mut words = Vec::new();
        for word in &directive.args[1..] {
            let Some(named) = word.text.strip_prefix("format=") else {
                words.push(word);
                continue;
            };
            let known = match named {
                "text" => ErrorFormat::Text,
                "json" => ErrorFormat::Json,
                _ => {
                    let problem = Problem::new(format!("invalid log format \"{named}\"")).at(word.place);
                    return Err(problem.hint("formats are text and json"));
                }
            };
            if format.replace(known).is_some() {
                return Err(Problem::new("duplicate log format").at(word.place));
            }
        }
        let (level, format) = (level(&words)?, format.unwrap_or_default());
        Ok(ErrorLogTarget { log: cx.extensions.get_or_default::<LogPaths>().index(&path), level, syslog, format })
    }
}
