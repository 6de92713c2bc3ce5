//! Why a file could not be opened, and what status that leads to.

use freerun_runtime::files::FileError;
use freerun_runtime::pool::PoolError;
use rustix::io::Errno;

/// Why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The path has a NUL byte (400), or the name of the pool, made of variables, names none (500).
    Status(u16),
    /// The error of the system or of the thread pool.
    File(FileError),
}

impl OpenError {
    /// The status of the response.
    pub fn status(&self) -> u16 {
        match self {
            OpenError::Status(status) => *status,
            OpenError::File(FileError::Pool(PoolError::ClientGone)) => 499,
            OpenError::File(FileError::Pool(_)) => 503,
            OpenError::File(error) => match error.errno().map(Errno::from_raw_os_error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => 404,
                Some(Errno::ACCESS | Errno::LOOP | Errno::PERM) => 403,
                Some(Errno::MFILE | Errno::NFILE) => 503,
                _ => 500,
            },
        }
    }

    /// Whether the file just does not exist.
    pub fn is_missing(&self) -> bool {
        self.status() == 404
    }
}
