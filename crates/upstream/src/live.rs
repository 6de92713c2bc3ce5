//! The state of a server while it runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::answers::Answers;
use crate::clock::Millis;
use crate::figures::ServerFigures;
use crate::pool::Pool;
use crate::random::Random;
use crate::udp::UdpReachability;

/// The state of a server while it runs. It is kept with the server's address: over changes of the group, of its
/// settings, and reloads.
///
/// The counters that every choice reads come first and together, so that looking at a server touches two cache lines;
/// the fields that only requests write come after them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Live {
    /// The number of the server, which no other server of the process has or had; never 0.
    pub id: u32,
    /// The number of connections in use, and of attempts to make one.
    pub(crate) connections: AtomicU32,
    /// The number of failures since `window`.
    pub(crate) fails: AtomicU32,
    /// Part of the weight that was lost by failures; it comes back by one with each choice.
    pub(crate) lost: AtomicU32,
    /// The time of the first of `fails`.
    pub(crate) window: AtomicU64,
    /// The time until which the server is unavailable. 0: it is available. A time that has passed: one request may try
    /// it.
    pub(crate) until: AtomicU64,
    /// The time since when the server has its weight back, for the slow start; 0: it always had it.
    pub(crate) recovered: AtomicU64,
    /// Number of health checks that find it unhealthy.
    pub(crate) unhealthy: AtomicU32,
    /// Number of mandatory health checks that have no result yet.
    pub(crate) checking: AtomicU32,
    /// Number of the mandatory checks that have not even begun, because the server is new.
    pub(crate) held: AtomicU32,
    /// The time until which the server is ejected by the outlier detection; 0: it is not ejected.
    pub(crate) ejected: AtomicU64,
    /// The moving average of the time until there is a connection, in microseconds; 0: not known.
    pub(crate) connect_average: AtomicU64,
    /// The moving average of the time to the response's head, in microseconds; 0: not known.
    pub(crate) header_average: AtomicU64,
    /// The moving average of the time to the response's end, in microseconds; 0: not known.
    pub(crate) last_byte_average: AtomicU64,
    /// The time of the last measurement.
    pub(crate) measured: AtomicU64,
    /// The time at which it was chosen last; 0: it never was.
    pub(crate) selected: AtomicU64,
    /// The time since when it is unavailable, unhealthy or waits for a check; 0: it is not.
    pub(crate) down_since: AtomicU64,
    /// For how long it was so before, in milliseconds.
    pub(crate) downtime: AtomicU64,
    /// The sum of the times at which the requests in flight began. This sum and the number of the requests are kept
    /// only where the method of the group uses them.
    pub(crate) begun: AtomicU64,
    /// Number of requests in `begun`.
    pub(crate) inflight: AtomicU32,
    /// Result of an old binary's checks, and its expiry: see [`crate::saved_servers`].
    pub(crate) carried: AtomicU64,
    /// The record of answers for the outlier detection.
    pub(crate) answers: Answers,
    /// The counters of the server.
    pub figures: ServerFigures,
    /// The connections to the server that have room for further requests.
    pub pool: Pool,
    /// Whether the server can be reached by UDP.
    pub udp: UdpReachability,
}

/// The first number of a process is below this.
const FIRST_IDS: u64 = 1 << 30;

/// The next number. Each process begins elsewhere: a program that has kept the number of a server from a process that has died
/// would otherwise change another server by it.
static IDS: LazyLock<AtomicU32> = LazyLock::new(|| {
    let first = Random::seeded(RandomState::new().build_hasher().finish()).below(FIRST_IDS);
    AtomicU32::new(1 + u32::try_from(first).unwrap_or_default())
});

/// A number that no server and no entry of a group's list has or had, nor, most probably, in an earlier process; never 0.
pub fn next_id() -> u32 {
    // Numbers repeat after four billion servers; the only consequence is a session that sticks to the wrong one.
    IDS.fetch_add(1, Relaxed).max(1)
}

