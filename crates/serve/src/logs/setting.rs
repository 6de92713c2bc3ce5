//! `error_log`, at any level.

use freerun_conf::{Many, settings};

use super::error_log::ErrorLogTarget;

settings! {
    /// The error log.
    #[module = "error_log"]
    pub struct ErrorLogSettings {
        /// Where errors are written, and from which level on.
        ///
        /// `syslog:` sends them to a server, as UDP or to a Unix socket; messages that it does not take are dropped and counted,
        /// and requests and sessions never wait for it. `memory:` keeps the last lines in a ring in the worker's memory,
        /// behind the text `freerun memory log: `, for a debugger or a core dump.
        error_log: Many<ErrorLogTarget>, in MAIN | HTTP | SERVER | LOCATION | STREAM | STREAM_SERVER,
            fidelity = Differs("a name of a syslog server is looked up once, when the log is opened; one memory log of each size is kept");
    }
}
