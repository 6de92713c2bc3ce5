//! The counters of caches, in both forms.

use std::collections::BTreeMap;
use std::sync::Arc;

use freerun_cache::cache::Cache;
use freerun_cache::usage::CacheStatus;
use freerun_conf::text_of_os;
use freerun_serve::configuration::generation::Generation;

use super::samples::{MetricRow, Text};
use crate::content::described::described;
use freerun_proxy::cached::clock::unix_now;
use freerun_proxy::caches::zones::Caches;

/// The states of a cache's disk.
const DISKS: [&str; 3] = ["in", "stuck", "failing"];

described! {
    /// The counters of a cache.
    pub struct CacheFigures {
        pub name: String,
        pub path: String,
        pub state: &'static str,
        pub load_ms: u64,
        /// Stored objects.
        #[metric(gauge "freerun_cache_entries")]
        pub entries: usize,
        /// Objects that its zone has room for.
        #[metric(gauge "freerun_cache_entries_limit")]
        pub max_entries: u64,
        /// Keys without objects whose uses are counted.
        #[metric(gauge "freerun_cache_counted_keys")]
        pub counted: usize,
        /// Bytes of stored objects.
        #[metric(gauge "freerun_cache_bytes")]
        #[api = "size"]
        pub bytes: u64,
        /// Bytes reserved for objects that are being written.
        #[metric(gauge "freerun_cache_reserved_bytes")]
        pub reserved: u64,
        /// The most bytes of objects, where that is limited.
        #[metric(gauge "freerun_cache_size_limit_bytes")]
        #[api]
        pub max_size: Option<u64>,
        /// Reservations refused for want of space.
        #[metric(counter "freerun_cache_refused_total")]
        pub refused: u64,
        /// Changes that the cache's thread has not looked at yet.
        #[metric(gauge "freerun_cache_pending")]
        pub pending: usize,
        /// Purges whose objects are still being removed.
        #[metric(gauge "freerun_cache_purges")]
        pub purges: usize,
        /// Requests, by what the cache had for them.
        #[metric(counter "freerun_cache_answers_total" by "status")]
        pub answers: BTreeMap<String, u64>,
        pub hit_ratio: f64,
        /// Requests that wait for what others fetch.
        #[metric(gauge "freerun_cache_waiting")]
        pub waiting: usize,
        #[metric(inside)]
        pub fills: FillsNow,
        #[metric(inside)]
        pub removed: RemovalCounts,
        /// Files found that the journal did not know.
        #[metric(counter "freerun_cache_adopted_total")]
        pub adopted: u64,
        /// Left-over files removed.
        #[metric(counter "freerun_cache_orphans_total")]
        pub orphans: u64,
        /// Objects that the journal had.
        #[metric(counter "freerun_cache_loaded_total")]
        pub loaded: u64,
        #[metric(inside)]
        pub memory: MemoryTier,
        #[metric(inside)]
        pub disk: Disk,
    }

    /// The objects that are being fetched.
    pub struct FillsNow {
        /// Objects that are being fetched.
        #[metric(gauge "freerun_cache_fills")]
        pub now: u64,
        /// Objects whose fetching was begun.
        #[metric(counter "freerun_cache_fills_begun_total")]
        pub begun: u64,
        /// Objects that were fetched and stored.
        #[metric(counter "freerun_cache_fills_stored_total")]
        pub stored: u64,
        /// Objects that could not be stored.
        #[metric(counter "freerun_cache_fills_unstored_total")]
        pub unstored: u64,
        /// Objects that did not come whole.
        #[metric(counter "freerun_cache_fills_broken_total")]
        pub broken: u64,
        /// Requests answered while an object came.
        #[metric(counter "freerun_cache_followed_total")]
        pub followed: u64,
    }

    /// The objects that were removed.
    #[schema = "Removed"]
    pub struct RemovalCounts {
        /// Objects removed to make room.
        #[metric(counter "freerun_cache_removed_total" by "reason" is "evicted", "Objects removed, by reason.")]
        pub evicted: u64,
        /// Objects removed because they were not used for long.
        #[metric(counter "freerun_cache_removed_total" by "reason" is "inactive")]
        pub inactive: u64,
        /// Objects removed by purges.
        #[metric(counter "freerun_cache_removed_total" by "reason" is "purged")]
        pub purged: u64,
        /// Objects whose files were missing or wrong.
        #[metric(counter "freerun_cache_removed_total" by "reason" is "damaged")]
        pub damaged: u64,
        /// Files that cannot be removed, and are tried again.
        pub failed: u64,
    }

    /// The small objects in memory, and the files that are kept open.
    pub struct MemoryTier {
        /// Objects of the memory tier.
        #[metric(gauge "freerun_cache_memory_objects")]
        pub objects: u64,
        /// Bytes of the memory tier.
        #[metric(gauge "freerun_cache_memory_bytes")]
        pub object_bytes: u64,
        /// The most bytes of the memory tier.
        #[metric(gauge "freerun_cache_memory_limit_bytes")]
        pub limit: u64,
        /// Objects found in memory.
        #[metric(counter "freerun_cache_memory_hits_total")]
        pub memory_hits: u64,
        /// Files of objects that are kept open.
        #[metric(gauge "freerun_cache_open_files")]
        pub files: u64,
        /// Objects whose files were open.
        #[metric(counter "freerun_cache_open_file_hits_total")]
        pub file_hits: u64,
    }

    /// The state of the disk.
    pub struct Disk {
        #[metric(gauge "freerun_cache_disk_state" state of DISKS,
            "1 for the state that its disk is in, 0 for others.")]
        pub health: &'static str,
        pub error: Option<String>,
        /// Times that its disk was taken out.
        #[metric(counter "freerun_cache_disk_outages_total")]
        pub outages: u64,
        /// Operations that failed with an error of the device.
        #[metric(counter "freerun_cache_disk_errors_total")]
        pub errors: u64,
        /// Requests that stopped waiting for the disk.
        #[metric(counter "freerun_cache_disk_late_total")]
        pub late: u64,
        /// Times that there was no room on it.
        #[metric(counter "freerun_cache_disk_full_total")]
        pub full: u64,
        /// Operations on it that run.
        #[metric(gauge "freerun_cache_disk_running")]
        pub running: u64,
        /// Bytes of stored files.
        #[metric(counter "freerun_cache_disk_written_bytes_total")]
        pub written: u64,
        /// Bytes of stored files a second.
        pub write_rate: u64,
        /// Bytes of objects answered from files.
        #[metric(counter "freerun_cache_disk_read_bytes_total")]
        pub read: u64,
        /// Bytes of objects answered from files a second.
        pub read_rate: u64,
    }
}

