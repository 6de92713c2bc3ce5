//! An immutable configuration: servers, locations, listening addresses. A request ends with the one it began with.

use std::ops::Deref;
use std::sync::Arc;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile};
use freerun_runtime::pool::PoolSet;
pub use freerun_serve::parts::{Parts, Paths, TempFolders};
use freerun_serve::services::Services;
use freerun_serve::zones::Zones;

use crate::listen::Listen;
use crate::variables::VariableTable;

/// What a generation needs from the process before it can serve.
pub struct Blueprint {
    /// The listening addresses, in the order of the configuration.
    pub listens: Vec<Arc<Listen>>,
    /// Paths of log files that settings refer to by index.
    pub log_paths: Vec<String>,
    /// Folders for temporary files, which must be there before the worker serves.
    pub temp_folders: Vec<String>,
    /// What relative paths begin at.
    pub paths: Paths,
    /// Whether heads of responses are kept for `$sent_http_…`.
    pub keeps_sent_head: bool,
    /// Whether heads of upstream servers' responses are kept for `$upstream_http_…` and `$upstream_cookie_…`.
    pub keeps_upstream_head: bool,
    /// The variables, for names that come up while serving.
    pub variables: Arc<VariableTable>,
    /// State that goes on from one generation to the next.
    pub zones: Zones,
    /// What modules keep with it.
    pub parts: Parts,
}

/// A configuration that serves. What it has whatever it serves ([`Services`]) is read as if it were its own.
pub struct Generation {
    /// Serial number, from 1.
    pub number: u64,
    /// The listening addresses.
    pub listens: Vec<Arc<Listen>>,
    /// Whether heads of responses are kept for `$sent_http_…`.
    pub keeps_sent_head: bool,
    /// Whether heads of upstream servers' responses are kept for `$upstream_http_…` and `$upstream_cookie_…`.
    pub keeps_upstream_head: bool,
    /// The variables, for names that come up while serving.
    pub variables: Arc<VariableTable>,
    /// Logs, pools, files, zones and what modules keep.
    pub services: Services,
}

impl Deref for Generation {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

impl Generation {
    /// Makes a blueprint serve.
    pub fn new(
        number: u64,
        blueprint: Blueprint,
        logs: Vec<LogFile>,
        error_log: ErrorLog,
        pools: PoolSet,
        files: Arc<FileSystem>,
    ) -> Generation {
        let Blueprint { listens, paths, keeps_sent_head, keeps_upstream_head, variables, zones, parts, .. } = blueprint;
        let services = Services { paths, zones, parts, logs, error_log, pools, files };
        Generation { number, listens, keeps_sent_head, keeps_upstream_head, variables, services }
    }

    /// The listening address of that name.
    pub fn listen(&self, name: &str) -> Option<&Arc<Listen>> {
        self.listens.iter().find(|listen| listen.spec.name == name)
    }
}
