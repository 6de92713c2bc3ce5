//! The limits of kept connections: how many, how long, and which requests may use them.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use freerun_runtime::loops;

/// The most lists that a peer has; if there are more loops, several share one.
pub const MAX_LISTS: usize = 256;

/// Number of connections that are kept, and their times: the `keepalive*` directives of nginx's `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepAlive {
    /// `keepalive N`: the number of connections of one group that a loop keeps in the pools. Beyond that, the
    /// connection unused for longest is closed. A connection that carries one exchange at a time is there while it is
    /// idle. A connection that carries several is there also while it is used, and then there may be more of them. In
    /// nginx the number is for one worker process. Here, where all loops share, up to N times the number of loops are
    /// kept in all.
    pub connections: usize,
    /// The parameter `local`: only the location that made a connection uses it again.
    pub local: bool,
    /// `keepalive_requests`: the number of requests after which a connection is closed.
    pub requests: u64,
    /// `keepalive_time`: the age after which a connection is not kept any more.
    pub time: Duration,
    /// `keepalive_timeout`: how long a connection may be unused.
    pub timeout: Duration,
}

impl KeepAlive {
    /// The settings of a server that no `upstream` block names, as in nginx: each request has a connection of its own.
    pub fn off() -> KeepAlive {
        KeepAlive { connections: 0, ..KeepAlive::default() }
    }
}

impl Default for KeepAlive {
    /// nginx's defaults of an `upstream` block: `keepalive 32 local` (since 1.29.7), 1000 requests, an hour, 60
    /// seconds.
    fn default() -> KeepAlive {
        KeepAlive {
            connections: 32,
            local: true,
            requests: 1000,
            time: Duration::from_secs(3600),
            timeout: Duration::from_secs(60),
        }
    }
}

/// The scope in which a connection may be used again: only requests of the same scope use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(u64);

impl Scope {
    /// The scope of all requests that connect in the ordinary way.
    pub const SHARED: Scope = Scope(0);

    /// The scope of all requests that connect in the ordinary way, and speak HTTP/2.
    pub const SHARED_HTTP2: Scope = Scope(2);

    /// The scope of all calls of gRPC that connect in the ordinary way.
    pub const SHARED_GRPC: Scope = Scope(4);

    /// A scope for all requests that are equal in `parts`: the bound address, the location with `local`. The parts must
    /// mean the same in the next configuration, because connections outlive a configuration.
    pub fn of(parts: impl Hash) -> Scope {
        Scope(BuildHasherDefault::<DefaultHasher>::default().hash_one(parts) | 1)
    }
}

/// Number of connections of one group in the pools, for each loop: the number that `keepalive N` limits. All peers of a
/// group share it, also over reloads.
#[derive(Debug, Default)]
pub struct IdleCount(OnceLock<Box<[AtomicUsize]>>);

impl IdleCount {
    pub(super) fn of(&self, list: usize) -> Option<&AtomicUsize> {
        let counts = self.0.get_or_init(|| (0..lists()).map(|_| AtomicUsize::new(0)).collect());
        counts.get(within(list, counts.len()))
    }

    /// The number of the group's connections in the pools of all loops.
    pub fn total(&self) -> usize {
        self.0.get().map_or(0, |counts| counts.iter().map(|count| count.load(Relaxed)).sum())
    }
}

/// The index of a loop's list among this number of lists.
pub(super) fn within(index: usize, lists: usize) -> usize {
    if index < lists { index } else { index % lists }
}

/// Number of lists of a peer.
pub(super) fn lists() -> usize {
    loops::count().clamp(1, MAX_LISTS)
}
