//! The values of `access_log`, `log_format` and `open_log_file_cache`.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{Contexts, Cx, Node, Problem, Setting, Shape, Value, Word, parse_seconds, parse_size, parse_time};
use freerun_runtime::log::syslog::Header;
use freerun_runtime::log::{Keep, Level, LogFile, NAMED, SYSLOG};

use super::format::{self, Format, ProtocolPieces};
use crate::configuration::log_paths::LogPaths;
use crate::configuration::parts::{Paths, WrittenPlaces};
use crate::configuration::services::Services;
use crate::logs::syslog::Syslog;
use crate::values::Template;
use crate::values::subject::Subject;

/// The `log_format` directives; their formats are in the configuration's context.
pub struct LogFormats<S, P>(PhantomData<fn(&S, &P)>);

// Not derived, because that would demand the trait of the subject.
impl<S, P> Clone for LogFormats<S, P> {
    fn clone(&self) -> LogFormats<S, P> {
        *self
    }
}

impl<S, P> Copy for LogFormats<S, P> {}

impl<S, P> Default for LogFormats<S, P> {
    fn default() -> LogFormats<S, P> {
        LogFormats(PhantomData)
    }
}

impl<S, P> fmt::Debug for LogFormats<S, P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LogFormats")
    }
}

impl<S: Subject, P: ProtocolPieces<S>> Setting for LogFormats<S, P> {
    const SHAPE: Shape = Shape::at_least(2, "name [escape=default | json | none] string ...");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        format::define::<S, P>(directive, cx).map(|()| LogFormats(PhantomData))
    }
}

/// The destination of a log. The numbers are indexes of [`LogPaths`].
pub enum LogTarget<S> {
    /// A file.
    File(usize),
    /// A syslog server.
    Syslog(usize, Arc<Header>, Level),
    /// A file for each value of this path.
    Variables(usize, Template<S>),
    /// The default log. Its index is set when a location turns out to use it: otherwise the file must not be made.
    Default(Arc<OnceLock<usize>>),
}

impl<S> fmt::Debug for LogTarget<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogTarget::File(index) => write!(formatter, "file {index}"),
            LogTarget::Syslog(index, _, level) => write!(formatter, "syslog {index} {level:?}"),
            LogTarget::Variables(_, path) => write!(formatter, "files {path:?}"),
            LogTarget::Default(index) => write!(formatter, "default {index:?}"),
        }
    }
}

/// The parameters `buffer=` and `flush=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffering {
    /// The size of the buffer in bytes.
    pub size: u64,
    /// The longest time that a line is kept; `None` means until the buffer is full.
    pub flush: Option<Duration>,
    /// The level of compression.
    pub gzip: Option<u8>,
}

/// An `access_log` directive.
#[derive(Debug)]
pub struct AccessLog<S, P> {
    /// The destination.
    pub target: LogTarget<S>,
    /// The format of the line.
    pub format: Arc<Format<S, P>>,
    /// The condition for logging a subject: the parameter `if=`.
    pub condition: Option<Template<S>>,
    /// The buffering of this file, known when the whole configuration has been read.
    buffering: Arc<OnceLock<Buffering>>,
}

impl<S> Clone for LogTarget<S> {
    fn clone(&self) -> LogTarget<S> {
        match self {
            LogTarget::File(index) => LogTarget::File(*index),
            LogTarget::Syslog(index, header, level) => LogTarget::Syslog(*index, header.clone(), *level),
            LogTarget::Variables(index, path) => LogTarget::Variables(*index, path.clone()),
            LogTarget::Default(index) => LogTarget::Default(index.clone()),
        }
    }
}

impl<S, P> Clone for AccessLog<S, P> {
    fn clone(&self) -> AccessLog<S, P> {
        AccessLog {
            target: self.target.clone(),
            format: self.format.clone(),
            condition: self.condition.clone(),
            buffering: self.buffering.clone(),
        }
    }
}

