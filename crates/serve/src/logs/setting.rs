//! `error_log`, at any level.

use std::sync::OnceLock;

use freerun_conf::{Many, SettingsSet, settings};
use freerun_runtime::log::{ErrorLog, LogFile};

use super::error_log::ErrorLogTarget;

settings! {
    /// The error log.
    #[module = "error_log"]
    pub struct ErrorLogSettings {
        /// Destination of error messages, and the level from which on they are written.
        ///
        /// `syslog:` sends them to a server, as UDP or to a Unix socket. Messages that it does not take are dropped and counted,
        /// and requests and sessions never wait for it. `memory:` keeps the last lines in a ring in the worker's memory,
        /// behind the text `freerun memory log: `, for a debugger or a core dump.
        ///
        /// With `format=json` each line is an object with `time`, `level`, `pid`, `tid`, `connection` if it is about one, and
        /// `message`.
        ///
        /// `debug_core`, `debug_alloc`, `debug_mutex`, `debug_event`, `debug_http`, `debug_mail` and `debug_stream` mean all of
        /// `debug`. nginx takes several of them in one directive.
        error_log: Many<ErrorLogTarget>, in MAIN | HTTP | SERVER | LOCATION | STREAM | STREAM_SERVER,
            fidelity = Differs("a name of a syslog server is looked up once, when the log is opened; one memory log of each size is kept");
    }
}

/// The error log of one level, such as a server or a location, made when it is first written to.
#[derive(Debug, Default)]
pub struct LevelErrorLog(OnceLock<ErrorLog>);

impl LevelErrorLog {
    /// The log that the settings of the level name, or `default`, the log of the main level. `logs` are the open files, in the
    /// order of [`LogPaths`](crate::configuration::log_paths::LogPaths).
    pub fn of(&self, settings: &SettingsSet, logs: &[LogFile], default: &ErrorLog) -> &ErrorLog {
        self.0.get_or_init(|| {
            let targets = &settings.get::<ErrorLogSettings>().error_log;
            if targets.is_empty() {
                return default.clone();
            }
            ErrorLog::new(targets.iter().filter_map(|target| target.open(logs)).collect())
        })
    }
}
