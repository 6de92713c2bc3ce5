//! The counters of caches, in both forms.

use std::collections::BTreeMap;
use std::sync::Arc;

use freerun_cache::cache::Cache;
use freerun_cache::usage::CacheStatus;
use freerun_conf::text_of_os;
use freerun_serve::configuration::generation::Generation;

use super::samples::Text;
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
        pub entries: usize,
        pub max_entries: u64,
        pub counted: usize,
        pub bytes: u64,
        pub reserved: u64,
        pub max_size: Option<u64>,
        pub refused: u64,
        pub pending: usize,
        pub purges: usize,
        pub answers: BTreeMap<String, u64>,
        pub hit_ratio: f64,
        pub waiting: usize,
        pub fills: FillsNow,
        pub removed: RemovalCounts,
        pub adopted: u64,
        pub orphans: u64,
        pub loaded: u64,
        pub memory: MemoryTier,
        pub disk: Disk,
    }

    /// The objects that are being fetched.
    pub struct FillsNow {
        pub now: u64,
        pub begun: u64,
        pub stored: u64,
        pub unstored: u64,
        pub broken: u64,
        pub followed: u64,
    }

    /// The objects that were removed.
    #[schema = "Removed"]
    pub struct RemovalCounts {
        pub evicted: u64,
        pub inactive: u64,
        pub purged: u64,
        pub damaged: u64,
        pub failed: u64,
    }

    /// The small objects in memory, and the files that are kept open.
    pub struct MemoryTier {
        pub objects: u64,
        pub object_bytes: u64,
        pub limit: u64,
        pub memory_hits: u64,
        pub files: u64,
        pub file_hits: u64,
    }

    /// The state of the disk.
    pub struct Disk {
        pub health: &'static str,
        pub error: Option<String>,
        pub outages: u64,
        pub errors: u64,
        pub late: u64,
        pub full: u64,
        pub running: u64,
        pub written: u64,
        pub write_rate: u64,
        pub read: u64,
        pub read_rate: u64,
    }
}

/// The cache of this name that a generation has.
pub fn find(generation: &Generation, name: &[u8]) -> Option<Arc<Cache>> {
    let caches = generation.parts.get::<Caches>()?;
    caches.iter().find(|one| one.path.name.as_bytes() == name).map(|one| one.home.cache.clone())
}

