//! The clock of a loop: the time at which the current poll began. On other threads it is the kernel's clock.

use std::cell::Cell;
use std::time::Instant;

/// The instant that the process counts its monotonic nanoseconds from.
pub fn epoch() -> Instant {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The start of the current poll, or the end of the last one: accurate enough for anything that happens within the
/// poll.
#[derive(Clone, Copy)]
struct Now {
    instant: Instant,
    /// The nanoseconds from [`epoch`] to `instant`.
    nanos: u64,
}

thread_local! {
    /// The time of the loop that runs on this thread.
    static NOW: Cell<Option<Now>> = const { Cell::new(None) };
}

/// Reads the kernel's clock, and sets the time of this thread's loop to it. In nanoseconds since [`epoch`].
pub(crate) fn look() -> u64 {
    let instant = Instant::now();
    let nanos = since_epoch(instant);
    NOW.set(Some(Now { instant, nanos }));
    nanos
}

/// Ends the clock of this thread's loop, which has ended: from here on the time is asked of the kernel again.
pub(crate) fn tear_down() {
    NOW.set(None);
}

/// The start of the current poll: the time to the accuracy of one poll, without asking the kernel.
pub fn now() -> Instant {
    NOW.get().map_or_else(Instant::now, |now| now.instant)
}

/// [`now`] in nanoseconds since the process began.
pub fn nanos() -> u64 {
    NOW.get().map_or_else(|| since_epoch(Instant::now()), |now| now.nanos)
}

/// [`nanos`], on a loop's thread; `None` elsewhere.
pub fn nanos_here() -> Option<u64> {
    NOW.get().map(|now| now.nanos)
}

/// [`now`] in milliseconds since the process began: the clock for times that are counted in milliseconds.
pub fn millis() -> u64 {
    nanos() / 1_000_000
}

fn since_epoch(now: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX - 1)
}
