//! A cache that purges what other machines have purged.

use std::path::PathBuf;
use std::sync::Arc;

use freerun_cache::purge::Purge;
use freerun_cluster::settings::PurgeTarget;
use freerun_proxy::cached::find::CacheRequest;
use freerun_proxy::caches::zones::CacheFolder;

/// A cache.
pub(super) struct CacheTarget(Arc<CacheFolder>);

impl CacheTarget {
    /// The cache of this folder.
    pub(super) fn new(folder: &Arc<CacheFolder>) -> CacheTarget {
        CacheTarget(folder.clone())
    }
}

impl PurgeTarget for CacheTarget {
    fn purge(&self, what: &Purge) {
        let cache = &self.0.cache;
        match what {
            // The answer to HEAD may stand under a key of its own, which the cache itself does not know.
            Purge::Key(text) => drop(CacheRequest::of(cache.clone(), text.clone()).remove()),
            // Its text has been checked, so it is not refused.
            what => drop(cache.purge(what)),
        }
    }

    fn ask_written(&self) -> u64 {
        self.0.cache.ask_settled()
    }

    fn is_written(&self, number: u64) -> bool {
        self.0.cache.has_settled(number)
    }

    fn is_empty(&self) -> bool {
        self.0.cache.figures().entries == 0
    }

    fn folder(&self) -> PathBuf {
        self.0.cache.config().path.clone()
    }
}
