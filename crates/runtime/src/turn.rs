//! Budget of a task before other tasks of its loop get their turn.

use std::cell::Cell;
use std::time::Instant;

/// The budget of one poll for work that could go on without end: a number of reads, see
/// [`consume_budget`](crate::loops::consume_budget), or the same amount as [`spend`] counts it.
const BUDGET: u32 = 128 * READ as u32;

/// The cost of a read, in bytes of framing. With chunks of one byte each, parsing this number of bytes takes 20 µs.
/// Reading 32 KiB of a body as it is and sending them on takes as long.
pub(crate) const READ: usize = 4096;

/// Time of an action that costs [`READ`], in nanoseconds.
const NANOS_OF_READ: u128 = 20_000;

const _: () = assert!(BUDGET >= 16 * READ as u32, "a task gets more done in its turn than a few reads");

thread_local! {
    static BUDGET_LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// Notes the number of bytes of a read that were framing, which is parsed byte by byte. With chunks, or records, of one
/// byte each a read has as many of them as bytes. The next [`consume_budget`](crate::loops::consume_budget) lets other
/// tasks have their turn.
pub fn spend(framing: usize) {
    let framing = u32::try_from(framing).unwrap_or(u32::MAX);
    BUDGET_LEFT.set(BUDGET_LEFT.get().saturating_sub(framing));
}

/// Does a piece of work whose cost its size does not tell, such as replacing in a text, and notes the time that it takes as
/// [`spend`] notes bytes. It is measured by the clock: whatever keeps the thread from running costs the task its turn, too.
pub fn measured<T>(work: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = work();
    let cost = begin.elapsed().as_nanos().saturating_mul(READ as u128) / NANOS_OF_READ;
    spend(usize::try_from(cost).unwrap_or(usize::MAX));
    done
}

/// To be called before each poll of a task, or before the polls of several short ones.
pub(crate) fn fill_budget() {
    BUDGET_LEFT.set(BUDGET);
}

/// Whether the tasks that follow in the same row may do any work.
pub(crate) fn has_budget() -> bool {
    BUDGET_LEFT.get() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_as_long_as_the_budget_ends_the_turn() {
        fill_budget();
        assert_eq!(measured(|| 7), 7);
        assert!(has_budget(), "a moment's work leaves most of it");
        let all = u128::from(BUDGET) * NANOS_OF_READ / READ as u128;
        measured(|| {
            let begin = Instant::now();
            while begin.elapsed().as_nanos() <= all {}
        });
        assert!(!has_budget());
        fill_budget();
    }
}
