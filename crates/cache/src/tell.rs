//! How a cache says what went wrong.

use std::sync::Arc;

use freerun_runtime::log::Level;

/// Where the cache's thread and its disk tell what went wrong.
pub type Tell = Arc<dyn Fn(Level, &str) + Send + Sync>;
