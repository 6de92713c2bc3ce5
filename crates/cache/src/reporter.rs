//! Reports of a cache's errors.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_runtime::log::Level;

/// A function that writes an error of the cache's thread or its disk to the log.
pub type Tell = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// The way to the log of the present configuration. All parts of a cache share one, and look at it for each line,
/// because the cache outlives the configuration that made it. Before the cache is started there is no log.
pub(crate) struct Reporter(ArcSwap<Tell>);

impl Default for Reporter {
    fn default() -> Reporter {
        Reporter(ArcSwap::from_pointee(Arc::new(|_, _: &str| {})))
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Reporter")
    }
}

impl Reporter {
    /// Has lines from now on written by this function.
    pub(crate) fn set(&self, tell: Tell) {
        self.0.store(Arc::new(tell));
    }

    /// Writes a line.
    pub(crate) fn tell(&self, level: Level, text: &str) {
        (self.0.load())(level, text);
    }
}
