//! The counters in the text format of Prometheus, version 0.0.4.
//!
//! Names follow its conventions: base units, `_total` for counters. Buckets of histograms are cumulative; their bounds
//! are the powers of two of microseconds of the internal histograms, in seconds.

use super::figures::Figures;
use super::samples::{Label, Seconds, Text};
use super::{acme, caches, http2, limits, resolvers, sessions, tls, upstreams, zones};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text with all counters.
pub fn text(figures: &Figures) -> String {
    let mut out = Text(String::with_capacity(16 * 1024));
    out.worker(figures);
    out.loops(figures);
    out.pools(figures);
    out.mounts(figures);
    out.logs(figures);
    zones::text(&figures.server_zones, &figures.location_zones, &figures.stream.server_zones, &mut out);
    let sessions = &figures.stream.limit_conns[..];
    let kinds = [("requests", &figures.limit_reqs[..]), ("connections", &figures.limit_conns), ("sessions", sessions)];
    limits::text(kinds, &mut out);
    let groups: Vec<_> = figures.upstreams.iter().chain(&figures.stream.upstreams).collect();
    upstreams::text(&groups, &mut out);
    resolvers::text(&figures.resolvers, &mut out);
    caches::text(&figures.caches, &mut out);
    tls::text(&figures.tls, &mut out);
    http2::text(&figures.http2, &mut out);
    sessions::text(&figures.stream, &mut out);
    acme::text(&figures.acme, &mut out);
    out.0
}

impl Text {
    fn worker(&mut self, figures: &Figures) {
        self.head("freerun_info", "gauge", "The version that runs; always 1.");
        self.sample("freerun_info", &[("version", &figures.version)], 1);
        self.single("freerun_generation", "gauge", "Number of the current configuration.", figures.generation);
        self.single("freerun_reloads_total", "counter", "Configurations taken over after the first.", figures.reloads);
        self.single("freerun_uptime_seconds", "gauge", "Since the worker started.", figures.uptime_seconds);
        self.single("freerun_worker_pid", "gauge", "Process id of the worker.", figures.pid);
        let help = "State files that could not be written, and are tried again.";
        self.single("freerun_unsaved_states", "gauge", help, figures.unsaved_states.len());
    }

    fn loops(&mut self, figures: &Figures) {
        let all = &figures.loops;
        let mut of = |name, kind, help, value: fn(&super::figures::LoopFigures) -> u64| {
            self.head(name, kind, help);
            for one in all {
                self.sample(name, &[("loop", &one.index)], value(one));
            }
        };
        of("freerun_connections_active", "gauge", "Open connections, the idle ones included.", |l| {
            l.connections.active
        });
        of("freerun_connections_idle", "gauge", "Keep-alive connections without a request.", |l| l.connections.idle);
        of("freerun_connections_accepted_total", "counter", "Connections accepted.", |l| l.connections.accepted);
        of(
            "freerun_connections_dropped_total",
            "counter",
            "Connections closed at once, as there was no room for them.",
            |l| l.connections.dropped,
        );
        of(
            "freerun_connections_rescued_total",
            "counter",
            "Connections that other loops have accepted in this one's place or taken over before it had read anything, \
             because it was late.",
            |l| l.connections.rescued,
        );
        of("freerun_loop_drained", "gauge", "1 while it takes no new connections.", |l| l.drain.into());
        of(
            "freerun_connections_moved_total",
            "counter",
            "Connections that went to other loops between two requests, because this one had more than its share.",
            |l| l.connections.moved,
        );
        of(
            "freerun_rescued_datagrams_total",
            "counter",
            "Datagrams that were read for other loops in this one's place, because it was late.",
            |l| l.rescued_datagrams,
        );
        of("freerun_requests_total", "counter", "Requests begun.", |l| l.requests);
        of("freerun_stalls_total", "counter", "Polls of tasks longer than 10 ms.", |l| l.stalls);
        of(
            "freerun_stalls_without_processor_total",
            "counter",
            "Polls of tasks longer than 10 ms, most of which the thread waited for a processor.",
            |l| l.stalls_without_processor,
        );
        self.histogram("freerun_poll_seconds", "How long polls of tasks took.", all.iter(), |l| {
            (vec![("loop", &l.index)], &l.polls)
        });
    }

