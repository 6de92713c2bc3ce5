//! Why a file could not be opened, and what that means for the answer.

use freerun_runtime::files::FileError;
use freerun_runtime::pool::PoolError;
use rustix::io::Errno;

/// Why a file could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The path has a NUL byte, or the pool's name made of variables names none: 400 or 500.
    Status(u16),
    /// What the system or the pool said.
    File(FileError),
}

impl OpenError {
    /// The status of the answer.
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

    /// Whether it just is not there.
    pub fn is_missing(&self) -> bool {
        self.status() == 404
    }
}
