//! What every configuration has while it serves, whatever it serves.

use std::sync::Arc;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile};
use freerun_runtime::pool::PoolSet;

use crate::parts::{Parts, Paths};
use crate::zones::Zones;

/// Logs, pools, files, zones and what modules keep: a part of a generation.
pub struct Services {
    /// What relative paths begin at.
    pub paths: Paths,
    /// State that goes on from one generation to the next.
    pub zones: Zones,
    /// What modules keep with it.
    pub parts: Parts,
    /// The open log files, in the order of [`LogPaths`](crate::logs::LogPaths).
    pub logs: Vec<LogFile>,
    /// The error log of the main level.
    pub error_log: ErrorLog,
    /// The thread pools.
    pub pools: PoolSet,
    /// The file operations.
    pub files: Arc<FileSystem>,
}
