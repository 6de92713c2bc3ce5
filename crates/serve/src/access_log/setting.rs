//! The directives `access_log` and `log_format`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{
    Contexts, Cx, Node, Problem, Setting, SettingsSet, Shape, Value, Word, parse_seconds, parse_size, parse_time,
    settings,
};
use freerun_http::generation::{Generation, Paths};
use freerun_http::settings::logs::LogPaths;
use freerun_http::template::Template;
use freerun_runtime::log::syslog::Header;
use freerun_runtime::log::{Keep, Level, LogFile, NAMED, SYSLOG};
use freerun_serve::logs::syslog::Syslog;

use super::format::{self, Format};

/// The access log where a configuration names none: a path, relative to the prefix. The program puts the one it was
/// compiled with into the configuration's context (`cx.extensions`) before it reads the configuration.
#[derive(Debug, Clone)]
pub struct DefaultAccessLog(pub String);

impl Default for DefaultAccessLog {
    fn default() -> Self {
        DefaultAccessLog("logs/access.log".to_owned())
    }
}

settings! {
    /// The access log: one line for each request, written when it has ended.
    #[module = "log"]
    pub struct AccessLogSettings {
        /// Where requests are logged, and how.
        ///
        /// The format is `combined`, or one that `log_format` has defined above. `buffer` gathers lines up to that size,
        /// at most 256k, on each event loop; they are written when the next line does not fit, when they are older than
        /// `flush`, when logs are reopened, when a new configuration takes over and when the process ends. Without
        /// `buffer` a line reaches the file within about 20 milliseconds. With `if`, requests for which the
        /// condition is empty or `0` are not logged. Several logs may stand at one level; `off` turns all logs of its
        /// level off.
        ///
        /// `gzip` packs what is gathered (64k where `buffer` says nothing), at a level from 1 to 9, before it is written;
        /// the file can be read with `zcat`. `syslog:` sends each line as a message of its own. A path with variables is
        /// opened for the lines it gets, about 20 milliseconds at a time, or kept open by `open_log_file_cache`; the file is
        /// made only if the document root of the request is there.
        ///
        /// Lines are written by a thread of their own. A file that takes them too slowly, or not at all, loses lines,
        /// which are counted; requests never wait for it.
        access_log: AccessLogs = "logs/access.log combined", in HTTP | SERVER | LOCATION | LOCATION_IF | LIMIT_EXCEPT,
            fidelity = Differs("lines are written off the event loop, about 20 ms late, so the error log tells of a path with variables that cannot be opened once a second, and not of each request; the default path is the one compiled in");
        /// Defines a format for `access_log`: text with variables.
        ///
        /// `escape=default` writes `"`, `\` and everything that is not printable ASCII as `\xHH` and a variable without
        /// a value as `-`; `escape=json` escapes for strings of JSON; `escape=none` does not escape. The format
        /// `combined` is predefined.
        log_format: FormatsWritten, in HTTP;
        /// Which log files with variables in their paths stay open.
        ///
        /// At most `max` of them, of which the least recently used are closed; those that were not used for `inactive` (10s),
        /// or less than `min_uses` times (1) in it, are closed too. After `valid` (60s) it is looked whether the path still
        /// leads to the open file.
        open_log_file_cache: LogFileCache = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("one cache for the whole process, of 4096 files at most; it is emptied when logs are reopened");
    }
}

/// `log_format` directives; what they define is in the configuration's context.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormatsWritten;

impl Setting for FormatsWritten {
    const SHAPE: Shape = Shape::at_least(2, "name [escape=default | json | none] string ...");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        format::define(directive, cx).map(|()| FormatsWritten)
    }
}

/// Where a log goes. Numbers are indexes of [`LogPaths`].
#[derive(Debug, Clone)]
pub enum Target {
    /// A file.
    File(usize),
    /// A syslog server.
    Syslog(usize, Arc<Header>, Level),
    /// A file for each value of this path.
    Variables(usize, Template),
    /// The default log. Its index is set once it turns out that some location uses it: it must not be made otherwise.
    Default(Arc<OnceLock<usize>>),
}

/// `buffer=` and `flush=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes that are gathered.
    pub size: u64,
    /// The longest that a line is kept; `None`: until the buffer is full.
    pub flush: Option<Duration>,
    /// The level that lines are packed at.
    pub gzip: Option<u8>,
}

