//! How much a task may do before others of its loop have their turn.

use std::cell::Cell;

/// How much a task may do in one poll that it could do without end: so many reads, see [`consume_budget`](crate::loops::consume_budget), or as much of what
/// [`spend`] counts.
const BUDGET: u32 = 128 * READ as u32;

/// What a read counts for, in bytes of framing. With chunks of one byte each, so many of them take 20 µs to be looked at, as long as it
/// takes to read 32 KiB of a body as it is and to send them on.
pub(crate) const READ: usize = 4096;

thread_local! {
    static BUDGET_LEFT: Cell<u32> = const { Cell::new(BUDGET) };
}

/// Takes note that what came with a read was much work: so many bytes of it were framing, which is looked at byte by byte. Who is
/// sent chunks, or records, of one byte each finds as many of them in a read as it has bytes. It is the next
/// [`consume_budget`](crate::loops::consume_budget) that lets others have their turn.
pub fn spend(framing: usize) {
    let framing = u32::try_from(framing).unwrap_or(u32::MAX);
    BUDGET_LEFT.set(BUDGET_LEFT.get().saturating_sub(framing));
}

/// To be called before each poll of a task, or of several that are short.
pub(crate) fn fill_budget() {
    BUDGET_LEFT.set(BUDGET);
}

/// Whether those that follow in the same row may do anything.
pub(crate) fn has_budget() -> bool {
    BUDGET_LEFT.get() > 0
}
