//! Tests of what has to happen in time, on machines that are not always on time.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// The most runs of a test.
const TIMES: u32 = 20;

/// The steps of a client that must not pause for long, or the server would rightly end its connection.
#[derive(Debug)]
pub struct Steps {
    longest: Duration,
    last: Cell<Instant>,
    is_late: Cell<bool>,
}

impl Steps {
    /// Notes that the client has done something that the server notices.
    pub fn step(&self) {
        let now = Instant::now();
        if now - self.last.replace(now) > self.longest {
            self.is_late.set(true);
        }
    }

    /// Notes the same, and rests for a while.
    pub fn rest(&self, time: Duration) {
        self.step();
        std::thread::sleep(time);
    }
}

/// Runs a test, and runs it again if it fails after more than `longest` has passed between two of its steps. The
/// machine had no time for the client then, so that the failure says nothing about the server.
pub fn on_time(longest: Duration, test: impl Fn(&Steps)) {
    for left in (0..TIMES).rev() {
        let steps = Steps { longest, last: Cell::new(Instant::now()), is_late: Cell::new(false) };
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| test(&steps))) else { return };
        steps.step();
        if !steps.is_late.get() || left == 0 {
            resume_unwind(failure);
        }
    }
}
