//! The share of a loop's time that handshakes may take.
//!
//! Each loop has a credit of time. It grows while time passes, and handshakes on the loop use it up. When there is none
//! left, they go to a pool, so that connections that are established wait for few of them.

use std::cell::Cell;

use freerun_runtime::loops;
use freerun_runtime::stats::Histogram;
use std::time::Instant;

/// The most credit, in nanoseconds: a loop that has had no handshakes for a while may do so much in a row.
const MOST: u64 = 1_000_000;

/// Of how many nanoseconds that pass one is credited.
const PART: u64 = 2;

thread_local! {
    /// The credit, and when it was last looked at, in nanoseconds since the process began.
    static CREDIT: Cell<(u64, u64)> = const { Cell::new((MOST, 0)) };
}

/// Whether a handshake may go on here now.
pub(super) fn has_time() -> bool {
    let now = loops::nanos();
    let (credit, since) = CREDIT.get();
    let credit = (credit + now.saturating_sub(since) / PART).min(MOST);
    CREDIT.set((credit, now));
    credit > 0
}

/// Does a step of a handshake, and takes the time for it off the credit. `steps` notes it too.
pub(super) fn spend<T>(steps: &Histogram, step: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = step();
    let took = begin.elapsed();
    steps.record(took);
    let spent = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let (credit, since) = CREDIT.get();
    CREDIT.set((credit.saturating_sub(spent), since));
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_did_long_handshakes_has_no_time_until_time_has_passed() {
        let finished = loops::block_on(async {
            assert!(has_time());
            spend(&Histogram::default(), || {
                let begin = Instant::now();
                while begin.elapsed().as_nanos() < u128::from(MOST) * 2 {}
            });
            let (credit, since) = CREDIT.get();
            assert_eq!(credit, 0);
            // The loop's clock stands as long as it does not look.
            CREDIT.set((0, loops::nanos()));
            assert!(!has_time());
            CREDIT.set((0, loops::nanos().saturating_sub(10 * PART).min(since)));
            has_time()
        });
        assert!(finished.unwrap());
    }
}