impl Default for Live {
    fn default() -> Live {
        Live {
            id: next_id(),
            connections: AtomicU32::new(0),
            fails: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            window: AtomicU64::new(0),
            until: AtomicU64::new(0),
            recovered: AtomicU64::new(0),
            unhealthy: AtomicU32::new(0),
            checking: AtomicU32::new(0),
            held: AtomicU32::new(0),
            ejected: AtomicU64::new(0),
            connect_average: AtomicU64::new(0),
            header_average: AtomicU64::new(0),
            last_byte_average: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            selected: AtomicU64::new(0),
            down_since: AtomicU64::new(0),
            downtime: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            inflight: AtomicU32::new(0),
            carried: AtomicU64::new(0),
            answers: Answers::default(),
            figures: ServerFigures::default(),
            pool: Pool::default(),
            udp: UdpReachability::default(),
        }
    }
}

impl Live {
    /// A new server. It is not chosen before this number of checks has begun and ended.
    pub(crate) fn held(checks: u32) -> Live {
        Live { checking: AtomicU32::new(checks), held: AtomicU32::new(checks), ..Live::default() }
    }

    /// Notes when the server becomes unavailable, unhealthy or waits for a check, and when it is no longer so. It has to be called
    /// after each change of that.
    pub(crate) fn note_state(&self, now: Millis) {
        let is_down =
            self.until.load(Relaxed) != 0 || self.unhealthy.load(Relaxed) > 0 || self.checking.load(Relaxed) > 0;
        let since = self.down_since.load(Relaxed);
        let next = if is_down { now.max(1) } else { 0 };
        // Of several that note the same change, one does.
        if is_down == (since != 0) || self.down_since.compare_exchange(since, next, Relaxed, Relaxed).is_err() {
            return;
        }
        if !is_down {
            self.downtime.fetch_add(now.saturating_sub(since), Relaxed);
        }
    }

    /// The time since when the server is unavailable, unhealthy or waits for a check, if it is.
    pub fn down_since(&self) -> Option<Millis> {
        Some(self.down_since.load(Relaxed)).filter(|since| *since != 0)
    }

    /// For how many milliseconds it was so in all.
    pub fn downtime(&self, now: Millis) -> u64 {
        let before = self.downtime.load(Relaxed);
        before + self.down_since().map_or(0, |since| now.saturating_sub(since))
    }

    /// The time at which the server was chosen last.
    pub fn selected(&self) -> Option<Millis> {
        Some(self.selected.load(Relaxed)).filter(|at| *at != 0)
    }

    /// The moving averages of the times until there is a connection, until the head of a response (of a session: its first
    /// byte), and until its end. `None`: not known.
    pub fn averages(&self) -> [Option<Duration>; 3] {
        [&self.connect_average, &self.header_average, &self.last_byte_average]
            .map(|average| Some(average.load(Relaxed)).filter(|us| *us != 0).map(Duration::from_micros))
    }

    /// Stops holding the server back for checks that have not begun, because they no longer will.
    pub fn unhold(&self) {
        let held = self.held.swap(0, Relaxed);
        let before = self.checking.fetch_sub(held, Relaxed);
        debug_assert!(before >= held, "{held} checks have not begun, and {before} have not ended");
        self.note_state(crate::clock::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_server_was_down_is_added_up() {
        let live = Live::default();
        live.note_state(5);
        assert_eq!((live.down_since(), live.downtime(9)), (None, 0));
        live.until.store(100, Relaxed);
        live.note_state(10);
        live.unhealthy.store(1, Relaxed);
        live.note_state(20);
        assert_eq!((live.down_since(), live.downtime(25)), (Some(10), 15));
        live.until.store(0, Relaxed);
        live.note_state(30);
        live.unhealthy.store(0, Relaxed);
        live.note_state(40);
        assert_eq!((live.down_since(), live.downtime(99)), (None, 30));
        live.checking.store(1, Relaxed);
        live.note_state(0);
        assert_eq!((live.down_since(), live.downtime(2)), (Some(1), 31));
    }
}
