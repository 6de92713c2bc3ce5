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

/// What one look counts for at most, of a time that is waited: if the machine stops, nobody has had this time.
pub(crate) const SLICE: Duration = Duration::from_millis(250);

/// Whether the condition came to hold within a time.
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
