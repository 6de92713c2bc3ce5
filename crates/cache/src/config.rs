//! The configuration of a cache (nginx's `proxy_cache_path`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::key::Levels;

/// Bytes of `keys_zone` for one entry. nginx's documentation: a zone of one megabyte has about eight thousand keys.
const BYTES_PER_ENTRY: u64 = 128;

/// Division of a zone into pages by nginx, as far as the number of entries in zones of all sizes shows it. The
/// constants are the size of a page, the bytes that are needed elsewhere for each page, and the bytes that are needed
/// once.
const PAGE: u64 = 4096;
const BESIDE_PAGE: u64 = 24;
const BESIDE_ALL: u64 = 512;

/// Pace of a piece of background work (`manager_files`, `manager_threshold`, `manager_sleep` and their like).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The most files in one run.
    pub files: u32,
    /// The longest time of one run.
    pub threshold: Duration,
    /// The pause between two runs.
    pub sleep: Duration,
}

impl Default for Pace {
    /// nginx's defaults for the manager and the loader.
    fn default() -> Pace {
        Pace { files: 100, threshold: Duration::from_millis(200), sleep: Duration::from_millis(50) }
    }
}

/// The configuration that one `*_cache_path` directive gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheConfig {
    /// The name of the cache's zone.
    pub name: Arc<str>,
    /// The cache's folder.
    pub path: PathBuf,
    /// The levels of folders below the path: the parameter `levels=`.
    pub levels: Levels,
    /// `keys_zone=NAME:SIZE`, in bytes: it limits the number of entries, see [`CacheConfig::max_entries`].
    pub zone_size: u64,
    /// `max_size=`, in bytes; `u64::MAX` for no limit.
    pub max_size: u64,
    /// `min_free=`, in bytes: so much is left free on the file system.
    pub min_free: u64,
    /// `inactive=`, in seconds: an object that no request asks for in this time is removed.
    pub inactive: u32,
    /// `memory=`, in bytes: the most that small objects may take up in memory. 0: none are kept there.
    pub memory: u64,
    /// `manager_files=` and so on: the pace of removing inactive objects.
    pub manager: Pace,
    /// `loader_files=` and so on: the pace of walking the folder after an unclean end.
    pub loader: Pace,
    /// `purger_files=` and so on: the pace of removing objects that were purged by prefix or tag.
    pub purger: Pace,
}

impl CacheConfig {
    /// The most entries that the cache may have: as many as nginx keeps in a zone of this size. There one page, and one
    /// entry's place, have another use.
    pub fn max_entries(&self) -> usize {
        let pages = self.zone_size.saturating_sub(BESIDE_ALL) / (PAGE + BESIDE_PAGE);
        let entries = pages.saturating_sub(1).max(1) * (PAGE / BYTES_PER_ENTRY) - 1;
        usize::try_from(entries).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_as_many_entries_as_with_nginx() {
        for (kilobytes, entries) in [(12, 31), (16, 63), (20, 95), (32, 191), (64, 447), (128, 959), (1024, 8095)] {
            let config = CacheConfig {
                name: "z".into(),
                path: PathBuf::new(),
                levels: Levels::default(),
                zone_size: kilobytes << 10,
                max_size: u64::MAX,
                min_free: 0,
                inactive: 600,
                memory: 0,
                manager: Pace::default(),
                loader: Pace::default(),
                purger: Pace::default(),
            };
            assert_eq!(config.max_entries(), entries, "{kilobytes}k");
        }
    }
}
