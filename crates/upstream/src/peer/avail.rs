//! Whether a server can be asked now, and what its answers change about that.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::Duration;

use super::Peer;
use crate::clock::Millis;
use crate::failure::Verdict;
use crate::method::Measure;

/// What one unit of a configured weight counts, so that a slow start has steps to climb.
pub(crate) const SCALE: u32 = 256;

/// The largest weight that is told apart from a larger one; products with [`SCALE`] and with connections fit.
pub(crate) const MAX_WEIGHT: u32 = 1 << 20;

/// Each new time counts for one part in so many of the average.
const AVERAGED_OVER: u64 = 8;

/// After so many milliseconds without a measurement, the average counts half.
const FORGOTTEN: Millis = 10_000;

/// The mean age of requests on their way counts up to so many milliseconds.
const MAX_AGE: i64 = 3_600_000;

fn millis(duration: Duration) -> Millis {
    duration.as_millis().min(u128::from(u64::MAX / 4)) as Millis
}

/// A connection is counted: what is known then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted {
    /// Whether it is the one that tries a server again that was unavailable.
    pub(crate) probe: bool,
}

impl Peer {
    /// Its weight as configured.
    pub(crate) fn configured(&self) -> u32 {
        self.settings.weight.clamp(1, MAX_WEIGHT)
    }

    /// Whether it has as many connections as it may.
    pub(crate) fn full(&self) -> bool {
        self.settings.max_conns > 0 && self.connections.load(Relaxed) >= self.settings.max_conns
    }

    /// Whether failures ever make it unavailable. What is known of them may come from a configuration in which they did.
    pub(crate) fn fails_count(&self) -> bool {
        self.settings.max_fails > 0 && !self.single
    }

    /// Whether it may be asked now, leaving aside how many connections it has and whether it is drained.
    pub(crate) fn usable(&self, now: Millis) -> bool {
        !self.settings.down
            && self.unhealthy.load(Relaxed) == 0
            && self.checking.load(Relaxed) == 0
            && (!self.fails_count() || self.until.load(Relaxed) <= now)
            && (self.single || self.ejected.load(Relaxed) <= now)
    }

    /// Whether it may be asked by anyone.
    pub(crate) fn open(&self, now: Millis) -> bool {
        !self.settings.drain && self.usable(now) && !self.full()
    }

    /// The weight with which it takes part in turns, in units of 1/[`SCALE`]; `None`: it cannot be asked.
    pub(crate) fn weight(&self, now: Millis) -> Option<u32> {
        if !self.open(now) {
            return None;
        }
        let configured = self.configured();
        if self.single {
            return Some(configured * SCALE);
        }
        let lost = if self.fails_count() { self.lost.load(Relaxed).min(configured) } else { 0 };
        if lost > 0 {
            // It comes back by one with each choice. Two loops that store the same lose one step, which is none.
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

    /// Counts a connection, unless others have taken the last one, or another request tries the server already.
    pub(crate) fn admit(&self, now: Millis) -> Option<Admitted> {
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
        Some(Admitted { probe })
    }

    /// Gives the place of a connection back.
    pub(crate) fn release(&self) {
        // Seen by who enters the queue and looks, or the queue is seen here.
        self.connections.fetch_sub(1, SeqCst);
        self.state.released();
    }

    /// The one attempt that tried the server again went well: it is no longer unavailable.
    pub(crate) fn good(&self, now: Millis) {
        self.fails.store(0, Relaxed);
        self.until.store(0, Relaxed);
        self.recovered.store(now.max(1), Relaxed);
    }

    /// An attempt failed.
    pub(crate) fn bad(&self, now: Millis) -> Verdict {
        let settings = &self.settings;
        if !self.fails_count() {
            return Verdict::default();
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
            return Verdict::default();
        }
        self.until.store(now + timeout.max(1), Relaxed);
        self.figures.unavailable.fetch_add(1, Relaxed);
        Verdict { disabled: true, ejected: false }
    }

    /// An answer was an error, or was none. Says whether the server is ejected for it.
    pub(crate) fn answered(&self, error: bool, now: Millis) -> bool {
        let Some(rules) = &self.outlier else { return false };
        rules.count(&self.live, error, now) && !self.single && rules.eject(&self.live, &self.state, now)
    }

    /// How slow it is, and how busy: what `least_time` compares. Of one that nothing is known of it is 0, so that it is tried.
    pub(crate) fn slowness(&self, measure: Measure, inflight: bool, now: Millis) -> u64 {
        let average = match measure {
            Measure::Header => &self.header_average,
            Measure::LastByte => &self.last_byte_average,
        };
        // What was measured long ago counts less and less: a server that was slow once is tried again.
        let old = now.saturating_sub(self.measured.load(Relaxed)) / FORGOTTEN;
        let mut time = average.load(Relaxed) >> old.min(63);
        let waiting = u64::from(self.inflight.load(Relaxed));
        if inflight && waiting > 0 {
            // Counter and sum are read one after the other; what one of them has and the other has not must not count.
            let age = now.wrapping_mul(waiting).wrapping_sub(self.begun.load(Relaxed)) as i64 / waiting as i64;
            time = time.max((age.clamp(0, MAX_AGE) as u64) * 1000);
        }
        time.saturating_mul(u64::from(self.connections()) + 1)
    }

    /// A request is on its way that began at this time.
    pub(crate) fn on_its_way(&self, begun: Millis) {
        if self.ages {
            self.begun.fetch_add(begun, Relaxed);
            self.inflight.fetch_add(1, Relaxed);
        }
    }

    /// It is not any more.
    pub(crate) fn arrived(&self, begun: Millis) {
        if self.ages {
            self.begun.fetch_sub(begun, Relaxed);
            self.inflight.fetch_sub(1, Relaxed);
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
