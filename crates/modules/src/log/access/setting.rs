//! The directives `access_log` and `log_format`.

use freerun_conf::{Cx, Problem, SettingsSet, settings};
use freerun_http::request::Request;
use freerun_serve::logs::access_log::{AccessLogs, LogFileCache, LogFormats};

use super::piece::RequestPiece;

/// The access log if a configuration names none: a path, relative to the prefix. The program puts its compiled-in path
/// into the configuration's context (`cx.extensions`) before it reads the configuration.
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
        /// The files that requests are logged to, and the format.
        ///
        /// The format is `combined`, or a format that `log_format` has defined before. `buffer` gathers lines up to
        /// that size, at most 256k, on each event loop. They are written when the next line does not fit, or when they
        /// are older than `flush`. They are also written when logs are reopened, when a new configuration takes over
        /// and when the process ends. Without `buffer` a line reaches the file within about 20 milliseconds. With `if`,
        /// requests for which the condition is empty or `0` are not logged. A level may have several logs; `off` turns
        /// all logs of its level off.
        ///
        /// `gzip` compresses the gathered lines (64k without `buffer`), at a level from 1 to 9, before they are
        /// written; the file can be read with `zcat`. `syslog:` sends each line as a separate message. A path with
        /// variables is opened for the lines it gets, about 20 milliseconds at a time, or kept open by
        /// `open_log_file_cache`. Its file is made only if the document root of the request exists.
        ///
        /// Lines are written by a separate thread. A file that accepts them too slowly, or not at all, loses lines,
        /// which are counted; requests never wait for it.
        access_log: AccessLogs<Request, RequestPiece> = "logs/access.log combined", in HTTP | SERVER | LOCATION | LOCATION_IF | LIMIT_EXCEPT,
            fidelity = Differs("lines are written off the event loop, about 20 ms late, so the error log tells of a path with variables that cannot be opened once a second, and not of each request; the default path is the one compiled in");
        /// Defines a format for `access_log`: text with variables.
        ///
        /// `escape=default` writes `"`, `\` and everything that is not printable ASCII as `\xHH`, and a variable
        /// without a value as `-`. `escape=json` escapes for strings of JSON, and `escape=none` does not escape. The
        /// format `combined` is predefined.
        ///
        /// freerun has the format `json` too, an object of JSON with what `combined` has, the host, the times, the identifier of
        /// the request and its upstream servers. A configuration may define another format of this name.
        log_format: LogFormats<Request, RequestPiece>, in HTTP;
        /// The log files with variables in their paths that stay open.
        ///
        /// At most `max` files are open; beyond, the least recently used ones are closed. Files that were not used for
        /// `inactive` (10s), or less than `min_uses` times (1) in it, are closed too. After `valid` (60s) the path is
        /// checked for whether it still leads to the open file.
        open_log_file_cache: LogFileCache = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("one cache for the whole process, of 4096 files at most; it is emptied when logs are reopened");
    }
}

/// Opens the default log if these settings use it.
///
/// # Errors
/// It never fails.
pub fn settle(settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
    let path = |cx: &mut Cx| cx.extensions.get_or_default::<DefaultAccessLog>().0.clone();
    settings.get::<AccessLogSettings>().access_log.open_default(path, cx);
    Ok(())
}
