//! Lists of a connection. A connection that is left alone for long has nothing in them, and holds no more than a
//! pointer.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use super::connection::StreamEnd;
use super::stream::Slot;
use crate::priority::Priority;

/// The lists; a pointer as long as there was nothing in them. What only looks at them makes none.
#[derive(Debug, Default)]
pub(super) struct Lists(Option<Box<ListContents>>);

/// Contents of the lists.
#[derive(Debug)]
pub(super) struct ListContents {
    /// Streams that were answered before their requests have ended, in the order of their answers, each with its time.
    pub(super) unended: VecDeque<(Slot, u64)>,
    /// The ends of the last streams.
    pub(super) closed: VecDeque<(u32, StreamEnd)>,
    /// Priorities of streams that have not begun.
    pub(super) early: Vec<(u32, Priority)>,
    /// Streams whose owners have waited for room, and may have some.
    pub(super) with_room: VecDeque<Slot>,
    /// Streams whose windows have grown because a reader is there. The next write tells the peer, if more of their
    /// bodies is still to come then.
    pub(super) opened: Vec<Slot>,
}

impl ListContents {
    const fn new() -> ListContents {
        ListContents {
            unended: VecDeque::new(),
            closed: VecDeque::new(),
            early: Vec::new(),
            with_room: VecDeque::new(),
            opened: Vec::new(),
        }
    }
}

impl Deref for Lists {
    type Target = ListContents;

    #[inline]
    fn deref(&self) -> &ListContents {
        static EMPTY: ListContents = ListContents::new();
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Lists {
    #[inline]
    fn deref_mut(&mut self) -> &mut ListContents {
        self.0.get_or_insert_with(|| Box::new(ListContents::new()))
    }
}

impl Lists {
    /// Makes them no longer than this, as far as nothing is in them: they are rarely much longer.
    pub(super) fn shrink_to(&mut self, least: usize) {
        let Some(content) = &mut self.0 else { return };
        content.unended.shrink_to(least);
        content.closed.shrink_to(least);
        content.early.shrink_to(least);
        content.with_room.shrink_to(least);
        content.opened.shrink_to(least);
    }

    /// Forgets how the last streams have ended, and gives up all memory, if nothing else is in the lists. Returns whether
    /// there was any.
    pub(super) fn forget(&mut self) -> bool {
        let Some(content) = &mut self.0 else { return false };
        let is_used = !content.unended.is_empty() || !content.with_room.is_empty() || !content.opened.is_empty();
        if !is_used && content.early.is_empty() {
            self.0 = None;
            return true;
        }
        let had_any = content.closed.capacity() > 0;
        content.closed = VecDeque::new();
        self.shrink_to(0);
        had_any
    }

    /// The number of bytes of memory that they hold.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_deref().map_or(0, |content| {
            size_of::<ListContents>()
                + content.unended.capacity() * size_of::<(Slot, u64)>()
                + content.closed.capacity() * size_of::<(u32, StreamEnd)>()
                + content.early.capacity() * size_of::<(u32, Priority)>()
                + (content.with_room.capacity() + content.opened.capacity()) * size_of::<Slot>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_in_which_nothing_is_hold_no_memory() {
        let mut lists = Lists::default();
        assert!(lists.closed.is_empty() && lists.with_room.is_empty() && lists.early.is_empty());
        assert_eq!(lists.heap_bytes(), 0, "looking makes none");
        assert!(!lists.forget());
        lists.closed.push_back((1, StreamEnd::Complete));
        assert!(lists.heap_bytes() > 0);
        assert!(lists.forget());
        assert_eq!((lists.closed.len(), lists.heap_bytes()), (0, 0));
    }

    #[test]
    fn what_is_still_to_come_is_not_forgotten() {
        let mut lists = Lists::default();
        lists.closed.push_back((1, StreamEnd::Complete));
        lists.early.push((3, Priority::UNKNOWN));
        assert!(lists.forget());
        assert_eq!((lists.closed.len(), lists.early.len()), (0, 1));
        assert!(!lists.forget(), "nothing is left to be forgotten");
    }
}
