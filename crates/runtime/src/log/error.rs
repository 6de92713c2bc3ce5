//! The error log: levels, nginx's line format, several targets.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use freerun_conf::{bytes_of, display_only, into_bytes};

use super::clock;
use super::file::LogFile;
use super::level::Level;
use super::recent_lines;
use super::syslog::Header;

/// The longest error line in bytes, its newline included; the rest is cut off, as in nginx.
pub const MAX_LINE: usize = 2048;

/// The files of one level's `error_log` directives, each with its threshold. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ErrorLog {
    shared: Arc<Targets>,
}

/// A target of an error log.
#[derive(Clone, Debug)]
pub struct ErrorTarget {
    /// The file.
    pub file: LogFile,
    /// The least important level that is written.
    pub level: Level,
    /// The beginning of the messages, if this is a syslog server.
    pub syslog: Option<Arc<Header>>,
    /// The format of the lines.
    pub format: ErrorFormat,
}

/// The format of an error log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    /// nginx's: `2026/11/21 07:05:00 [error] PID#TID: *CONNECTION message`.
    #[default]
    Text,
    /// An object of JSON.
    Json,
}

impl From<(LogFile, Level)> for ErrorTarget {
    fn from((file, level): (LogFile, Level)) -> ErrorTarget {
        ErrorTarget { file, level, syslog: None, format: ErrorFormat::Text }
    }
}

#[derive(Debug, Default)]
struct Targets {
    list: Vec<ErrorTarget>,
    /// The widest threshold among the targets; `None` without targets.
    widest: Option<Level>,
    /// Also print lines up to `warn` to stderr as `nginx: [level] …`, as nginx does until it is a daemon.
    console: bool,
}

impl ErrorLog {
    /// A log that writes a line to every target whose threshold admits it.
    pub fn new<T: Into<ErrorTarget>>(targets: Vec<T>) -> ErrorLog {
        let list: Vec<ErrorTarget> = targets.into_iter().map(T::into).collect();
        let widest = list.iter().map(|target| target.level).max();
        ErrorLog { shared: Arc::new(Targets { list, widest, console: false }) }
    }

    /// A log that drops everything.
    pub fn none() -> ErrorLog {
        ErrorLog::default()
    }

    /// Returns the log with stderr as a further target for lines up to `warn`, as `nginx: [emerg] …` — unless a target
    /// is stderr already. For start-up and `-t`.
    pub fn with_console(&self) -> ErrorLog {
        let console = !self.shared.list.iter().any(|target| target.file.is_stderr());
        ErrorLog { shared: Arc::new(Targets { list: self.shared.list.clone(), widest: self.shared.widest, console }) }
    }

    /// Whether the log also prints on stderr.
    pub fn has_console(&self) -> bool {
        self.shared.console
    }

    /// Returns the log without printing on stderr.
    pub fn without_console(&self) -> ErrorLog {
        ErrorLog {
            shared: Arc::new(Targets { list: self.shared.list.clone(), widest: self.shared.widest, console: false }),
        }
    }

    /// The path of the first file among the targets.
    pub fn path(&self) -> Option<&str> {
        let files = self.shared.list.iter().filter(|target| target.syslog.is_none() && !target.file.is_stderr());
        files.map(|target| target.file.name()).next()
    }

    /// Whether a line of this level would be written to any target. Ask before costly formatting.
    #[inline]
    pub fn enabled(&self, level: Level) -> bool {
        self.shared.widest.is_some_and(|widest| level <= widest) || (self.shared.console && level <= Level::Warn)
    }

    /// Whether a line of this level is written about a client for whom `own`, or else each target's, is the least important
    /// level that is.
    #[inline]
    pub fn admits(&self, level: Level, own: Option<Level>) -> bool {
        match own {
            None => self.enabled(level),
            Some(own) => level <= own,
        }
    }

    /// Writes a line like [`ErrorLog::write`] about a client for whom `own`, or else each target's, is the least important
    /// level that is written.
    pub fn write_about(&self, level: Level, own: Option<Level>, connection: Option<u64>, message: fmt::Arguments<'_>) {
        if self.admits(level, own) {
            self.write_line(level, own, connection, message);
        }
    }

    /// Writes one line `2026/11/21 07:05:00 [error] PID#TID: *CONNECTION message`; never waits (on a threaded
    /// writer). Control characters in the message come out as `\xHH`, so that a client cannot forge lines; bytes that are not
    /// UTF-8 ([`text_of`](freerun_conf::text_of)) as they are.
    pub fn write(&self, level: Level, connection: Option<u64>, message: fmt::Arguments<'_>) {
        if self.enabled(level) {
            self.write_line(level, None, connection, message);
        }
    }

