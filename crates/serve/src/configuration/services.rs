//! The parts of every serving configuration that do not depend on what it serves.

use std::sync::Arc;

use freerun_runtime::files::{FileSystem, SocketPaths};
use freerun_runtime::log::{ErrorLog, LogFile};
use freerun_runtime::pool::PoolSet;

use crate::configuration::parts::{Parts, Paths};
use crate::configuration::zones::Zones;

/// Logs, pools, files, zones and states of modules: a part of a generation.
pub struct Services {
    /// The folders that relative paths begin at.
    pub paths: Paths,
    /// The state that passes from one generation to the next.
    pub zones: Zones,
    /// The states that modules keep with the generation.
    pub parts: Parts,
    /// The open log files, in the order of [`LogPaths`](crate::configuration::log_paths::LogPaths).
    pub logs: Vec<LogFile>,
    /// The error log of the main level.
    pub error_log: ErrorLog,
    /// The thread pools.
    pub pools: PoolSet,
    /// The file operations.
    pub files: Arc<FileSystem>,
}

impl Services {
    /// The lookup of Unix sockets' paths, for the client with this number.
    pub fn socket_paths(&self, client: u64) -> SocketPaths<'_> {
        SocketPaths { files: &self.files, pool: self.pools.default(), client }
    }
}
