//! How much a task may do before other tasks of its loop get their turn.

use std::cell::Cell;

/// The budget of one poll for work that could go on without end: so many reads, see
/// [`consume_budget`](crate::loops::consume_budget), or the same amount as [`spend`] counts it.
const BUDGET: u32 = 128 * READ as u32;

/// The cost of a read, in bytes of framing. With chunks of one byte each, it takes 20 µs to parse this many bytes of
/// framing, as long as it takes to read 32 KiB of a body as it is and to send them on.
pub(crate) const READ: usize = 4096;

thread_local! {
    static BUDGET_LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// Notes that the bytes of a read were much work: so many bytes of them were framing, which is parsed byte by byte.
/// With chunks, or records, of one byte each a read has as many of them as bytes. The next
/// [`consume_budget`](crate::loops::consume_budget) lets other tasks have their turn.
pub fn spend(framing: usize) {
    let framing = u32::try_from(framing).unwrap_or(u32::MAX);
    BUDGET_LEFT.set(BUDGET_LEFT.get().saturating_sub(framing));
}

/// To be called before each poll of a task, or before the polls of several short ones.
pub(crate) fn fill_budget() {
    BUDGET_LEFT.set(BUDGET);
}

/// Whether the tasks that follow in the same row may do any work.
pub(crate) fn has_budget() -> bool {
    BUDGET_LEFT.get() > 0
}
