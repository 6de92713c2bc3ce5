//! The result of reading a configuration, before it serves.

use std::sync::Arc;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile};
use freerun_runtime::pool::PoolSet;
use freerun_serve::generation::Generation;
use freerun_serve::listen::ListenSpec;
use freerun_serve::parts::{Parts, Paths};
use freerun_serve::services::Services;
use freerun_serve::tls::key_log::KeyLogFiles;
use freerun_serve::zones::Zones;

use crate::request::generation::HttpConfiguration;

/// The result of reading a configuration, with all that the process has to provide before a generation of it can serve.
pub struct Blueprint {
    /// The contents of `http {}`.
    pub http: HttpConfiguration,
    /// Paths of log files that settings refer to by index.
    pub log_paths: Vec<String>,
    /// The files for secrets of TLS sessions, which are among these.
    pub key_logs: KeyLogFiles,
    /// Folders for temporary files, which must be there before the worker serves.
    pub temp_folders: Vec<String>,
    /// The folders that relative paths begin at.
    pub paths: Paths,
    /// The state that passes from one generation to the next.
    pub zones: Zones,
    /// The state that modules keep with the generation.
    pub parts: Parts,
}

impl Blueprint {
    /// The specifications of the listening sockets, in the order of the configuration.
    pub fn listeners(&self) -> impl Iterator<Item = &Arc<ListenSpec>> {
        self.http.listens.iter().map(|listen| &listen.spec)
    }

    /// Makes the generation that serves, with the resources of the process: the open log files in the order of
    /// `log_paths`, the error log of the main level, the thread pools and the file operations.
    pub fn serve(
        self,
        number: u64,
        logs: Vec<LogFile>,
        error_log: ErrorLog,
        pools: PoolSet,
        files: Arc<FileSystem>,
    ) -> Generation {
        let listeners = self.listeners().cloned().collect();
        let Blueprint { http, key_logs, paths, zones, mut parts, .. } = self;
        key_logs.open(&logs);
        parts.insert(Arc::new(http));
        let services = Services { paths, zones, parts, logs, error_log, pools, files };
        Generation { number, services, listeners }
    }
}
