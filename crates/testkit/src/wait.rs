//! Waiting until a condition holds.

use std::time::{Duration, Instant};

/// The time that a condition may take on a loaded machine before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Tests the condition repeatedly until it holds.
///
/// # Panics
/// The condition does not hold within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE, &mut holds), "not within {PATIENCE:?}: {what}");
}

/// The longest part of a waiting time that one look counts for: if the machine stops, that time is not counted.
pub(crate) const SLICE: Duration = Duration::from_millis(250);

/// Whether the condition holds within a time.
pub fn within(time: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let mut left = time;
    loop {
        let begun = Instant::now();
        if holds() {
            return true;
        }
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(3));
        left = left.saturating_sub(begun.elapsed().min(SLICE));
    }
}
