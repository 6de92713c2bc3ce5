//! Logs: `error_log`, `access_log`, and their destinations (files, standard error, rings in memory, syslog servers).

pub mod access_log;
mod error_log;
mod setting;
pub mod syslog;

pub use error_log::{ErrorLogTarget, STDERR};
pub use setting::{ErrorLogSettings, LevelErrorLog};
