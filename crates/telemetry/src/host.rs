//! The parts of the server that an export uses.

use std::sync::Arc;
use std::time::Duration;

use freerun_runtime::files::FileSystem;
use freerun_runtime::log::ErrorLog;
use freerun_runtime::pool::PoolSet;
use freerun_upstream::resolve::Resolver;

/// The parts of a configuration that exports need besides their settings.
#[derive(Clone)]
pub struct ExporterHost {
    /// The lookup of paths.
    pub files: Arc<FileSystem>,
    /// The pools where certificates are verified.
    pub pools: PoolSet,
    /// The log for failures.
    pub log: ErrorLog,
    /// The resolver for the collector's name, and its patience; the system otherwise.
    pub resolver: Option<(Arc<Resolver>, Duration)>,
}
