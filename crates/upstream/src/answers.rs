//! The record of a server's answers, for the outlier detection.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clock::Millis;

/// The record of a server's answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    in_a_row: AtomicU32,
    /// Begin of the window.
    window: AtomicU64,
    /// The number of answers in the window, in the lower half, and of errors, in the upper half.
    counted: AtomicU64,
    /// Number of times that the server was ejected, less the windows that went well since.
    ejections: AtomicU32,
}

const ERROR: u64 = 1 << 32;

/// A summary of a server's answers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Number of errors in a row, up to and including the last answer.
    pub(crate) in_a_row: u32,
    /// Number of answers of the window that were errors.
    pub(crate) errors: u64,
    /// Number of answers in the window.
    pub(crate) all: u64,
}

impl Answers {
    /// Counts an answer in a window of the given length. `None`: the answer does not speak against the server.
    pub(crate) fn count(&self, window: Millis, error: bool, now: Millis) -> Option<Tally> {
        let began = self.window.load(Relaxed);
        if now.saturating_sub(began) > window && self.window.compare_exchange(began, now, Relaxed, Relaxed).is_ok() {
            let before = self.counted.swap(0, Relaxed);
            if before != 0 && before >> 32 == 0 {
                let less = |count: u32| Some(count.saturating_sub(1));
                let _ = self.ejections.fetch_update(Relaxed, Relaxed, less);
            }
        }
        let counted = self.counted.fetch_add(1 + if error { ERROR } else { 0 }, Relaxed) + 1;
        if !error {
            self.in_a_row.store(0, Relaxed);
            return None;
        }
        let in_a_row = self.in_a_row.fetch_add(1, Relaxed) + 1;
        let (errors, all) = ((counted >> 32) + 1, counted & u64::from(u32::MAX));
        debug_assert!(errors <= all, "{errors} of {all} answers are errors");
        Some(Tally { in_a_row, errors, all })
    }

    /// Records that the server is ejected and forgets the answers counted so far, because they have had their
    /// consequence. Returns how many times it was ejected in all, less the windows that went well since.
    pub(crate) fn ejected(&self) -> u32 {
        let times = self.ejections.fetch_add(1, Relaxed).saturating_add(1);
        self.in_a_row.store(0, Relaxed);
        self.counted.store(0, Relaxed);
        times
    }
}
