//! What is known of a server while it runs.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::answers::Answers;
use crate::figures::Figures;
use crate::pool::Pool;

/// What is known of a server while it runs. It goes on with its address: over changes of the group, of its settings, and
/// reloads.
///
/// The counters that every choice reads come first and together, so that looking at a server touches two lines of the cache;
/// what only requests write comes after them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Live {
    /// A number that no other server of the process has or had; never 0.
    pub id: u32,
    /// Connections in use, and attempts to make one.
    pub(crate) connections: AtomicU32,
    /// Failures since `window`.
    pub(crate) fails: AtomicU32,
    /// How much of the weight failures took; it comes back by one with each choice.
    pub(crate) lost: AtomicU32,
    /// When the first of `fails` was.
    pub(crate) window: AtomicU64,
    /// Until when it is unavailable. 0: it is not. A time that has passed: one request may try.
    pub(crate) until: AtomicU64,
    /// Since when it has its weight back, for the slow start; 0: always had it.
    pub(crate) recovered: AtomicU64,
    /// How many health checks say that it is unhealthy.
    pub(crate) unhealthy: AtomicU32,
    /// How many mandatory health checks have not spoken yet.
    pub(crate) checking: AtomicU32,
    /// How many of these have not even begun: the server is new.
    pub(crate) held: AtomicU32,
    /// Until when the outlier detection keeps it out; 0: it does not.
    pub(crate) ejected: AtomicU64,
    /// Moving average of the time to the response's head, microseconds; 0: not known.
    pub(crate) header_average: AtomicU64,
    /// Moving average of the time to the response's end, microseconds; 0: not known.
    pub(crate) last_byte_average: AtomicU64,
    /// When a time was measured last.
    pub(crate) measured: AtomicU64,
    /// Of the requests that are on their way: the sum of the times at which they began. Counted, as their number, where the
    /// method of the group looks at it.
    pub(crate) begun: AtomicU64,
    /// How many requests are in `begun`.
    pub(crate) inflight: AtomicU32,
    /// What the outlier detection remembers.
    pub(crate) answers: Answers,
    /// What is counted.
    pub figures: Figures,
    /// Connections to it that have room for further requests.
    pub pool: Pool,
}

static IDS: AtomicU32 = AtomicU32::new(1);

impl Default for Live {
    fn default() -> Live {
        // Numbers repeat after four billion servers; all that happens then is a session that sticks to the wrong one.
        let id = IDS.fetch_add(1, Relaxed).max(1);
        Live {
            id,
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
            header_average: AtomicU64::new(0),
            last_byte_average: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            inflight: AtomicU32::new(0),
            answers: Answers::default(),
            figures: Figures::default(),
            pool: Pool::default(),
        }
    }
}

impl Live {
    /// A new server, which is asked by nobody before so many checks have begun and spoken.
    pub(crate) fn held(checks: u32) -> Live {
        Live { checking: AtomicU32::new(checks), held: AtomicU32::new(checks), ..Live::default() }
    }

    /// Checks that have not begun by now will not.
    pub fn unhold(&self) {
        let held = self.held.swap(0, Relaxed);
        self.checking.fetch_sub(held, Relaxed);
    }
}
