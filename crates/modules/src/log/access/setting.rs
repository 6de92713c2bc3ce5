//! The directives `access_log` and `log_format`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{Contexts, Cx, Node, Problem, Setting, SettingsSet, Shape, Word, parse_size, parse_time, settings};
use freerun_http::generation::{Generation, Paths};
use freerun_http::settings::logs::LogPaths;
use freerun_http::template::Template;
use freerun_runtime::log::LogFile;

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
        /// Lines are written by a thread of their own. A file that takes them too slowly, or not at all, loses lines,
        /// which are counted; requests never wait for it.
        access_log: AccessLogs = "logs/access.log combined", in HTTP | SERVER | LOCATION | LOCATION_IF | LIMIT_EXCEPT,
            fidelity = Differs("`gzip`, `syslog:` and variables in the path are not there yet; lines are written off the event loop, about 20 ms late; the default path is the one compiled in");
        /// Defines a format for `access_log`: text with variables.
        ///
        /// `escape=default` writes `"`, `\` and everything that is not printable ASCII as `\xHH` and a variable without
        /// a value as `-`; `escape=json` escapes for strings of JSON; `escape=none` does not escape. The format
        /// `combined` is predefined.
        log_format: FormatsWritten, in HTTP;
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

/// The file of a log.
#[derive(Debug, Clone)]
pub enum Target {
    /// An index of [`LogPaths`].
    Named(usize),
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
}

/// One `access_log` directive.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Where to.
    target: Target,
    /// The line.
    pub format: Arc<Format>,
    /// `if=`
    pub condition: Option<Template>,
    /// Whether lines are gathered.
    pub buffering: Option<Buffering>,
}

impl AccessLog {
    /// The open file.
    pub fn file<'g>(&self, generation: &'g Generation) -> Option<&'g LogFile> {
        let index = match &self.target {
            Target::Named(index) => *index,
            Target::Default(index) => *index.get()?,
        };
        generation.logs.get(index)
    }

    fn parse(directive: &Node, cx: &mut Cx) -> Result<AccessLog, Problem> {
        let path = &directive.args[0];
        if path.text.starts_with("syslog:") {
            return Err(unsupported(path, "\"access_log\" to syslog is"));
        }
        if path.text.contains('$') {
            Template::parse(path, cx)?;
            return Err(unsupported(path, "variables in the path of \"access_log\" are"));
        }
        let absolute = cx.extensions.get_or_default::<Paths>().absolute(&path.text);
        let index = cx.extensions.get_or_default::<LogPaths>().index(&absolute);
        let format = match directive.args.get(1) {
            Some(word) => format::find(word, directive, cx)?,
            None => format::find(&Word::synthetic("combined"), directive, cx)?,
        };
        let (mut condition, mut size, mut flush) = (None, None, None);
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
                Some(("gzip", level)) if !matches!(level.as_bytes(), [b'1'..=b'9']) => {
                    return Err(fault("compression level", level));
                }
                Some(("gzip", _)) => return Err(unsupported(word, "\"gzip\" of \"access_log\" is")),
                None if word.text == "gzip" => return Err(unsupported(word, "\"gzip\" of \"access_log\" is")),
                _ => return Err(Problem::invalid_parameter(directive, word)),
            }
        }
        let buffering = size.map(|size| Buffering { size, flush });
        if flush.is_some() && buffering.is_none() {
            return Err(Problem::new(format!("no buffer is defined for access_log \"{}\"", path.text)));
        }
        if let Some(buffering) = buffering {
            // The file has one buffer, whoever writes to it.
            let known = cx.extensions.get_or_default::<Buffered>().0.entry(index).or_insert(buffering);
            if *known != buffering {
                let message = format!("access_log \"{}\" already defined with conflicting parameters", path.text);
                return Err(Problem::new(message));
            }
        }
        Ok(AccessLog { target: Target::Named(index), format, condition, buffering })
    }
}

/// Buffering of each log file that has any.
#[derive(Default)]
struct Buffered(HashMap<usize, Buffering>);

fn unsupported(word: &Word, what: &str) -> Problem {
    Problem::new(format!("{what} not supported yet")).at(word.place)
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
    const SHAPE: Shape = Shape::at_least(1, "path [format [buffer=size] [flush=time] [if=condition]] | off");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let mut logs = previous.unwrap_or_else(|| AccessLogs { off: false, list: Arc::default() });
        // The directive is not allowed at the main level: there it can only be the default that is read.
        if cx.context == Contexts::MAIN {
            let format = format::find(&Word::synthetic("combined"), directive, cx)?;
            let target = Target::Default(Arc::default());
            logs.list = Arc::new(vec![AccessLog { target, format, condition: None, buffering: None }]);
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
