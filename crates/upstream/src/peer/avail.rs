//! The availability of a server, and how its answers change it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

use freerun_runtime::loops;

use super::Peer;
use crate::clock::Millis;
use crate::failure::FailureVerdict;
use crate::method::Measure;

/// The value of one unit of a configured weight, so that a slow start can grow in steps.
pub(crate) const SCALE: u32 = 256;

/// The largest weight: larger ones count as this one. Its products with [`SCALE`] and with connections do not overflow.
pub(crate) const MAX_WEIGHT: u32 = 1 << 20;

/// The divisor with which each new time enters the average.
const AVERAGED_OVER: u64 = 8;

/// The upper bound of the mean age of requests in flight, in milliseconds.
const MAX_AGE: i64 = 3_600_000;

fn millis(duration: Duration) -> Millis {
    loops::millis_of(duration).min(u64::MAX / 4)
}

/// The result of counting a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmittedConnection {
    /// Whether this request tries a server that was unavailable.
    pub(crate) probe: bool,
}

impl Peer {
    /// The configured weight of the server.
    pub(crate) fn configured(&self) -> u32 {
        self.settings.weight.clamp(1, MAX_WEIGHT)
    }

    /// The weight of a server that has lost none of it, in units of 1/[`SCALE`].
    pub(crate) fn full_weight(&self) -> u32 {
        self.configured() * SCALE
    }

    /// Whether the server has reached its limit of connections.
    pub(crate) fn full(&self) -> bool {
        self.settings.max_conns > 0 && self.connections.load(Relaxed) >= self.settings.max_conns
    }

    /// Whether failures ever make the server unavailable. Recorded failures may come from a configuration in which they
    /// did.
    pub(crate) fn fails_count(&self) -> bool {
        self.settings.max_fails > 0 && !self.single
    }

    /// Whether the server may be chosen now, leaving aside how many connections it has and whether it is drained.
    pub(crate) fn usable(&self, now: Millis) -> bool {
        !self.settings.down
            && self.unhealthy.load(Relaxed) == 0
            && self.checking.load(Relaxed) == 0
            && (!self.fails_count() || self.until.load(Relaxed) <= now)
            && (self.single || self.ejected.load(Relaxed) <= now)
    }

    /// Whether the server may be chosen for any client.
    pub(crate) fn open(&self, now: Millis) -> bool {
        !self.settings.drain && self.usable(now) && !self.full()
    }

    /// The weight with which the server takes part in turns, in units of 1/[`SCALE`]; `None`: it cannot be chosen.
    pub(crate) fn weight(&self, now: Millis) -> Option<u32> {
        if !self.open(now) {
            return None;
        }
        let configured = self.configured();
        if self.single {
            return Some(self.full_weight());
        }
        let lost = if self.fails_count() { self.lost.load(Relaxed).min(configured) } else { 0 };
        if lost > 0 {
            // The weight comes back by one with each choice. If two loops store the same value, one step is lost, which
            // does no harm.
            self.lost.store(lost - 1, Relaxed);
        }
        let full = (configured - lost) * SCALE;
        let since = self.recovered.load(Relaxed);
        if since == 0 {
            return Some(full);
        }
        let (passed, whole) = (now.saturating_sub(since), millis(self.settings.slow_start));
        if passed >= whole {
            return Some(full);
        }
        Some(((u64::from(full) * passed / whole) as u32).max(1))
    }

    /// Counts a connection, unless the last free place is taken, or another request already tries the server.
    pub(crate) fn admit(&self, now: Millis) -> Option<AdmittedConnection> {
        let most = self.settings.max_conns;
        if most == 0 {
            self.connections.fetch_add(1, Relaxed);
        } else {
            let room = |count| if count >= most { None } else { Some(count + 1) };
            self.connections.fetch_update(Relaxed, Relaxed, room).ok()?;
        }
        let until = self.until.load(Relaxed);
        let probe = until != 0 && self.fails_count();
        if probe {
            let next = now + millis(self.settings.fail_timeout).max(1);
            if until > now || self.until.compare_exchange(until, next, Relaxed, Relaxed).is_err() {
                self.release();
                return None;
            }
        }
        Some(AdmittedConnection { probe })
    }

