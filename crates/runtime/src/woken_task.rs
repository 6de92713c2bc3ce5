//! The place of a task that was woken, as other threads and the loop itself tell it to the loop.

/// The table of the loop that a task is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// The future that the loop itself runs.
    Root,
    /// The table of tasks of all kinds.
    Single,
    /// Tables with tasks of one kind each; the index says which.
    Own,
}

/// The place of a task that was woken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WokenPlace {
    /// The table that the task is in.
    pub(crate) kind: TableKind,
    /// The task's place there.
    pub(crate) index: u32,
}