    fn pools(&mut self, figures: &Figures) {
        let all = &figures.pools;
        let mut of = |name, kind, help, value: fn(&super::figures::Pool) -> u64| {
            self.head(name, kind, help);
            for one in all {
                self.sample(name, &[("pool", &one.name)], value(one));
            }
        };
        of("freerun_pool_threads", "gauge", "Threads that exist.", |p| p.threads as u64);
        of("freerun_pool_threads_limit", "gauge", "Threads that may exist.", |p| p.limit as u64);
        of("freerun_pool_active", "gauge", "Tasks that run.", |p| p.active as u64);
        of("freerun_pool_waiting", "gauge", "Tasks that wait for a thread.", |p| p.waiting as u64);
        of("freerun_pool_waiting_limit", "gauge", "Tasks that may wait.", |p| p.max_queue as u64);
        of("freerun_pool_refused_total", "counter", "Tasks refused as the queue was full.", |p| p.refused);
        of("freerun_pool_served_total", "counter", "Tasks that ran to their end.", |p| p.served);
        of("freerun_pool_cancelled_total", "counter", "Tasks withdrawn before they ran.", |p| p.cancelled);
        of("freerun_pool_panicked_total", "counter", "Tasks that panicked.", |p| p.panicked);
        let (waits, services) = ("freerun_pool_wait_seconds", "freerun_pool_service_seconds");
        self.histogram(waits, "From the hand-over of a task to its start.", all.iter(), |p| {
            (vec![("pool", &p.name)], &p.wait)
        });
        self.histogram(services, "From the start of a task to its end.", all.iter(), |p| {
            (vec![("pool", &p.name)], &p.service)
        });
    }

    fn mounts(&mut self, figures: &Figures) {
        let all = &figures.mounts;
        self.head("freerun_mount_info", "gauge", "How files of a mount are probed; always 1.");
        for one in all {
            let labels: [Label<'_>; 5] = [
                ("mount", &one.mount),
                ("device", &one.device),
                ("type", &one.fs_type),
                ("rung", &one.rung),
                ("density", &one.density),
            ];
            self.sample("freerun_mount_info", &labels, 1);
        }
        let mut of = |name, kind, help, value: fn(&super::figures::Mount) -> u64| {
            self.head(name, kind, help);
            for one in all {
                self.sample(name, &[("mount", &one.mount), ("device", &one.device)], value(one));
            }
        };
        of("freerun_mount_demoted", "gauge", "1 while a mount goes to the pool as it stalled.", |m| m.demoted.into());
        of("freerun_mount_hits_total", "counter", "Probes that found all in memory.", |m| m.hits);
        of("freerun_mount_misses_total", "counter", "Probes that found something missing.", |m| m.misses);
        of("freerun_mount_pooled_total", "counter", "Operations done by a pool.", |m| m.pooled);
        of("freerun_mount_stalls_total", "counter", "Inline operations that took over 20 ms.", |m| m.stalls);
        of("freerun_mount_demotions_total", "counter", "How often it was demoted.", |m| m.demotions);
        let name = "freerun_mount_stuck_seconds";
        self.head(name, "gauge", "For how long pools have been at work on it without any operation ending.");
        for one in all {
            self.sample(name, &[("mount", &one.mount), ("device", &one.device)], Seconds(one.stuck_us));
        }
    }

    fn logs(&mut self, figures: &Figures) {
        let name = "freerun_log_lost_lines_total";
        self.head(name, "counter", "Lines dropped as the file did not take them fast enough.");
        for log in &figures.logs {
            self.sample(name, &[("log", &log.name)], log.lost_lines);
        }
        let name = "freerun_log_held_up";
        self.head(name, "gauge", "1 while a write takes so long that other logs are written by another thread.");
        for log in &figures.logs {
            self.sample(name, &[("log", &log.name)], u64::from(log.held_up));
        }
        self.head("freerun_log_threads", "gauge", "Threads that write logs, stand by, or are held up.");
        self.sample("freerun_log_threads", &[], figures.log_threads.now);
    }
}
