//! `access_log` and `log_format`: a line for each session.
//!
//! <https://nginx.org/en/docs/stream/ngx_stream_log_module.html>

use freerun_conf::{SettingsSet, group, settings};
use freerun_serve::logs::access_log::{
    self, AccessLogs, LogFileCache, LogFormats, LogLine, ProtocolPieces, Style, push_millis,
};
use freerun_serve::values::VariableReference;

use crate::module::Module;
use crate::session::Session;
use crate::session::handler::{Handler, HandlerRun, Phase, PhaseOutcome};

settings! {
    /// The access log of sessions: one line for each, written when it has ended.
    #[module = "stream/log"]
    pub struct AccessLogSettings {
        /// The files that sessions are logged to, and the format, which `log_format` has defined before.
        ///
        /// The parameters are the same as for `access_log` in `http`. A server may have several logs; `off` turns all
        /// logs of its level off.
        access_log: AccessLogs<Session, SessionPiece>, in STREAM | STREAM_SERVER,
            fidelity = Differs("lines are written off the event loop, about 20 ms late");
        /// Defines a format for `access_log`: text with variables.
        ///
        /// `escape=` is as in `http`. The format `json` is predefined (freerun's own), an object of JSON; a configuration may define
        /// another one of this name.
        log_format: LogFormats<Session, SessionPiece>, in STREAM;
        /// The log files with variables in their paths that stay open, as in `http`.
        open_log_file_cache: LogFileCache = "off", in STREAM | STREAM_SERVER,
            fidelity = Differs("one cache for the whole process, of 4096 files at most; it is emptied when logs are reopened");
    }
}

/// The module.
pub static MODULE: Module = Module {
    name: "stream/log",
    groups: &[group::<AccessLogSettings>()],
    handlers: &[Handler { phase: Phase::Log, wanted, run: HandlerRun::Now(write) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<AccessLogSettings>().access_log.logs().is_empty()
}

fn write(session: &Session) -> PhaseOutcome {
    let settings = session.settings();
    let log = settings.get::<AccessLogSettings>();
    let keep = log.open_log_file_cache.0;
    access_log::write(session, &log.access_log, &session.loop_state, session.generation.number, keep, |_| None);
    PhaseOutcome::Declined
}

/// The parts of a line that are written directly from the session, without a value in between.
#[derive(Debug)]
pub enum SessionPiece {
    /// The value of `$connection`.
    Connection,
    /// The value of `$session_time`.
    SessionTime,
    /// The value of `$status`.
    Status,
}

/// The format `json`. What may be missing, or be a list, is a string.
const JSON: &str = concat!(
    r#"{"time":"$time_iso8601","remote_addr":"$remote_addr","remote_port":"$remote_port","protocol":"$protocol","#,
    r#""server_addr":"$server_addr","server_port":"$server_port","status":"$status","#,
    r#""bytes_received":$bytes_received,"bytes_sent":$bytes_sent,"session_time":$session_time,"#,
    r#""upstream_addr":"$upstream_addr","upstream_connect_time":"$upstream_connect_time"}"#,
);

impl ProtocolPieces<Session> for SessionPiece {
    const PREDEFINED: &'static [(&'static str, &'static str)] = &[];
    const PRESETS: &'static [(&'static str, &'static str)] = &[("json", JSON)];

    fn of(name: &str, reference: VariableReference<Session>) -> Result<SessionPiece, VariableReference<Session>> {
        Ok(match name {
            "connection" => SessionPiece::Connection,
            "session_time" => SessionPiece::SessionTime,
            "status" => SessionPiece::Status,
            _ => return Err(reference),
        })
    }

    fn push(&self, session: &Session, _: &Style, line: &mut LogLine<'_>) {
        match self {
            SessionPiece::Connection => line.push_number(session.number),
            SessionPiece::SessionTime => {
                let time = session.time();
                push_millis(time.as_secs(), time.subsec_millis(), line);
            }
            SessionPiece::Status => line.push_three(session.status().into()),
        }
    }
}
