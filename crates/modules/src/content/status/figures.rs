//! All counters, collected from the places where they are kept. The field names are also the names in the JSON.

use std::sync::atomic::Ordering::Relaxed;

use freerun_runtime::log::{LogFile, MAX_LOG_THREADS, recent};
use freerun_runtime::mounts::MountStatus;
use freerun_runtime::pool::PoolStatus;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::loops::shared::{Loops, SharedState};
use serde::Serialize;

use super::acme::AcmeCertificate;
use super::caches::CacheFigures;
use super::histogram::Histogram;
use super::http2::Http2;
use super::limits::LimitZone;
use super::resolvers::Resolver;
use super::sessions::Sessions;
use super::tls::Tls;
use super::upstreams::Upstream;
use super::zones::{Zone, Zones};
use crate::content::described::described;

/// The state of a loop that takes connections.
pub const SERVING: &str = "serving";

/// All counters.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub version: &'static str,
    pub generation: u64,
    pub reloads: u64,
    pub uptime_seconds: f64,
    pub pid: u32,
    pub loops: Vec<LoopFigures>,
    pub pools: Vec<Pool>,
    pub mounts: Vec<Mount>,
    pub logs: Vec<Log>,
    pub log_threads: LogThreads,
    pub last_errors: Vec<String>,
    pub unsaved_states: Vec<String>,
    pub server_zones: Vec<Zone>,
    pub location_zones: Vec<Zone>,
    pub limit_reqs: Vec<LimitZone>,
    pub limit_conns: Vec<LimitZone>,
    pub upstreams: Vec<Upstream>,
    pub resolvers: Vec<Resolver>,
    pub caches: Vec<CacheFigures>,
    pub tls: Tls,
    pub http2: Http2,
    pub stream: Sessions,
    pub acme: Vec<AcmeCertificate>,
}

described! {
    /// The counters of a loop.
    #[schema = "Loop"]
    pub struct LoopFigures {
        pub index: usize,
        pub state: &'static str,
        pub drain: bool,
        pub connections: Connections,
        pub requests: u64,
        pub rescued_datagrams: u64,
        pub stalls: u64,
        pub stalls_without_processor: u64,
        pub longest_stall_of_its_own_us: u64,
        pub polls: Histogram,
    }

    /// The connections of a loop.
    pub struct Connections {
        pub active: u64,
        pub idle: u64,
        pub accepted: u64,
        pub dropped: u64,
        pub rescued: u64,
        pub moved: u64,
    }

    /// The counters of a thread pool.
    pub struct Pool {
        pub name: String,
        pub threads: usize,
        pub limit: usize,
        pub active: usize,
        pub waiting: usize,
        pub max_queue: usize,
        pub refused: u64,
        pub served: u64,
        pub cancelled: u64,
        pub panicked: u64,
        pub wait: Histogram,
        pub service: Histogram,
    }

    /// The counters of a mount.
    pub struct Mount {
        pub mount: String,
        pub device: String,
        #[serde(rename = "type")]
        pub fs_type: String,
        pub rung: &'static str,
        pub demoted: bool,
        pub density: &'static str,
        pub hits: u64,
        pub misses: u64,
        pub pooled: u64,
        pub stalls: u64,
        pub demotions: u64,
        pub stuck_us: u64,
    }

    /// The counters of a log file.
    pub struct Log {
        pub name: String,
        pub lost_lines: u64,
        pub waiting_bytes: usize,
        pub held_up: bool,
    }

    /// The threads that write logs.
    pub struct LogThreads {
        pub now: usize,
        pub limit: usize,
    }
}

impl Figures {
    /// Collects the current values.
    pub fn collect(shared: &SharedState) -> Figures {
        // The guard is held only during the read: it keeps no state alive and makes no task wait.
        let generation = shared.generation.load();
        let now = freerun_upstream::now();
        let Zones { servers, locations, stream_servers } = super::zones::collect(&generation);
        let limits = super::limits::collect(&generation);
        Figures {
            version: env!("CARGO_PKG_VERSION"),
            generation: generation.number,
            // The first configuration is installed like all others.
            reloads: shared.reloads.get().saturating_sub(1),
            uptime_seconds: shared.started.elapsed().as_millis() as f64 / 1000.0,
            pid: std::process::id(),
            loops: LoopFigures::all(shared),
            pools: Pool::all(&generation),
            mounts: Mount::all(&generation),
            logs: generation.logs.iter().map(Log::from).collect(),
            log_threads: LogThreads::of(&generation),
            last_errors: recent::lines(),
            unsaved_states: unsaved_states::paths(),
            server_zones: servers,
            location_zones: locations,
            limit_reqs: limits.requests,
            limit_conns: limits.connections,
            upstreams: super::upstreams::collect(&generation, "http", now),
            resolvers: super::resolvers::collect(&generation),
            caches: super::caches::collect(&generation),
            tls: super::tls::collect(shared, &generation),
            http2: Http2::of(&shared.http2),
            stream: Sessions {
                server_zones: stream_servers,
                limit_conns: limits.sessions,
                ..Sessions::of(&shared.sessions, super::upstreams::collect(&generation, "stream", now))
            },
            acme: super::acme::collect(&generation),
        }
    }
}

