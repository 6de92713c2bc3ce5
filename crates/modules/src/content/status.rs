//! `status`: what the worker does, as JSON, or as text for Prometheus with `?format=prometheus`.
//!
//! All figures are read from atomics and immutable snapshots, one after the other: no request ever waits for a reader,
//! and figures of one answer may differ by what happened meanwhile. Counters begin at 0 when the worker starts.
//!
//! The JSON, times in microseconds where the name ends in `_us`:
//!
//! ```text
//! {
//!   "version": "0.1.0",          freerun's
//!   "generation": 3,             number of the configuration that new requests begin with
//!   "reloads": 2,                configurations that this worker took over after its first
//!   "uptime_seconds": 12.345,    since this worker started
//!   "pid": 4711,                 of this worker
//!   "loops": [ {                 in their order
//!     "index": 0,
//!     "connections": {
//!       "active": 3,             open now, the idle ones included
//!       "idle": 2,               keep-alive connections without a request
//!       "accepted": 40,          by this loop
//!       "rescued": 0             accepted for other loops from this one's own socket, because it was late
//!     },
//!     "requests": 1000,          begun
//!     "stalls": 0,               polls of tasks longer than 10 ms
//!     "polls": HISTOGRAM         how long polls of tasks took
//!   } ],
//!   "pools": [ {                 thread pools of the current configuration, by name
//!     "name": "default",
//!     "threads": 2, "limit": 32,           threads now, and at most
//!     "active": 0,                         tasks that run
//!     "waiting": 0, "max_queue": 65536,    tasks that wait, and how many may
//!     "refused": 0, "served": 20, "cancelled": 0, "panicked": 0,
//!     "wait": HISTOGRAM                    from the hand-over of a task to its start
//!     "service": HISTOGRAM                 from its start to its end
//!   } ],
//!   "mounts": [ {                mounts that files were served from
//!     "mount": "/srv",           empty for a device that is not in the mount table
//!     "device": "8:1", "type": "ext4",
//!     "rung": "nowait",          the probe in use: memory, nowait, mincore, pool (none works: always the pool)
//!     "demoted": false,          whether inline operations have stalled, so that the pool is used for a while
//!     "density": "sparse",       how densely it is probed: dense, medium, sparse
//!     "hits": 9, "misses": 1,    probes that found all in memory, and that did not
//!     "pooled": 1,               operations done by a pool
//!     "stalls": 0,               inline operations that took longer than 20 ms
//!     "demotions": 0
//!   } ],
//!   "logs": [ {                  log files of the current configuration
//!     "name": "/var/log/nginx/access.log",
//!     "lost_lines": 0,           dropped because the file did not take them fast enough
//!     "waiting_bytes": 0,        not written yet
//!     "held_up": false           whether a write takes so long that other logs are written by another thread
//!   } ],
//!   "log_threads": {             threads that write logs, stand by, or are held up
//!     "now": 2, "limit": 8
//!   },
//!   "upstreams": [ {             groups of servers of the current configuration, by name
//!     "name": "backend",
//!     "declared": true,          by an upstream block; otherwise a directive names the address
//!     "waiting": 0,              requests in its queue
//!     "unresolved": ["app:81"],  servers whose names have no address just now
//!     "servers": [ {             figures go on over reloads, as long as the address stays
//!       "server": "app:80",      as the configuration names it
//!       "address": "10.0.0.7:80",
//!       "state": "up",           up, down, unavail (failed a short while ago, or is an outlier), checking, unhealthy, draining
//!       "weight": 1, "backup": false,
//!       "active": 2,             connections in use, or being made
//!       "idle": 5,               connections kept for further requests
//!       "requests": 1000,        attempts
//!       "responses": {"1xx": 0, "2xx": 990, "3xx": 8, "4xx": 1, "5xx": 0},
//!       "failures": {"connect": 1, "timeout": 0, "closed": 0, "invalid": 0, "status": 0,
//!                    "stale": 0,             an idle connection was dead: does not count against the server
//!                    "other": 0},
//!       "unavailable": 1,        times that failures made it unavailable
//!       "ejected": 0,            times that outlier_detection left it out
//!       "checks": {"done": 0, "failed": 0, "unhealthy": 0},
//!       "connects": 10, "reused": 990,        requests over a new connection, and over one that was there
//!       "reuse_ratio": 0.99,
//!       "sent": 100000, "received": 2000000,  bytes
//!       "connect": HISTOGRAM,                 making a connection
//!       "header": HISTOGRAM,                  to the response's head
//!       "response": HISTOGRAM                 to its end
//!     } ]
//!   } ],
//!   "resolvers": [ {             those with a status_zone
//!     "name": "dns",
//!     "questions": 9, "service_questions": 1,  sent to name servers
//!     "found": 7, "not_found": 1,
//!     "timed_out": 1,            who waited for an answer and got none
//!     "failed": 1
//!   } ]
//! }
//!
//! HISTOGRAM: {
//!   "bounds_us": [1, 2, 4, ...], exclusive upper bounds of the buckets but the last, which has none
//!   "counts": [0, 3, 1, ...],    of each bucket
//!   "count": 4, "sum_us": 9, "max_us": 3
//! }
//! ```