impl<S: Subject, P: ProtocolPieces<S>> AccessLog<S, P> {
    /// The open file.
    pub fn file<'g>(&self, services: &'g Services) -> Option<&'g LogFile> {
        let index = match &self.target {
            LogTarget::File(index) | LogTarget::Syslog(index, ..) | LogTarget::Variables(index, _) => *index,
            LogTarget::Default(index) => *index.get()?,
        };
        services.logs.get(index)
    }

    /// The buffering of the file, if it has any.
    pub fn buffering(&self) -> Option<Buffering> {
        self.buffering.get().copied()
    }

    fn parse(directive: &Node, cx: &mut Cx) -> Result<AccessLog<S, P>, Problem> {
        let path = &directive.args[0];
        // The path as errors name it.
        let mut shown = path.text.clone();
        let target = if path.text.starts_with(SYSLOG) {
            let Syslog { name, header, severity } = Syslog::parse(path, cx)?;
            LogTarget::Syslog(cx.extensions.get_or_default::<LogPaths>().index(&name), header, severity)
        } else {
            let absolute = cx.extensions.get_or_default::<Paths>().absolute(&path.text);
            if path.text.contains('$') {
                let template = Template::parse(&Word { text: absolute.clone(), ..path.clone() }, cx)?;
                cx.extensions.get_or_default::<WrittenPlaces>().add_template(&absolute);
                shown = absolute;
                LogTarget::Variables(cx.extensions.get_or_default::<LogPaths>().index(NAMED), template)
            } else {
                LogTarget::File(cx.extensions.get_or_default::<LogPaths>().index(&absolute))
            }
        };
        let format = match directive.args.get(1) {
            Some(word) => format::find(word, directive, cx)?,
            None => first_format(directive, cx)?,
        };
        let (mut condition, mut size, mut flush, mut gzip) = (None, None, None, None);
        for word in directive.args.iter().skip(2) {
            let fault = |what: &str, value: &str| Problem::new(format!("invalid {what} \"{value}\"")).at(word.place);
            match word.text.split_once('=') {
                Some(("buffer", value)) => {
                    let parsed = parse_size(value).filter(|size| *size > 0);
                    size = Some(parsed.ok_or_else(|| fault("buffer size", value))?);
                }
                Some(("flush", value)) => {
                    let parsed = parse_time(value).filter(|time| !time.is_zero());
                    flush = Some(parsed.ok_or_else(|| fault("flush time", value))?);
                }
                Some(("if", value)) => {
                    let value = Word { text: value.to_owned(), place: word.place, quoted: word.quoted };
                    condition = Some(Template::parse(&value, cx)?);
                }
                Some(("gzip", level)) => match level.as_bytes() {
                    [digit @ b'1'..=b'9'] => gzip = Some(digit - b'0'),
                    _ => return Err(fault("compression level", level)),
                },
                None if word.text == "gzip" => gzip = Some(1),
                _ => return Err(Problem::invalid_parameter(directive, word)),
            }
        }
        if gzip.is_some() {
            size = size.or(Some(PACKED_SIZE));
        }
        let buffering = size.map(|size| Buffering { size, flush, gzip });
        if flush.is_some() && buffering.is_none() {
            return Err(Problem::new(format!("no buffer is defined for access_log \"{shown}\"")));
        }
        let index = match &target {
            LogTarget::File(index) => *index,
            LogTarget::Variables(..) if buffering.is_some() => {
                return Err(Problem::new("buffered logs cannot have variables in name"));
            }
            LogTarget::Syslog(..) if buffering.is_some() => {
                return Err(Problem::new("logs to syslog cannot be buffered"));
            }
            LogTarget::Default(_) | LogTarget::Syslog(..) | LogTarget::Variables(..) => {
                return Ok(AccessLog { target, format, condition, buffering: Arc::default() });
            }
        };
        // The file has one buffer for all logs that write to it.
        let known = cx.extensions.get_or_default::<FileBuffering>().0.entry(index).or_default().clone();
        if let Some(buffering) = buffering
            && *known.get_or_init(|| buffering) != buffering
        {
            let message = format!("access_log \"{}\" already defined with conflicting parameters", path.text);
            return Err(Problem::new(message));
        }
        Ok(AccessLog { target, format, condition, buffering: known })
    }
}

/// The format of a log that names none.
fn first_format<S: Subject, P: ProtocolPieces<S>>(directive: &Node, cx: &mut Cx) -> Result<Arc<Format<S, P>>, Problem> {
    match P::PREDEFINED.first() {
        Some((name, _)) => format::find(&Word::synthetic(*name), directive, cx),
        None => Err(Problem::new("log format is not specified")),
    }
}

/// The size of the buffer of a compressed log without a `buffer=`.
const PACKED_SIZE: u64 = 64 * 1024;