/// One `access_log` directive.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Where to.
    pub target: Target,
    /// The line.
    pub format: Arc<Format>,
    /// `if=`
    pub condition: Option<Template>,
    /// Whether lines of this file are gathered: known when all of the configuration has been read.
    buffering: Arc<OnceLock<Buffering>>,
}

impl AccessLog {
    /// The open file.
    pub fn file<'g>(&self, generation: &'g Generation) -> Option<&'g LogFile> {
        let index = match &self.target {
            Target::File(index) | Target::Syslog(index, ..) | Target::Variables(index, _) => *index,
            Target::Default(index) => *index.get()?,
        };
        generation.logs.get(index)
    }

    /// Whether lines are gathered.
    pub fn buffering(&self) -> Option<Buffering> {
        self.buffering.get().copied()
    }

    fn parse(directive: &Node, cx: &mut Cx) -> Result<AccessLog, Problem> {
        let path = &directive.args[0];
        // As errors name it.
        let mut shown = path.text.clone();
        let target = if path.text.starts_with(SYSLOG) {
            let Syslog { name, header, severity } = Syslog::parse(path, cx)?;
            Target::Syslog(cx.extensions.get_or_default::<LogPaths>().index(&name), header, severity)
        } else {
            let absolute = cx.extensions.get_or_default::<Paths>().absolute(&path.text);
            if path.text.contains('$') {
                let template = Template::parse(&Word { text: absolute.clone(), ..path.clone() }, cx)?;
                shown = absolute;
                Target::Variables(cx.extensions.get_or_default::<LogPaths>().index(NAMED), template)
            } else {
                Target::File(cx.extensions.get_or_default::<LogPaths>().index(&absolute))
            }
        };
        let format = match directive.args.get(1) {
            Some(word) => format::find(word, directive, cx)?,
            None => format::find(&Word::synthetic("combined"), directive, cx)?,
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
            Target::File(index) => *index,
            Target::Variables(..) if buffering.is_some() => {
                return Err(Problem::new("buffered logs cannot have variables in name"));
            }
            Target::Syslog(..) if buffering.is_some() => {
                return Err(Problem::new("logs to syslog cannot be buffered"));
            }
            Target::Default(_) | Target::Syslog(..) | Target::Variables(..) => {
                return Ok(AccessLog { target, format, condition, buffering: Arc::default() });
            }
        };
        // The file has one buffer, whoever writes to it.
        let known = cx.extensions.get_or_default::<Buffered>().0.entry(index).or_default().clone();
        if let Some(buffering) = buffering
            && *known.get_or_init(|| buffering) != buffering
        {
            let message = format!("access_log \"{}\" already defined with conflicting parameters", path.text);
            return Err(Problem::new(message));
        }
        Ok(AccessLog { target, format, condition, buffering: known })
    }
}

/// What is gathered of a log that is packed, where nothing else is said.
const PACKED_SIZE: u64 = 64 * 1024;

/// Buffering of each log file that has any.
#[derive(Default)]
struct Buffered(HashMap<usize, Arc<OnceLock<Buffering>>>);

/// `open_log_file_cache`
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

/// So long, or as good as for ever.
fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(u32::MAX.into()))
}

/// The logs of a level.
#[derive(Debug, Clone)]
pub struct AccessLogs {
    /// `access_log off`: whatever else the level says.
    off: bool,
    list: Arc<Vec<AccessLog>>,
}

impl AccessLogs {
    /// The logs to write to.
    pub fn logs(&self) -> &[AccessLog] {
        if self.off { &[] } else { &self.list }
    }
}

impl Setting for AccessLogs {
    const SHAPE: Shape = Shape::at_least(
        1,
        "path | syslog:server=address[,parameter=value] [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | off",
    );

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let mut logs = previous.unwrap_or_else(|| AccessLogs { off: false, list: Arc::default() });
        // The directive is not allowed at the main level: there it can only be the default that is read.
        if cx.context == Contexts::MAIN {
            let format = format::find(&Word::synthetic("combined"), directive, cx)?;
            let target = Target::Default(Arc::default());
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

/// Has the default log opened if these settings use it.
///
/// # Errors
/// None.
pub fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    for log in settings.get::<AccessLogSettings>().access_log.logs() {
        if let Target::Default(index) = &log.target
            && index.get().is_none()
        {
            let path = cx.extensions.get_or_default::<DefaultAccessLog>().0.clone();
            let path = cx.extensions.get_or_default::<Paths>().absolute(&path);
            let _ = index.set(cx.extensions.get_or_default::<LogPaths>().index(&path));
        }
    }
    Ok(())
}
