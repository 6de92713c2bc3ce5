//! How a cache reports errors.

use std::sync::Arc;

use freerun_runtime::log::Level;

/// A function that writes an error of the cache's thread or its disk to the log.
pub type Tell = Arc<dyn Fn(Level, &str) + Send + Sync>;