/// Buffering of each log file that has any.
#[derive(Default)]
struct FileBuffering(HashMap<usize, Arc<OnceLock<Buffering>>>);

/// The descriptors that are kept for logs with variables in their paths: `open_log_file_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogFileCache(pub Option<Keep>);

impl Value for LogFileCache {
    const SHAPE: Shape = Shape::between(1, 4, "max=N [inactive=time] [min_uses=N] [valid=time] | off");

    fn parse(directive: &Node, _: &mut Cx) -> Result<LogFileCache, Problem> {
        let (mut off, mut max, mut min_uses) = (false, 0, 1);
        let (mut inactive, mut valid) = (10, 60);
        for word in &directive.args {
            let invalid = || {
                let message = format!("invalid \"{}\" parameter \"{}\"", directive.name.text, word.text);
                Problem::new(message).at(word.place)
            };
            let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
            match word.text.split_once('=') {
                Some(("max", value)) => max = number(value).ok_or_else(invalid)?,
                Some(("inactive", value)) => inactive = parse_seconds(value).ok_or_else(invalid)?,
                Some(("min_uses", value)) => min_uses = number(value).ok_or_else(invalid)?,
                Some(("valid", value)) => valid = parse_seconds(value).ok_or_else(invalid)?,
                None if word.text == "off" => off = true,
                _ => return Err(invalid()),
            }
        }
        if off {
            return Ok(LogFileCache(None));
        }
        if max == 0 {
            let message = format!("\"{}\" must have \"max\" parameter", directive.name.text);
            return Err(Problem::new(message));
        }
        let (inactive, valid) = (seconds(inactive), seconds(valid));
        Ok(LogFileCache(Some(Keep { max: usize::try_from(max).unwrap_or(usize::MAX), inactive, min_uses, valid })))
    }
}

/// A duration of whole seconds, or as good as for ever.
fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(u32::MAX.into()))
}

/// The logs of a level.
#[derive(Debug)]
pub struct AccessLogs<S, P> {
    /// `access_log off`, whatever logs the level has besides.
    off: bool,
    list: Arc<Vec<AccessLog<S, P>>>,
}

impl<S, P> Clone for AccessLogs<S, P> {
    fn clone(&self) -> AccessLogs<S, P> {
        AccessLogs { off: self.off, list: self.list.clone() }
    }
}

impl<S, P> Default for AccessLogs<S, P> {
    fn default() -> AccessLogs<S, P> {
        AccessLogs { off: false, list: Arc::default() }
    }
}

impl<S: Subject, P: ProtocolPieces<S>> AccessLogs<S, P> {
    /// The logs to write to.
    pub fn logs(&self) -> &[AccessLog<S, P>] {
        if self.off { &[] } else { &self.list }
    }

    /// Opens the default log at `path`, if the level uses it.
    pub fn open_default(&self, path: impl FnOnce(&mut Cx) -> String, cx: &mut Cx) {
        let unopened = |log: &AccessLog<S, P>| match &log.target {
            LogTarget::Default(index) if index.get().is_none() => Some(index.clone()),
            _ => None,
        };
        // A level has the default log once at most.
        if let Some(index) = self.logs().iter().find_map(unopened) {
            let path = path(cx);
            let path = cx.extensions.get_or_default::<Paths>().absolute(&path);
            let _ = index.set(cx.extensions.get_or_default::<LogPaths>().index(&path));
        }
    }
}

impl<S: Subject, P: ProtocolPieces<S>> Setting for AccessLogs<S, P> {
    const SHAPE: Shape = Shape::at_least(
        1,
        "path | syslog:server=address[,parameter=value] [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | off",
    );

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let mut logs = previous.unwrap_or_default();
        // The directive is not allowed at the main level: only the default is read there.
        if cx.context == Contexts::MAIN {
            let format = first_format(directive, cx)?;
            let target = LogTarget::Default(Arc::default());
            logs.list = Arc::new(vec![AccessLog { target, format, condition: None, buffering: Arc::default() }]);
        } else if directive.args[0].text == "off" {
            if let Some(extra) = directive.args.get(1) {
                return Err(Problem::invalid_parameter(directive, extra));
            }
            logs.off = true;
        } else {
            let log = AccessLog::parse(directive, cx)?;
            Arc::make_mut(&mut logs.list).push(log);
        }
        Ok(logs)
    }
}
