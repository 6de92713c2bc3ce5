//! Logs that never stop an event loop.
//!
//! A [`LogFile`] takes finished lines (or whole buffers of lines) and returns at once. One thread of the process, the
//! [`Writer`]'s, gathers the waiting lines and writes them with `writev`. If a write takes long, another thread goes on
//! with the other logs (at most [`MAX_LOG_THREADS`] in all). The lines that wait for one file are bounded by
//! [`MAX_WAITING`] bytes. Beyond that, lines are dropped and counted, and one line in the error log reports their
//! number once the file takes writes again. A full disk, an I/O error or a blocked pipe therefore costs lines, never a
//! request.
//!
//! The master and `-t` have no loops to protect and want their lines on disk before they exit. A [`Writer`] made with
//! [`Writer::direct`] has no thread and writes each line where it is called.

pub mod clock;
mod errno;
mod error;
mod file;
mod keeper;
mod level;
pub mod recent_lines;
mod relief;
mod sink;
pub mod syslog;
mod variable_paths;
mod writer;

pub use errno::Errno;
pub use error::{ErrorFormat, ErrorLog, ErrorTarget, MAX_LINE};
pub use file::{LogFile, MAX_WAITING};
pub use level::Level;
pub use relief::MAX_LOG_THREADS;
pub use sink::{MAX_MEMORY, MEMORY, NAMED, SECRETS, SYSLOG, syslog_socket};
pub use variable_paths::{Destination, Keep};
pub use writer::Writer;

#[cfg(test)]
mod tests;
