//! Destinations of logs: files, standard error, rings in memory, syslog servers.

pub mod client_levels;
mod error_log;
mod setting;
pub mod syslog;

pub use error_log::{ErrorLogTarget, LogPaths, STDERR};
pub use setting::{ErrorLogSettings, LevelErrorLog};
