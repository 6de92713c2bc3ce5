//! Access logs: a line for each subject, in a format that the configuration writes.

mod escape;
mod format;
mod line;
mod setting;

pub use escape::Escape;
pub use format::{Format, Pieces, Style, push_millis};
pub use line::{Line, Short};
pub use setting::{AccessLog, AccessLogs, Buffering, LogFileCache, LogFormats, Target};
