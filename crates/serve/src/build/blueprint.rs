//! The result of reading a configuration, before it serves.

use std::collections::HashMap;
use std::sync::Arc;

use freerun_conf::{Cx, Problem};
use freerun_runtime::files::FileSystem;
use freerun_runtime::log::{ErrorLog, LogFile, clock};
use freerun_runtime::pool::PoolSet;

use crate::configuration::generation::Generation;
use crate::configuration::log_paths::LogPaths;
use crate::configuration::parts::{Parts, Paths, TempFolder, TempFolders, WrittenPlaces};
use crate::configuration::services::Services;
use crate::configuration::zones::{ZoneTable, Zones};
use crate::listen::{ListenKey, ListenSpec};
use crate::loops::figures::limits::LimitZones;
use crate::loops::figures::zones::StatusZones;
use crate::tls::key_log::KeyLogFiles;
use crate::tls::values::SharedTickets;

/// The result of reading a configuration, with all that the process has to provide before a generation of it can serve.
/// What the services have read, such as the servers of `http {}`, is among its parts.
pub struct Blueprint {
    /// The specifications of the listening sockets, in the order of the configuration.
    pub listeners: Vec<Arc<ListenSpec>>,
    /// Paths of log files that settings refer to by index.
    pub log_paths: Vec<String>,
    /// The files for secrets of TLS sessions, which are among these.
    pub key_logs: KeyLogFiles,
    /// Folders for temporary files, which the master makes before the worker serves.
    pub temp_folders: Vec<TempFolder>,
    /// The other places that the worker writes to.
    pub written: WrittenPlaces,
    /// The folders that relative paths begin at.
    pub paths: Paths,
    /// The state that passes from one generation to the next.
    pub zones: Zones,
    /// The state that modules and services keep with the generation.
    pub parts: Parts,
}

impl Blueprint {
    /// Gathers what the services have read, after the last of them; these are their listening sockets.
    ///
    /// # Errors
    /// A zone is used that is not declared, or two services have the same socket.
    pub fn gather(listeners: Vec<Arc<ListenSpec>>, cx: &mut Cx) -> Result<Blueprint, Problem> {
        // A zone may be missing, or be wrong, because of a problem that is reported already.
        if !cx.has_problems() {
            cx.extensions.get_or_default::<ZoneTable>().check()?;
        }
        let mut known: HashMap<ListenKey, &ListenSpec> = HashMap::new();
        for spec in &listeners {
            if let Some(other) = known.insert(spec.key(), spec) {
                // nginx finds that out when it binds the address for the second time.
                let message = format!("bind() to {} failed (98: Address already in use)", spec.name);
                let hint = format!("both \"{}\" and \"{}\" listen there", other.service, spec.service);
                return Err(Problem::new(message).hint(hint));
            }
        }
        let extensions = &mut cx.extensions;
        let status_zones = extensions.remove::<StatusZones>().unwrap_or_default();
        let limit_zones = extensions.remove::<LimitZones>().unwrap_or_default();
        let shared_tickets = extensions.remove::<SharedTickets>().unwrap_or_default();
        let parts = extensions.get_or_default::<Parts>();
        parts.insert(Arc::new(shared_tickets));
        parts.insert(Arc::new(status_zones));
        parts.insert(Arc::new(limit_zones));
        Ok(Blueprint {
            listeners,
            log_paths: extensions.get_or_default::<LogPaths>().0.clone(),
            key_logs: extensions.remove::<KeyLogFiles>().unwrap_or_default(),
            temp_folders: extensions.get_or_default::<TempFolders>().0.clone(),
            written: extensions.remove::<WrittenPlaces>().unwrap_or_default(),
            paths: extensions.get_or_default::<Paths>().clone(),
            zones: extensions.get_or_default::<ZoneTable>().zones(),
            parts: extensions.remove::<Parts>().unwrap_or_default(),
        })
    }

    /// Makes the generation that serves, with the resources of the process. These are the open log files in the order of
    /// `log_paths`, the error log of the main level, the thread pools and the file operations.
    pub fn serve(
        self,
        number: u64,
        logs: Vec<LogFile>,
        error_log: ErrorLog,
        pools: PoolSet,
        files: Arc<FileSystem>,
    ) -> Generation {
        let Blueprint { listeners, key_logs, paths, zones, parts, .. } = self;
        key_logs.open(&logs);
        let services = Services { paths, zones, parts, logs, error_log, pools, files };
        Generation { number, loaded: clock::since_1970(), services, listeners }
    }
}
