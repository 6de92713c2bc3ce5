//! The tries of one request or session to be answered by a server of a group: how many there may be. `record.rs` is the
//! record of them, which variables and the log show.

mod record;

use std::time::Duration;

use freerun_runtime::{loops, timer};
use freerun_upstream::TriedServers;

pub use record::{ChosenServer, Took, Try, TryRecord};

/// The limits of the tries, in number and in time.
#[derive(Debug, Clone, Copy)]
pub struct TryLimits {
    /// The value of `proxy_next_upstream_tries`; 0 is no limit.
    pub count: u32,
    /// The value of `proxy_next_upstream_timeout`; 0 is no limit.
    pub time: Duration,
}

/// The tries of one request or session.
#[derive(Debug)]
pub struct Tries {
    /// The servers that were tried.
    pub tried: TriedServers,
    count: u32,
    /// The time when the tries began, in [`loops::nanos`].
    began: u64,
}

impl Default for Tries {
    fn default() -> Tries {
        Tries::new()
    }
}

impl Tries {
    /// The state before the first try, which begins now.
    #[inline]
    pub fn new() -> Tries {
        Tries { tried: TriedServers::new(), count: 0, began: loops::nanos() }
    }

    /// Counts a try that begins.
    pub fn begin(&mut self) {
        self.count += 1;
    }

    /// Whether the limits allow another try.
    pub fn allow(&self, limits: TryLimits) -> bool {
        self.allow_at(limits, loops::nanos())
    }

    fn allow_at(&self, limits: TryLimits, now: u64) -> bool {
        let count = limits.count == 0 || self.count < limits.count;
        count && (limits.time.is_zero() || self.elapsed(now) < limits.time)
    }

    /// The longest time that the choice of a server may wait in the group's `queue`. `None`: it may wait for any time, as
    /// for the first try, for which there are no `limits`.
    pub fn longest_wait(&self, limits: impl FnOnce() -> TryLimits) -> Option<Duration> {
        let longest = (self.count > 0).then(|| limits().time).filter(|longest| !longest.is_zero())?;
        Some(longest.saturating_sub(self.elapsed(loops::nanos())))
    }

    fn elapsed(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.began))
    }
}

/// The output of a future, or `None` if it waits longer than a [`Tries::longest_wait`].
pub async fn wait_within<T>(longest: Option<Duration>, waiting: impl Future<Output = T>) -> Option<T> {
    match longest {
        Some(longest) => timer::timeout(longest, waiting).await.ok(),
        None => Some(waiting.await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_tries_is_limited() {
        let (any, two) = (TryLimits { count: 0, time: Duration::ZERO }, TryLimits { count: 2, time: Duration::ZERO });
        let mut tries = Tries::new();
        assert!(tries.allow(any) && tries.allow(two));
        tries.begin();
        assert!(tries.allow(two));
        tries.begin();
        assert!(tries.allow(any) && !tries.allow(two));
    }

    #[test]
    fn only_further_tries_have_a_limit_of_time() {
        let hour = TryLimits { count: 0, time: Duration::from_secs(3600) };
        let mut tries = Tries::new();
        assert_eq!(tries.longest_wait(|| hour), None);
        tries.begin();
        assert!(tries.longest_wait(|| hour).is_some_and(|left| left <= hour.time && !left.is_zero()));
        assert_eq!(tries.longest_wait(|| TryLimits { time: Duration::ZERO, ..hour }), None);
        assert!(tries.allow_at(hour, tries.began + 1) && !tries.allow_at(hour, tries.began + 3_600_000_000_000));
    }
}
