//! Reasons why a file could not be opened, and the statuses that they lead to.

use freerun_proto::Status;
use freerun_runtime::files::FileError;
use freerun_runtime::pool::PoolError;
use rustix::io::Errno;

/// The reason why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The path has a NUL byte (400), or the name of the pool, made of variables, names none (500).
    Status(Status),
    /// The error of the system or of the thread pool.
    File(FileError),
}

impl OpenError {
    /// The status of the response.
    pub fn status(&self) -> Status {
        match self {
            OpenError::Status(status) => *status,
            OpenError::File(FileError::Pool(PoolError::ClientGone)) => Status::CLIENT_CLOSED_REQUEST,
            OpenError::File(FileError::Pool(_)) => Status::SERVICE_UNAVAILABLE,
            OpenError::File(error) => match error.errno().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Status::NOT_FOUND,
                Some(Errno::ACCESS | Errno::LOOP | Errno::PERM) => Status::FORBIDDEN,
                Some(Errno::MFILE | Errno::NFILE) => Status::SERVICE_UNAVAILABLE,
                _ => Status::INTERNAL_SERVER_ERROR,
            },
        }
    }

    /// Whether the file just does not exist.
    pub fn is_missing(&self) -> bool {
        self.status() == Status::NOT_FOUND
    }
}