mod figures;
mod prometheus;
mod resolvers;
#[cfg(test)]
mod tests;
mod upstreams;

use bytes::Bytes;
use freerun_conf::{SettingsSet, group, settings};
use freerun_http::content::response::{Body, Response};
use freerun_http::head::body;
use freerun_http::log_error;
use freerun_http::module::{Handler, Module, Outcome, Phase, Run};
use freerun_http::request::Request;
use freerun_http::settings::core::Switch;
use freerun_proto::{Method, uri};

use figures::Figures;

settings! {
    /// What the worker does.
    #[module = "status"]
    pub struct StatusSettings {
        /// Answers with the figures of the worker: connections, event loops, thread pools, mounts, logs, groups of
        /// upstream servers.
        ///
        /// They come as JSON, or with the argument `format=prometheus` as text for Prometheus. Whoever may ask learns
        /// paths of the machine: allow it only to those who should.
        status: Switch, in LOCATION, local, fidelity = Own;
    }
}

/// The module. It has to stand before the modules that answer with files.
pub static MODULE: Module = Module {
    name: "status",
    groups: &[group::<StatusSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Now(answer) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<StatusSettings>().status.0
}

/// What the figures are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Json,
    Prometheus,
}

impl Format {
    /// What the arguments ask for; `None`: something that we do not have.
    fn asked(args: Option<&[u8]>) -> Option<Format> {
        match args.and_then(|args| uri::argument(args, b"format")) {
            None | Some(b"json") => Some(Format::Json),
            Some(b"prometheus") => Some(Format::Prometheus),
            Some(_) => None,
        }
    }
}

fn answer(request: &mut Request) -> Outcome {
    if !matches!(request.method, Method::Get | Method::Head) {
        return Outcome::Status(405);
    }
    let Some(format) = Format::asked(request.args.as_deref()) else { return Outcome::Status(400) };
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let figures = Figures::collect(&request.connection.home.shared);
    let (content_type, text) = match format {
        Format::Json => match serde_json::to_vec(&figures) {
            Ok(text) => ("application/json", text),
            Err(error) => {
                log_error!(request, Error, "status cannot be written as JSON ({error})");
                return Outcome::Status(500);
            }
        },
        Format::Prometheus => (prometheus::CONTENT_TYPE, prometheus::text(&figures).into_bytes()),
    };
    let mut response = Response::new(200, content_type, Body::Bytes(text.into()));
    response.add(Bytes::from_static(b"Cache-Control"), Bytes::from_static(b"no-store"));
    response.into()
}