/// The cache of this name that a generation has.
pub fn find(generation: &Generation, name: &[u8]) -> Option<Arc<Cache>> {
    let caches = generation.parts.get::<Caches>()?;
    caches.iter().find(|one| one.path.name.as_bytes() == name).map(|one| one.folder.cache.clone())
}

/// Collects the counters of the caches of a generation.
pub fn collect(generation: &Generation) -> Vec<CacheFigures> {
    let Some(caches) = generation.parts.get::<Caches>() else { return Vec::new() };
    let mut all: Vec<CacheFigures> =
        caches.iter().map(|defined| CacheFigures::of(&defined.folder.cache, unix_now())).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl CacheFigures {
    /// The counters of one cache, at a time in seconds.
    pub fn of(cache: &Cache, now: u64) -> CacheFigures {
        use freerun_cache::health::Out;
        let (config, figures, usage) = (cache.config(), cache.figures(), cache.usage());
        let (health, memory, fills) = cache.tiers();
        let answers = CacheStatus::ALL.map(|how| (how.word().to_ascii_lowercase(), usage.answered(how)));
        let all: u64 = answers.iter().map(|(_, count)| count).sum();
        let hits = usage.answered(CacheStatus::Hit);
        CacheFigures {
            name: config.name.to_string(),
            path: text_of_os(&config.path).into_owned(),
            state: figures.state.name(),
            load_ms: figures.load_ms,
            entries: figures.entries,
            max_entries: figures.max_entries,
            counted: figures.counted,
            bytes: figures.used,
            reserved: figures.reserved,
            max_size: (figures.max_size < u64::MAX).then_some(figures.max_size),
            refused: figures.refused,
            pending: figures.pending,
            purges: figures.purges,
            hit_ratio: if all == 0 { 0.0 } else { hits as f64 / all as f64 },
            answers: answers.into_iter().collect(),
            waiting: usage.waiting(),
            fills: FillsNow {
                now: fills.now,
                begun: fills.begun,
                stored: fills.stored,
                unstored: fills.unstored,
                broken: fills.broken,
                followed: fills.followed,
            },
            removed: RemovalCounts {
                evicted: figures.evicted,
                inactive: figures.inactive,
                purged: figures.purged,
                damaged: figures.damaged,
                failed: figures.failed_removals,
            },
            adopted: figures.adopted,
            orphans: figures.orphans,
            loaded: figures.loaded,
            memory: MemoryTier {
                objects: memory.objects,
                object_bytes: memory.bytes,
                limit: memory.limit,
                memory_hits: memory.hits,
                files: memory.files,
                file_hits: memory.file_hits,
            },
            disk: Disk {
                health: match health.out {
                    None => "in",
                    Some((Out::Stuck, _)) => "stuck",
                    Some((Out::Failing(_), _)) => "failing",
                },
                error: health.out.map(|(out, _)| out.to_string()),
                outages: health.outages,
                errors: health.errors,
                late: health.late,
                full: health.full,
                running: health.running,
                written: usage.written.total(),
                write_rate: usage.written.rate(now),
                read: usage.read.total(),
                read_rate: usage.read.rate(now),
            },
        }
    }
}

/// Writes the counters for Prometheus.
pub(super) fn text(caches: &[CacheFigures], out: &mut Text) {
    let rows = caches.iter().map(|cache| MetricRow::new("cache", &cache.name, cache));
    out.objects(&rows.collect::<Vec<_>>());
}