    /// Writes a line like [`ErrorLog::write`], and keeps it among the [recent lines](super::recent_lines) even if no
    /// target admits it. For what `status` has to show.
    pub fn write_and_keep(&self, level: Level, connection: Option<u64>, message: fmt::Arguments<'_>) {
        self.write_line(level, None, connection, message);
    }

    fn write_line(&self, level: Level, own: Option<Level>, connection: Option<u64>, message: fmt::Arguments<'_>) {
        let mut line = ErrorLine { text: String::with_capacity(160) };
        let now = clock::now().secs;
        let time = clock::error_time(now);
        let pid = rustix::process::getpid().as_raw_nonzero();
        let tid = rustix::thread::gettid().as_raw_nonzero();
        // Writing into a String cannot fail, and `Line` cuts off a text that is too long.
        let _ = write!(line, "{} [{level}] {pid}#{tid}: ", std::str::from_utf8(&time).unwrap_or_default());
        if let Some(number) = connection {
            let _ = write!(line, "*{number} ");
        }
        let head = line.text.len();
        let _ = line.write_fmt(message);
        let message = head..line.text.len();
        line.text.push('\n');
        if self.shared.console && level <= Level::Warn {
            super::file::write_stderr(&bytes_of(&format!("nginx: [{level}] {}\n", &line.text[message.clone()])));
        }
        let admits = |target: &&ErrorTarget| level <= own.unwrap_or(target.level);
        let is_json = |target: &ErrorTarget| target.format == ErrorFormat::Json;
        let json = self.shared.list.iter().filter(admits).any(is_json).then(|| {
            let message = &line.text[message.start..line.text.len() - 1];
            bytes::Bytes::from(json_line(now, level, (pid, tid), connection, message))
        });
        let bytes = bytes::Bytes::from(into_bytes(line.text));
        if level <= recent_lines::LEAST {
            recent_lines::keep(&bytes);
        }
        for target in self.shared.list.iter().filter(admits) {
            let bytes = json.as_ref().filter(|_| is_json(target)).unwrap_or(&bytes);
            match &target.syslog {
                None => target.file.write(bytes.clone()),
                Some(header) => {
                    let mut message = Vec::with_capacity(bytes.len() + 64);
                    header.push(level, &mut message);
                    message.extend_from_slice(bytes.trim_ascii_end());
                    target.file.write(message)
                }
            };
        }
    }
}

/// A line as an object of JSON, with its newline. Bytes of the message that are not UTF-8 are shown as U+FFFD.
fn json_line(
    secs: i64,
    level: Level,
    (pid, tid): (impl fmt::Display, impl fmt::Display),
    connection: Option<u64>,
    message: &str,
) -> String {
    let mut out = String::with_capacity(message.len() + 128);
    let time = clock::time_iso8601(secs);
    let time = std::str::from_utf8(&time).unwrap_or_default();
    // Writing into a String cannot fail.
    let _ = write!(out, "{{\"time\":\"{time}\",\"level\":\"{level}\",\"pid\":{pid},\"tid\":{tid}");
    if let Some(number) = connection {
        let _ = write!(out, ",\"connection\":{number}");
    }
    out.push_str(",\"message\":\"");
    for char in display_only(message).chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\t' => out.push_str("\\t"),
            // Other control characters were escaped when the message was written.
            char => out.push(char),
        }
    }
    out.push_str("\"}\n");
    out
}

/// Collects a line, escaping control characters and cutting at [`MAX_LINE`].
struct ErrorLine {
    text: String,
}

impl fmt::Write for ErrorLine {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for c in part.chars() {
            if self.text.len() + 4 >= MAX_LINE {
                break;
            }
            if c.is_ascii_control() && c != '\t' {
                let _ = write!(self.text, "\\x{:02X}", c as u32);
            } else {
                self.text.push(c);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_json_keep_quotes_and_bytes_apart() {
        let line = json_line(0, Level::Error, (1, 2), Some(3), "a \"b\" \\x0A\t/\u{e9}");
        let expected = ",\"level\":\"error\",\"pid\":1,\"tid\":2,\"connection\":3,\"message\":\"a \\\"b\\\" \\\\x0A\\t/\u{e9}\"}\n";
        assert!(line.starts_with("{\"time\":\"19") && line.ends_with(expected), "{line}");
        let odd = freerun_conf::text_of(b"\xff").into_owned();
        assert!(json_line(0, Level::Warn, (1, 2), None, &odd).ends_with("\"tid\":2,\"message\":\"\u{fffd}\"}\n"));
    }
}
