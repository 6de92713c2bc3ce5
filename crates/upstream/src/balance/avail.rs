//! Whether a server can be asked now, and what its answers change about that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Millis;
use crate::lease::{Lease, Verdict};
use crate::peer::Peer;

/// What one unit of a configured weight counts, so that a slow start has steps to climb.
pub(crate) const SCALE: u32 = 256;

/// The largest weight that is told apart from a larger one; products with [`SCALE`] and with connections fit.
pub(crate) const MAX_WEIGHT: u32 = 1 << 20;

/// Each new time counts for one part in so many of the average.
const AVERAGED_OVER: u64 = 8;

fn millis(duration: Duration) -> Millis {
    duration.as_millis().min(u128::from(u64::MAX / 4)) as Millis
}

impl Peer {
    /// The weight with which it takes part in a choice, in units of 1/[`SCALE`]; `None`: it cannot be asked.
    pub(crate) fn weight(&self, now: Millis) -> Option<u32> {
        let settings = &self.settings;
        if settings.down
            || self.unhealthy.load(Relaxed) > 0
            || self.checking.load(Relaxed) > 0
            || (settings.max_conns > 0 && self.connections.load(Relaxed) >= settings.max_conns)
        {
            return None;
        }
        let configured = settings.weight.clamp(1, MAX_WEIGHT);
        if self.single {
            return Some(configured * SCALE);
        }
        if self.until.load(Relaxed) > now || self.ejected.load(Relaxed) > now {
            return None;
        }
        let lost = self.lost.load(Relaxed).min(configured);
        if lost > 0 {
            // It comes back by one with each choice. Two loops that store the same lose one step, which is none.
            self.lost.store(lost - 1, Relaxed);
        }
        let full = (configured - lost) * SCALE;
        let since = self.recovered.load(Relaxed);
        if since == 0 || settings.slow_start.is_zero() {
            return Some(full);
        }
        let (passed, whole) = (now.saturating_sub(since), millis(settings.slow_start));
        if passed >= whole {
            return Some(full);
        }
        Some(((u64::from(full) * passed / whole) as u32).max(1))
    }

    /// Counts a connection, unless others have taken the last one, or another request tries the server already.
    pub(crate) fn acquire(self: &Arc<Peer>, now: Millis) -> Option<Lease> {
        let most = self.settings.max_conns;
        let counted = self
            .connections
            .fetch_update(Relaxed, Relaxed, |count| if most > 0 && count >= most { None } else { Some(count + 1) });
        counted.ok()?;
        let until = self.until.load(Relaxed);
        let probe = until != 0 && !self.single;
        if probe {
            let next = now + millis(self.settings.fail_timeout).max(1);
            if until > now || self.until.compare_exchange(until, next, Relaxed, Relaxed).is_err() {
                self.release();
                return None;
            }
        }
        Some(Lease::new(self.clone(), now, probe))
    }

    /// Gives the place of a connection back.
    pub(crate) fn release(&self) {
        self.connections.fetch_sub(1, Relaxed);
        self.state.released();
    }

    /// An attempt went well. If it was the one that tried a server which was unavailable, it no longer is.
    pub(crate) fn good(&self, probe: bool, now: Millis) {
        if probe {
            self.fails.store(0, Relaxed);
            self.until.store(0, Relaxed);
            self.recovered.store(now.max(1), Relaxed);
        }
    }

    /// An attempt failed.
    pub(crate) fn bad(&self, now: Millis) -> Verdict {
        let settings = &self.settings;
        if settings.max_fails == 0 || self.single {
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
        let weight = settings.weight.clamp(1, MAX_WEIGHT);
        let lost = self.lost.load(Relaxed).saturating_add(weight / settings.max_fails).min(weight);
        self.lost.store(lost, Relaxed);
        if fails < settings.max_fails {
            return Verdict::default();
        }
        self.until.store(now + timeout.max(1), Relaxed);
        self.figures.unavailable.fetch_add(1, Relaxed);
        Verdict { disabled: true }
    }

    /// Adds a time to a moving average.
    pub(crate) fn averaged(&self, average: &AtomicU64, took: Duration) {
        let took = (took.as_micros().min(u128::from(u64::MAX / 2)) as u64).max(1);
        let before = average.load(Relaxed);
        let next = if before == 0 { took } else { before - before / AVERAGED_OVER + took.div_ceil(AVERAGED_OVER) };
        average.store(next, Relaxed);
    }
}
