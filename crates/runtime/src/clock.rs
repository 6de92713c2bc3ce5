//! The clock of a loop: the time at which the current poll began. On other threads it is the kernel's clock.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The moment that the process counts its monotonic nanoseconds from.
struct Epoch {
    instant: Instant,
    /// The same moment on the kernel's clock, or a moment later: no [`Instant`] that is made of nanoseconds is in
    /// the future.
    kernel: u64,
}

/// Number of times that both clocks are read for the epoch.
const EPOCH_LOOKS: u32 = 8;

impl Epoch {
    /// The present moment, and by how many nanoseconds its parts are apart at most.
    fn look() -> (u64, Epoch) {
        let before = kernel_nanos();
        let instant = Instant::now();
        let kernel = kernel_nanos();
        (kernel - before, Epoch { instant, kernel })
    }

    fn get() -> &'static Epoch {
        static EPOCH: OnceLock<Epoch> = OnceLock::new();
        // The thread may lose its processor between two looks: the pair that is closest counts.
        EPOCH.get_or_init(|| (0..EPOCH_LOOKS).map(|_| Epoch::look()).min_by_key(|(gap, _)| *gap).expect("a look").1)
    }
}

/// The instant that the process counts its monotonic nanoseconds from.
pub fn epoch() -> Instant {
    Epoch::get().instant
}

/// The start of the current poll, or the end of the last one: accurate enough for anything that happens within the
/// poll.
#[derive(Clone, Copy)]
struct Now {
    /// The nanoseconds since [`epoch`].
    nanos: u64,
    /// The time as an instant, if a poll needed it already: few polls do, and the conversion costs more than the clock.
    instant: Option<Instant>,
}

thread_local! {
    /// The time of the loop that runs on this thread.
    static NOW: Cell<Option<Now>> = const { Cell::new(None) };
}

/// Reads the kernel's clock, and sets the time of this thread's loop to it. In nanoseconds since [`epoch`].
pub(crate) fn look() -> u64 {
    let nanos = since_epoch();
    NOW.set(Some(Now { nanos, instant: None }));
    nanos
}

/// Ends the clock of this thread's loop, which has ended: from here on the time is asked of the kernel again.
pub(crate) fn tear_down() {
    NOW.set(None);
}

/// The start of the current poll: the time to the accuracy of one poll, without asking the kernel.
pub fn now() -> Instant {
    let Some(now) = NOW.get() else { return Instant::now() };
    now.instant.unwrap_or_else(|| {
        let instant = epoch() + Duration::from_nanos(now.nanos);
        NOW.set(Some(Now { instant: Some(instant), ..now }));
        instant
    })
}

/// [`now`] in nanoseconds since the process began.
pub fn nanos() -> u64 {
    nanos_here().unwrap_or_else(since_epoch)
}

/// [`nanos`], on a loop's thread; `None` elsewhere.
pub fn nanos_here() -> Option<u64> {
    NOW.get().map(|now| now.nanos)
}

/// [`now`] in milliseconds since the process began: the clock for times that are counted in milliseconds.
pub fn millis() -> u64 {
    nanos() / 1_000_000
}

/// A duration in milliseconds, at most `u64::MAX`.
#[inline]
pub fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration in nanoseconds, at most `u64::MAX`: five hundred years.
#[inline]
pub fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The kernel's monotonic clock (`CLOCK_MONOTONIC`, clock_gettime(2)); [`Instant`] uses it, too.
fn kernel_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The clock begins when the machine does.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn since_epoch() -> u64 {
    kernel_nanos().saturating_sub(Epoch::get().kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_and_instants_are_of_one_clock() {
        let before = Instant::now();
        let nanos = look();
        let now = now();
        let after = Instant::now();
        assert!(
            now <= after && after - now <= (after - before) + Duration::from_millis(1),
            "{before:?} {now:?} {after:?}"
        );
        assert_eq!(now, epoch() + Duration::from_nanos(nanos));
        assert_eq!((super::now(), super::nanos(), nanos_here()), (now, nanos, Some(nanos)));
        // It stands still until the loop looks again.
        while look() == nanos {}
        assert!(super::nanos() > nanos && super::now() > now);
        tear_down();
        assert!(nanos_here().is_none() && super::nanos() > nanos && super::now() >= after);
    }
}
