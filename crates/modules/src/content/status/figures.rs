//! All counters, collected from the places where they are kept. The field names are also the names in the JSON.

use std::sync::atomic::Ordering::Relaxed;

use freerun_runtime::log::{Errno, LogFile, MAX_LOG_THREADS, recent_lines};
use freerun_runtime::mounts::MountStatus;
use freerun_runtime::pool::PoolStatus;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::unsaved_states;
use freerun_serve::loops::shared::{Loops, SharedState};
use freerun_sys::sandbox::{Protection, protections};

use super::acme::AcmeCertificate;
use super::caches::CacheFigures;
use super::cluster::ClusterFigures;
use super::http2::Http2;
use super::limits::LimitZone;
use super::problem::StatusProblem;
use super::process::Process;
use super::quic::{Http3, Http3Upstreams, Quic};
use super::resolvers::Resolver;
use super::sessions::Sessions;
use super::telemetry::Spans;
use super::tls::Tls;
use super::upstreams::Upstream;
use super::zones::{Zone, Zones};
use crate::content::described::described;
use crate::content::described::histogram::Histogram;
use crate::content::described::metric::Figure;

/// The state of a loop that takes connections.
pub const SERVING: &str = "serving";

described! {
    /// The state of a worker.
    pub struct Figures {
        /// Version of freerun.
        #[metric(gauge "freerun_info" by "version" from Figures::info, "The version that runs; always 1.")]
        pub version: &'static str,
        /// Number of the current configuration.
        #[metric(gauge "freerun_generation")]
        pub generation: u64,
        /// Configurations taken over after the first.
        #[metric(counter "freerun_reloads_total")]
        pub reloads: u64,
        /// Time since the worker started.
        #[metric(gauge "freerun_uptime_seconds")]
        pub uptime_seconds: f64,
        /// Process id of the worker.
        #[metric(gauge "freerun_worker_pid")]
        pub pid: u32,
        /// Process of the worker.
        #[metric(inside)]
        pub process: Process,
        /// Problems that an operator should look at first.
        #[metric(gauge "freerun_problems")]
        pub problems: Vec<StatusProblem>,
        /// Problems that have ended in the last fifteen minutes, the newest end first.
        pub past_problems: Vec<StatusProblem>,
        /// Limits that the worker has set for itself (`worker_sandbox`), or could not set.
        pub sandbox: Vec<SandboxLimit>,
        /// Event loops, in their order.
        pub loops: Vec<LoopFigures>,
        /// Thread pools of the current configuration, by name.
        pub pools: Vec<Pool>,
        /// Mounts that files were served from.
        pub mounts: Vec<Mount>,
        /// Features of the kernel that are missing, or that a filter of system calls forbids.
        #[metric(gauge "freerun_missing_kernel_features")]
        pub missing_kernel_features: Vec<&'static str>,
        /// Log files of the current configuration.
        pub logs: Vec<Log>,
        /// Threads that write logs.
        #[metric(inside)]
        pub log_threads: LogThreads,
        /// Last lines of the error logs of level warn and above, the oldest first.
        pub last_errors: Vec<String>,
        /// File of the error log of the main level, or nothing if it is none.
        pub error_log: String,
        /// State files that could not be written, and are tried again.
        #[metric(gauge "freerun_unsaved_states")]
        pub unsaved_states: Vec<String>,
        /// Zones of servers, by name.
        pub server_zones: Vec<Zone>,
        /// Zones of locations, by name.
        pub location_zones: Vec<Zone>,
        /// Zones of `limit_req`, by name.
        pub limit_reqs: Vec<LimitZone>,
        /// Zones of `limit_conn`, by name.
        pub limit_conns: Vec<LimitZone>,
        /// Groups of servers of the current configuration, by name.
        pub upstreams: Vec<Upstream>,
        /// Resolvers with a `status_zone`.
        pub resolvers: Vec<Resolver>,
        /// Caches of the current configuration, by name.
        pub caches: Vec<CacheFigures>,
        /// Handshakes, sessions and certificates.
        pub tls: Tls,
        /// HTTP/2 with clients.
        #[metric(inside)]
        pub http2: Http2,
        /// HTTP/3 with clients.
        #[metric(inside)]
        pub http3: Http3,
        /// QUIC with clients, which HTTP/3 is spoken over.
        #[metric(inside)]
        pub quic: Quic,
        /// HTTP/3 with upstream servers.
        #[metric(inside)]
        pub http3_upstreams: Http3Upstreams,
        /// Sessions of TCP and UDP.
        #[metric(inside)]
        pub stream: Sessions,
        /// Certificates from CAs by ACME, in the order of the configuration.
        pub acme: Vec<AcmeCertificate>,
        /// Spans of `otel_trace`, where there is an `otel_exporter`.
        pub otel: Option<Spans>,
        /// The state that other machines share, where there is a `zone_sync_engine`.
        pub cluster: Option<ClusterFigures>,
    }

    /// A limit that the worker has set for itself, or could not set.
    pub struct SandboxLimit {
        pub name: &'static str,
        pub active: bool,
        pub failure: String,
    }

    /// The counters of a loop.
    #[schema = "Loop"]
    pub struct LoopFigures {
        pub index: usize,
        pub state: &'static str,
        /// 1 while it takes no new connections.
        #[metric(gauge "freerun_loop_drained")]
        pub drain: bool,
        #[metric(inside)]
        pub connections: Connections,
        /// Requests begun.
        #[metric(counter "freerun_requests_total")]
        pub requests: u64,
        /// Datagrams that were read for other loops in this one's place, because it was late.
        #[metric(counter "freerun_rescued_datagrams_total")]
        pub rescued_datagrams: u64,
        /// Polls of tasks longer than 10 ms.
        #[metric(counter "freerun_stalls_total")]
        pub stalls: u64,
        /// Polls of tasks longer than 10 ms, during most of whose time the thread waited for a processor.
        #[metric(counter "freerun_stalls_without_processor_total")]
        pub stalls_without_processor: u64,
        pub longest_stall_of_its_own_us: u64,
        #[metric(histogram "freerun_poll_seconds", "How long polls of tasks took.")]
        pub polls: Histogram,
    }

    /// The connections of a loop.
    pub struct Connections {
        /// Open connections, the idle ones included.
        #[metric(gauge "freerun_connections_active")]
        pub active: u64,
        /// Keep-alive connections without a request.
        #[metric(gauge "freerun_connections_idle")]
        pub idle: u64,
        /// Connections accepted.
        #[metric(counter "freerun_connections_accepted_total")]
        pub accepted: u64,
        /// Connections closed at once, because there was no room for them.
        #[metric(counter "freerun_connections_dropped_total")]
        pub dropped: u64,
        /// Connections that other loops have for this one. They were accepted in its place, because it was late, is
        /// drained or has no room, or were taken over when it was late, before it had read anything.
        #[metric(counter "freerun_connections_rescued_total")]
        pub rescued: u64,
        /// Connections that went to other loops between two requests, because this one had more than its share, or
        /// ends.
        #[metric(counter "freerun_connections_moved_total")]
        pub moved: u64,
    }

    /// The counters of a thread pool.
    pub struct Pool {
        pub name: String,
        /// Threads that exist.
        #[metric(gauge "freerun_pool_threads")]
        pub threads: usize,
        /// Threads that may exist.
        #[metric(gauge "freerun_pool_threads_limit")]
        pub limit: usize,
        /// Tasks that run.
        #[metric(gauge "freerun_pool_active")]
        pub active: usize,
        /// Tasks that wait for a thread.
        #[metric(gauge "freerun_pool_waiting")]
        pub waiting: usize,
        /// Tasks that may wait.
        #[metric(gauge "freerun_pool_waiting_limit")]
        pub max_queue: usize,
        /// Tasks refused as the queue was full.
        #[metric(counter "freerun_pool_refused_total")]
        pub refused: u64,
        /// Tasks that ran to their end.
        #[metric(counter "freerun_pool_served_total")]
        pub served: u64,
        /// Tasks withdrawn before they ran.
        #[metric(counter "freerun_pool_cancelled_total")]
        pub cancelled: u64,
        /// Tasks that panicked.
        #[metric(counter "freerun_pool_panicked_total")]
        pub panicked: u64,
        #[metric(histogram "freerun_pool_wait_seconds", "From the hand-over of a task to its start.")]
        pub wait: Histogram,
        #[metric(histogram "freerun_pool_service_seconds", "From the start of a task to its end.")]
        pub service: Histogram,
    }

    /// The counters of a mount.
    pub struct Mount {
        pub mount: String,
        pub device: String,
        #[serde(rename = "type")]
        pub fs_type: String,
        pub rung: &'static str,
        #[metric(gauge "freerun_mount_demoted", "1 while a mount goes to the pool as it stalled.")]
        pub demoted: bool,
        pub density: &'static str,
        /// Probes that found all in memory.
        #[metric(counter "freerun_mount_hits_total")]
        pub hits: u64,
        /// Probes that found something missing.
        #[metric(counter "freerun_mount_misses_total")]
        pub misses: u64,
        /// Operations done by a pool.
        #[metric(counter "freerun_mount_pooled_total")]
        pub pooled: u64,
        /// Inline operations that took over 20 ms.
        #[metric(counter "freerun_mount_stalls_total")]
        pub stalls: u64,
        #[metric(counter "freerun_mount_demotions_total", "How often it was demoted.")]
        pub demotions: u64,
        #[metric(gauge "freerun_mount_stuck_seconds" in seconds,
            "For how long pools have been at work on it without any operation ending.")]
        pub stuck_us: u64,
    }

    /// The counters of a log file.
    pub struct Log {
        pub name: String,
        /// Lines dropped as the file did not take them fast enough.
        #[metric(counter "freerun_log_lost_lines_total")]
        pub lost_lines: u64,
        pub waiting_bytes: usize,
        #[metric(gauge "freerun_log_held_up",
            "1 while a write takes so long that other logs are written by another thread.")]
        pub held_up: bool,
        /// Error of the last write, while lines wait for the next attempt.
        pub error: Option<String>,
    }

    /// The threads that write logs.
    pub struct LogThreads {
        /// Threads that write logs, stand by, or are held up.
        #[metric(gauge "freerun_log_threads")]
        pub now: usize,
        pub limit: usize,
    }
}

