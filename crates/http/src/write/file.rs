//! What sending a file as a body has in common, whatever the protocol.

use std::io;
use std::sync::Arc;

use freerun_runtime::files::OpenFile;

use crate::content::open;
use crate::log_error;
use crate::request::Request;
use crate::write::WriteError;

/// A file range up to this size is read, if it is in memory, and sent with what is in front of it in one system call: that is
/// cheaper than further calls.
pub const SMALL_FILE: u64 = 32 * 1024;

/// Logs that the file has become shorter than the announced length.
pub fn cut_short(request: &Request, file: &Arc<OpenFile>) -> WriteError {
    open::forget(request, file);
    log_error!(request, Alert, "file was truncated while it was sent to the client");
    WriteError::Body
}

/// Logs that a piece of a file could not be read.
pub fn unreadable(request: &Request, file: &Arc<OpenFile>, error: &io::Error) -> WriteError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return cut_short(request, file);
    }
    log_error!(request, Crit, "{error} while sending response to client");
    WriteError::Body
}