/// Whether a loop takes connections, ends with its last one, or has ended.
fn state(loops: &Loops, index: usize) -> &'static str {
    match () {
        () if loops.serving.contains(&index) => SERVING,
        () if loops.running.contains(&index) => "ending",
        () => "ended",
    }
}

impl LoopFigures {
    /// The counters of all loops, those that have ended included: their counts would be missing in sums.
    pub fn all(shared: &SharedState) -> Vec<LoopFigures> {
        let loops = shared.loops.load();
        (0..loops.stats.len()).filter_map(|index| LoopFigures::of(shared, index)).collect()
    }

    /// The counters of the loop with this number.
    pub fn of(shared: &SharedState, index: usize) -> Option<LoopFigures> {
        let loops = shared.loops.load();
        let stats = loops.stats.get(index)?;
        Some(LoopFigures {
            index,
            state: state(&loops, index),
            drain: shared.drained.has(index),
            connections: Connections {
                active: stats.active.get(),
                idle: stats.idle.get(),
                accepted: stats.accepted.get(),
                dropped: stats.dropped.get(),
                rescued: stats.rescued.get(),
                moved: stats.moved.get(),
            },
            requests: stats.requests.get(),
            rescued_datagrams: stats.rescued_datagrams.get(),
            stalls: stats.stalls.get(),
            stalls_without_processor: stats.stalls_without_processor.get(),
            longest_stall_of_its_own_us: stats.longest_stall_of_its_own_us.load(Relaxed),
            polls: stats.polls.snapshot().into(),
        })
    }
}

impl Pool {
    /// The counters of the pools of a configuration, by their names.
    pub fn all(generation: &Generation) -> Vec<Pool> {
        let mut pools: Vec<Pool> = generation.pools.iter().map(|pool| Pool::from(pool.status())).collect();
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        pools
    }
}

impl Mount {
    /// The counters of the mounts that files were served from, by their names.
    pub fn all(generation: &Generation) -> Vec<Mount> {
        let mut mounts: Vec<Mount> = generation.files.mounts().into_iter().map(Mount::from).collect();
        mounts.sort_by(|one, other| (&one.mount, &one.device).cmp(&(&other.mount, &other.device)));
        mounts
    }
}

impl LogThreads {
    /// The threads that write the logs of a configuration.
    pub fn of(generation: &Generation) -> LogThreads {
        LogThreads { now: generation.logs.first().map_or(0, LogFile::threads), limit: MAX_LOG_THREADS }
    }
}

impl From<PoolStatus> for Pool {
    fn from(status: PoolStatus) -> Pool {
        Pool {
            name: status.name.to_string(),
            threads: status.threads,
            limit: status.limit,
            active: status.active,
            waiting: status.waiting,
            max_queue: status.max_queue,
            refused: status.refused,
            served: status.served,
            cancelled: status.cancelled,
            panicked: status.panicked,
            wait: status.wait.into(),
            service: status.service.into(),
        }
    }
}

impl From<MountStatus> for Mount {
    fn from(status: MountStatus) -> Mount {
        Mount {
            mount: status.point,
            device: format!("{}:{}", rustix::fs::major(status.dev), rustix::fs::minor(status.dev)),
            fs_type: status.fs_type,
            rung: status.rung.name(),
            demoted: status.demoted,
            density: status.density.name(),
            hits: status.hits,
            misses: status.misses,
            pooled: status.pooled,
            stalls: status.stalls,
            demotions: status.demotions,
            stuck_us: u64::try_from(status.stuck.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl From<&LogFile> for Log {
    fn from(file: &LogFile) -> Log {
        Log {
            name: file.path().to_owned(),
            lost_lines: file.lost_in_all(),
            waiting_bytes: file.waiting(),
            held_up: file.is_held_up(),
        }
    }
}
