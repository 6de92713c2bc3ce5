//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// How long a condition may take on a loaded machine before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Asks again and again until the condition holds.
///
/// # Panics
/// When it does not within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE, &mut holds), "not within {PATIENCE:?}: {what}");
}

/// Whether the condition came to hold within a time.
pub fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}
