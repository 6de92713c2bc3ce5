//! Access of a started cache to its disk.

use std::ffi::CString;
use std::sync::Arc;

use freerun_runtime::files::{FileError, FileSystem};
use freerun_runtime::log::Level;
use freerun_runtime::pool::ThreadPool;

use crate::health::{Health, Out};
use crate::reporter::Reporter;

/// The disk of a cache.
pub(crate) struct Disk {
    pub(crate) files: Arc<FileSystem>,
    /// The pool for work that belongs to no request, and for requests without a pool (`aio off`).
    pub(crate) pool: Arc<ThreadPool>,
    pub(crate) health: Arc<Health>,
    reporter: Arc<Reporter>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Disk").field("health", &self.health).finish_non_exhaustive()
    }
}

impl Disk {
    pub(crate) fn new(folder: CString, files: Arc<FileSystem>, pool: Arc<ThreadPool>, reporter: Arc<Reporter>) -> Disk {
        let say = reporter.clone();
        let report = move |change: Option<Out>| match change {
            Some(why) => say.tell(Level::Crit, &format!("its disk is not used any more: {why}")),
            None => say.tell(Level::Notice, "its disk is used again"),
        };
        let health = Health::new(folder, files.clone(), pool.clone(), Some(Box::new(report)));
        Disk { files, pool, health, reporter }
    }

    /// Reports that an object could not be stored.
    pub(crate) fn trouble(&self, error: &FileError, path: &CString) {
        self.health.failed(error);
        // When the disk is out, that was already reported.
        if self.health.figures().out.is_none() {
            let why = error.describe(path.to_bytes());
            self.reporter.tell(Level::Crit, &format!("{why} while storing a response"));
        }
    }
}
