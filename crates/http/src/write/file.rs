//! Parts of sending a file as a body that are the same for every protocol.

use std::sync::Arc;

use freerun_runtime::files::OpenFile;

use crate::content::open;
use crate::files::read_error::ReadError;
use crate::log_error;
use crate::request::Request;
use crate::write::WriteError;

/// A file range up to this size is read, if it is in memory, and sent in one system call with the bytes in front of it.
/// That is cheaper than further calls.
pub const SMALL_FILE: u64 = 32 * 1024;

/// Logs that the file has become shorter than the announced length.
pub fn cut_short(request: &Request, file: &Arc<OpenFile>) -> WriteError {
    open::forget(request, file);
    log_error!(request, Alert, "file was truncated while it was sent to the client");
    WriteError::Body
}

/// Logs that a piece of a file could not be read.
pub fn unreadable(request: &Request, file: &Arc<OpenFile>, error: &ReadError) -> WriteError {
    if let ReadError::Truncated = error {
        return cut_short(request, file);
    }
    log_error!(request, Crit, "{error} while sending response to client");
    WriteError::Body
}