/// Collects the counters of the caches of a generation.
pub fn collect(generation: &Generation) -> Vec<CacheFigures> {
    let Some(caches) = generation.parts.get::<Caches>() else { return Vec::new() };
    let mut all: Vec<CacheFigures> =
        caches.iter().map(|defined| CacheFigures::of(&defined.home.cache, unix_now())).collect();
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
    let mut of = |name: &str, kind, help, value: fn(&CacheFigures) -> u64| {
        out.head(name, kind, help);
        for cache in caches {
            out.sample(name, &[("cache", &cache.name)], value(cache));
        }
    };
    of("freerun_cache_entries", "gauge", "Stored objects.", |c| c.entries as u64);
    of("freerun_cache_entries_limit", "gauge", "Objects that its zone has room for.", |c| c.max_entries);
    of("freerun_cache_counted_keys", "gauge", "Keys without objects whose uses are counted.", |c| c.counted as u64);
    of("freerun_cache_bytes", "gauge", "Bytes of stored objects.", |c| c.bytes);
    of("freerun_cache_reserved_bytes", "gauge", "Bytes reserved for objects that are being written.", |c| c.reserved);
    of("freerun_cache_refused_total", "counter", "Reservations refused for want of space.", |c| c.refused);
    of("freerun_cache_pending", "gauge", "Changes that the cache's thread has not looked at yet.", |c| {
        c.pending as u64
    });
    of("freerun_cache_purges", "gauge", "Purges whose objects are still being removed.", |c| c.purges as u64);
    of("freerun_cache_waiting", "gauge", "Requests that wait for what others fetch.", |c| c.waiting as u64);
    of("freerun_cache_fills", "gauge", "Objects that are being fetched.", |c| c.fills.now);
    of("freerun_cache_fills_begun_total", "counter", "Objects whose fetching was begun.", |c| c.fills.begun);
    of("freerun_cache_fills_stored_total", "counter", "Of these, those that were stored.", |c| c.fills.stored);
    of("freerun_cache_fills_unstored_total", "counter", "Those that could not be stored.", |c| c.fills.unstored);
    of("freerun_cache_fills_broken_total", "counter", "Those that did not come whole.", |c| c.fills.broken);
    of("freerun_cache_followed_total", "counter", "Requests answered while an object came.", |c| c.fills.followed);
    of("freerun_cache_memory_objects", "gauge", "Objects of the memory tier.", |c| c.memory.objects);
    of("freerun_cache_memory_bytes", "gauge", "Bytes of the memory tier.", |c| c.memory.object_bytes);
    of("freerun_cache_memory_limit_bytes", "gauge", "The most bytes of the memory tier.", |c| c.memory.limit);
    of("freerun_cache_memory_hits_total", "counter", "Objects found in memory.", |c| c.memory.memory_hits);
    of("freerun_cache_open_files", "gauge", "Files of objects that are kept open.", |c| c.memory.files);
    of("freerun_cache_open_file_hits_total", "counter", "Objects whose files were open.", |c| c.memory.file_hits);
    of("freerun_cache_disk_outages_total", "counter", "Times that its disk was taken out.", |c| c.disk.outages);
    of("freerun_cache_disk_errors_total", "counter", "Operations that failed with an error of the device.", |c| {
        c.disk.errors
    });
    of("freerun_cache_disk_late_total", "counter", "Requests that waited for the disk no longer.", |c| c.disk.late);
    of("freerun_cache_disk_full_total", "counter", "Times that there was no room on it.", |c| c.disk.full);
    of("freerun_cache_disk_running", "gauge", "Operations on it that run.", |c| c.disk.running);
    of("freerun_cache_disk_written_bytes_total", "counter", "Bytes of stored files.", |c| c.disk.written);
    of("freerun_cache_disk_read_bytes_total", "counter", "Bytes of objects answered from files.", |c| c.disk.read);
    of("freerun_cache_adopted_total", "counter", "Files found that the journal did not know.", |c| c.adopted);
    of("freerun_cache_orphans_total", "counter", "Left-over files removed.", |c| c.orphans);
    of("freerun_cache_loaded_total", "counter", "Objects that the journal had.", |c| c.loaded);
    let name = "freerun_cache_size_limit_bytes";
    out.head(name, "gauge", "The most bytes of objects, where that is limited.");
    for cache in caches {
        if let Some(limit) = cache.max_size {
            out.sample(name, &[("cache", &cache.name)], limit);
        }
    }
    let name = "freerun_cache_answers_total";
    out.head(name, "counter", "Requests, by what the cache had for them.");
    for cache in caches {
        for (how, count) in &cache.answers {
            out.sample(name, &[("cache", &cache.name), ("status", how)], count);
        }
    }
    let name = "freerun_cache_removed_total";
    out.head(name, "counter", "Objects removed, by reason.");
    for cache in caches {
        let RemovalCounts { evicted, inactive, purged, damaged, failed: _ } = &cache.removed;
        for (why, count) in [("evicted", evicted), ("inactive", inactive), ("purged", purged), ("damaged", damaged)] {
            out.sample(name, &[("cache", &cache.name), ("reason", &why)], count);
        }
    }
    let name = "freerun_cache_disk_state";
    out.head(name, "gauge", "1 for the state that its disk is in, 0 for others.");
    for cache in caches {
        for state in DISKS {
            out.sample(name, &[("cache", &cache.name), ("state", &state)], u8::from(state == cache.disk.health));
        }
    }
}
