//! Memory that a loop has freed and has no use for soon: it goes back to the system when the loop has time.
//!
//! An allocator returns freed memory while it gets requests for more. A loop at rest asks for nothing, so what a burst
//! of work has left would stay with the process until the next one.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use freerun_sys::memory;

use crate::loop_stats::LoopStats;
use crate::timer;

/// Interval at which a loop looks whether it is at rest.
const PERIOD: Duration = Duration::from_secs(5);

/// A loop that polls its tasks less often than this in a period is at rest: for a moment that giving back takes, nobody waits.
const FEW: u64 = 1_000;

/// Number of polls after the last release of memory, from which another look is worth its cost.
const MANY: u64 = 1_000;

thread_local! {
    /// Much was freed on this thread since memory was given back.
    static FREED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that much was freed on this thread, so that it is given back when the loop has come to rest.
pub fn was_freed() {
    FREED.set(true);
}

/// Gives memory back whenever the loop with these statistics has come to rest. To be spawned on that loop.
pub async fn give_back_at_rest(stats: Arc<LoopStats>) {
    let (mut before, mut since_given) = (0, 0);
    loop {
        timer::sleep(PERIOD).await;
        let polls = stats.polls.snapshot().count();
        since_given += polls - before;
        if polls - before < FEW && (since_given >= MANY || FREED.get()) {
            FREED.set(false);
            memory::give_back_own();
            since_given = 0;
        }
        before = polls;
    }
}