    /// Gives the place of a connection back.
    pub(crate) fn release(&self) {
        // A request that enters the queue afterwards sees this place, or else the queue is seen here.
        let before = self.connections.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a connection is given back that was not counted");
        self.state.released();
    }

    /// Records that the attempt that tried the server again succeeded: the server is no longer unavailable.
    pub(crate) fn good(&self, now: Millis) {
        self.fails.store(0, Relaxed);
        self.until.store(0, Relaxed);
        self.recovered.store(now.max(1), Relaxed);
        self.note_state(now);
    }

    /// Records that an attempt failed.
    pub(crate) fn bad(&self, now: Millis) -> FailureVerdict {
        let settings = &self.settings;
        if !self.fails_count() {
            return FailureVerdict::default();
        }
        let timeout = millis(settings.fail_timeout);
        let window = self.window.load(Relaxed);
        let fresh = self.fails.load(Relaxed) == 0 || now.saturating_sub(window) > timeout;
        let old = fresh && self.until.load(Relaxed) == 0;
        let fails = if old && self.window.compare_exchange(window, now, Relaxed, Relaxed).is_ok() {
            self.fails.store(1, Relaxed);
            1
        } else {
            self.fails.fetch_add(1, Relaxed).saturating_add(1)
        };
        let weight = self.configured();
        let lost = self.lost.load(Relaxed).saturating_add(weight / settings.max_fails).min(weight);
        self.lost.store(lost, Relaxed);
        if fails < settings.max_fails {
            return FailureVerdict::default();
        }
        self.until.store(now + timeout.max(1), Relaxed);
        self.note_state(now);
        self.figures.unavailable.fetch_add(1, Relaxed);
        FailureVerdict { disabled: true, ejected: false }
    }

    /// Records an answer, which may be an error or missing. Returns whether the server is ejected for it.
    pub(crate) fn answered(&self, error: bool, now: Millis) -> bool {
        let Some(rules) = &self.outlier else { return false };
        rules.count(&self.live, error, now) && !self.single && rules.eject(&self.live, &self.state, now)
    }

    /// The slowness and load of the server, which `least_time` compares. It is 0 for a server without measurements, so
    /// that it is tried.
    pub(crate) fn slowness(&self, measure: Measure, inflight: bool, now: Millis) -> u64 {
        let average = match measure {
            Measure::Connect => &self.connect_average,
            Measure::Header => &self.header_average,
            Measure::LastByte => &self.last_byte_average,
        };
        // A measurement counts half after each `fail_timeout` and a second, so that a server that was slow once is tried again,
        // but not at once if its `fail_timeout` is 0.
        let half_life = millis(self.settings.fail_timeout).saturating_add(1000);
        let old = now.saturating_sub(self.measured.load(Relaxed)) / half_life;
        let mut time = average.load(Relaxed) >> old.min(63);
        let waiting = u64::from(self.inflight.load(Relaxed));
        if inflight && waiting > 0 {
            // The counter and the sum are read one after the other; a request that is in only one of them must not
            // count.
            let age = now.wrapping_mul(waiting).wrapping_sub(self.begun.load(Relaxed)) as i64 / waiting as i64;
            time = time.max((age.clamp(0, MAX_AGE) as u64) * 1000);
        }
        time.saturating_mul(u64::from(self.connections()) + 1)
    }

    /// Records that a request that began at this time is in flight.
    pub(crate) fn on_its_way(&self, begun: Millis) {
        if self.ages {
            self.begun.fetch_add(begun, Relaxed);
            self.inflight.fetch_add(1, Relaxed);
        }
    }

    /// Records that the request is no longer in flight.
    pub(crate) fn arrived(&self, begun: Millis) {
        if self.ages {
            self.begun.fetch_sub(begun, Relaxed);
            let before = self.inflight.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "a request arrives that was not on its way");
        }
    }

    /// Adds a time to a moving average.
    pub(crate) fn averaged(&self, average: &AtomicU64, took: Duration, now: Millis) {
        self.measured.store(now, Relaxed);
        let took = (took.as_micros().min(u128::from(u64::MAX / 2)) as u64).max(1);
        let before = average.load(Relaxed);
        let next = if before == 0 { took } else { before - before / AVERAGED_OVER + took.div_ceil(AVERAGED_OVER) };
        average.store(next, Relaxed);
    }
}