impl Figures {
    /// The value of the metric that names the version.
    fn info(&self) -> Figure<'_> {
        Figure::Counts(vec![(self.version.into(), 1)])
    }

    /// Collects the current values, without problems.
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
            process: Process::now(shared),
            problems: Vec::new(),
            past_problems: Vec::new(),
            sandbox: protections().iter().map(SandboxLimit::from).collect(),
            loops: LoopFigures::all(shared),
            pools: Pool::all(&generation),
            mounts: Mount::all(&generation),
            missing_kernel_features: generation.files.missing_features().iter().map(|one| one.feature.name()).collect(),
            logs: generation.logs.iter().map(Log::from).collect(),
            log_threads: LogThreads::of(&generation),
            last_errors: recent_lines::lines(),
            error_log: generation.error_log.path().unwrap_or_default().to_owned(),
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
            http3: Http3::of(&shared.http3),
            quic: Quic::of(&shared.quic),
            http3_upstreams: Http3Upstreams::now(),
            stream: Sessions {
                server_zones: stream_servers,
                limit_conns: limits.sessions,
                ..Sessions::of(&shared.sessions, super::upstreams::collect(&generation, "stream", now))
            },
            acme: super::acme::collect(&generation),
            otel: super::telemetry::collect(&generation),
            cluster: super::cluster::collect(&generation),
        }
    }
}

impl From<&Protection> for SandboxLimit {
    fn from(limit: &Protection) -> SandboxLimit {
        let failure = limit.failure.clone().unwrap_or_default();
        SandboxLimit { name: limit.name, active: limit.failure.is_none(), failure }
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
            error: file.write_error().map(|error| Errno(&error).to_string()),
        }
    }
}
