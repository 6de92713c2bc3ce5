//! StreamLists of a connection. A connection that is left alone has nothing in them, and holds no more than a pointer.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

use super::stream::StreamId;
use crate::priority::Priority;

/// The lists; a pointer as long as there was nothing in them. What only looks at them makes none.
#[derive(Debug, Default)]
pub(super) struct StreamLists(Option<Box<StreamListContents>>);

/// Contents of the lists.
#[derive(Debug)]
pub(super) struct StreamListContents {
    /// Streams whose sections wait for entries of the table, each with the number of entries.
    pub(super) blocked: Vec<(StreamId, u64)>,
    /// Streams that were blocked, and about which the owner has not heard.
    pub(super) unblocked: VecDeque<StreamId>,
    /// Streams whose heads have not come, in the order of their beginnings, each with its time.
    pub(super) awaited: VecDeque<(StreamId, u64)>,
    /// Streams that have not begun, though one with a higher number has: each range is without its end.
    pub(super) skipped: Vec<(StreamId, StreamId)>,
    /// Priorities of streams that have not begun.
    pub(super) early: Vec<(StreamId, Priority)>,
}

impl StreamListContents {
    const fn new() -> StreamListContents {
        StreamListContents {
            blocked: Vec::new(),
            unblocked: VecDeque::new(),
            awaited: VecDeque::new(),
            skipped: Vec::new(),
            early: Vec::new(),
        }
    }
}

impl Deref for StreamLists {
    type Target = StreamListContents;

    #[inline]
    fn deref(&self) -> &StreamListContents {
        static EMPTY: StreamListContents = StreamListContents::new();
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for StreamLists {
    #[inline]
    fn deref_mut(&mut self) -> &mut StreamListContents {
        self.0.get_or_insert_with(|| Box::new(StreamListContents::new()))
    }
}

impl StreamLists {
    /// Forgets a stream that is closed.
    pub(super) fn forget(&mut self, id: StreamId) {
        if let Some(content) = &mut self.0 {
            content.blocked.retain(|(other, _)| *other != id);
            content.unblocked.retain(|other| *other != id);
            content.awaited.retain(|(other, _)| *other != id);
        }
    }

    /// Gives up all memory, if nothing is in the lists.
    pub(super) fn shrink(&mut self) {
        let is_used = |content: &StreamListContents| {
            let has_streams = !content.blocked.is_empty() || !content.unblocked.is_empty();
            has_streams || !content.awaited.is_empty() || !content.skipped.is_empty() || !content.early.is_empty()
        };
        if !self.0.as_deref().is_some_and(is_used) {
            self.0 = None;
        }
    }

    /// The number of bytes of memory that they hold.
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_deref().map_or(0, |content| {
            size_of::<StreamListContents>()
                + content.blocked.capacity() * size_of::<(StreamId, u64)>()
                + content.unblocked.capacity() * size_of::<StreamId>()
                + content.awaited.capacity() * size_of::<(StreamId, u64)>()
                + content.skipped.capacity() * size_of::<(StreamId, StreamId)>()
                + content.early.capacity() * size_of::<(StreamId, Priority)>()
        })
    }
}
