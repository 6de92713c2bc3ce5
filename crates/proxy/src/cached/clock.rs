//! The clock of caches.

use freerun_runtime::log::clock;

/// The current time in unix seconds, which caches use.
pub fn unix_now() -> u64 {
    u64::try_from(clock::now().secs).unwrap_or(0)
}
