//! Access logs: one line for each subject, in a format of the configuration.

mod escape;
mod format;
mod line;
mod setting;

pub use escape::Escape;
pub use format::{Format, Pieces, Style, push_millis};
pub use line::{Line, Short};
pub use setting::{AccessLog, AccessLogs, Buffering, LogFileCache, LogFormats, Target};
