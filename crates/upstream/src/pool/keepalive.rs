//! What connections are kept for: how many and how long, and for whom.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use freerun_runtime::loops;

/// Most lists a peer has; beyond as many loops, several share one.
pub const MAX_LISTS: usize = 256;

/// How long and how many connections are kept: the `keepalive*` directives of nginx's `upstream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeepAlive {
    /// `keepalive N`: how many idle connections of one group a loop keeps; beyond, the one unused for longest is closed.
    /// nginx means a worker process by it. Here, where all loops share, up to N times the number of loops are idle in all.
    pub connections: usize,
    /// The parameter `local`: connections are used again by the location that made them alone.
    pub local: bool,
    /// `keepalive_requests`: after so many requests a connection is closed.
    pub requests: u64,
    /// `keepalive_time`: after so long it is not kept again.
    pub time: Duration,
    /// `keepalive_timeout`: how long it may be idle.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    /// What nginx does where nothing is configured: `keepalive 32 local` (since 1.29.7), 1000 requests, an hour, 60 seconds.
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

/// Who may use a connection again: only requests of the same scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Scope(u64);

impl Scope {
    /// All that connect in the ordinary way.
    pub const SHARED: Scope = Scope(0);

    /// A scope for all that are equal in `parts`: the address that is bound, the location with `local`. Has to mean the
    /// same in the next configuration, for connections outlive one.
    pub fn of(parts: impl Hash) -> Scope {
        Scope(BuildHasherDefault::<DefaultHasher>::default().hash_one(parts) | 1)
    }
}

/// How many connections of one group are idle, for each loop: what `keepalive N` is held against. All peers of a group
/// share it, over reloads too.
#[derive(Debug, Default)]
pub struct Count(OnceLock<Box<[AtomicUsize]>>);

impl Count {
    pub(super) fn of(&self, list: usize) -> Option<&AtomicUsize> {
        let counts = self.0.get_or_init(|| (0..lists()).map(|_| AtomicUsize::new(0)).collect());
        counts.get(within(list, counts.len()))
    }

    /// Idle connections of the group in all.
    pub fn total(&self) -> usize {
        self.0.get().map_or(0, |counts| counts.iter().map(|count| count.load(Relaxed)).sum())
    }
}

/// The list of a loop, of so many of them.
pub(super) fn within(index: usize, lists: usize) -> usize {
    if index < lists { index } else { index % lists }
}

/// A time, as much of it as a number holds: five hundred years.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How many lists a peer has.
pub(super) fn lists() -> usize {
    loops::count().clamp(1, MAX_LISTS)
}
