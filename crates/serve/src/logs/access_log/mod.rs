//! Access logs: one line for each subject, in a format of the configuration, gathered on its loop and written by the log
//! thread.

pub mod buffer;
mod escape;
mod format;
mod line;
mod predefined;
mod reader;
mod setting;
mod write;

pub use escape::Escape;
pub use format::{Format, ProtocolPieces, Style, push_millis};
pub use line::{LogLine, Short};
pub use predefined::{COMBINED, JSON};
pub use reader::{LineFormat, LineValues};
pub use setting::{AccessLog, AccessLogs, Buffering, LogFileCache, LogFormats, LogTarget};
pub use write::write;
