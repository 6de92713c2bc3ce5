//! The leader's side of a fill: it gives the fill the bytes that the origin sends.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use freerun_runtime::files::Aio;

use super::file::StoreState;
use super::follow::Follower;
use super::state::{End, Phase, StorePhase, WINDOWS};
use super::table::{ActiveFill, Fill};
use super::{window, write};
use crate::key::Key;
use crate::record::{Head, MAX_HEAD};

/// Bodies of unknown length reserve so much at a time, in bytes.
const RESERVE: u64 = 1 << 20;
/// Beyond this many bytes in all windows no new object is stored, because the disks do not keep up.
const MOST_MEMORY: u64 = 2 * WINDOWS;

const _: () = assert!(MOST_MEMORY > WINDOWS, "windows become small before objects are no longer stored");

/// Gives a fill the bytes that the origin sends. Dropping it before [`end`](FillWriter::end) means that the rest never
/// comes: followers get an error, and nothing is stored.
#[derive(Debug)]
pub struct FillWriter {
    fill: ActiveFill,
    over: bool,
}

/// The rest is not wanted: no client follows the fill, and it is not being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody wants the rest of it")]
pub struct UnwantedRest;

impl FillWriter {
    pub(super) fn new(fill: ActiveFill) -> FillWriter {
        FillWriter { fill, over: false }
    }

    /// The fill, which the leader's own response follows.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill.fill
    }

    /// The leader's own follower, like one of [`Fill::join`], but not subject to the limit of followers.
    pub fn follow(&self, aio: Aio, client: u64) -> Option<Follower> {
        self.fill().seated(true, aio, client)
    }

    /// Gives the head to the fill. `length` is the body's length, or `None` while it is not known; [`Head::body`] is
    /// not used. The object is stored under `key`, unless there is no space or the disk is not well: then it is only
    /// passed on. Returns whether the object is going to be stored.
    pub fn head(&mut self, head: Head, length: Option<u64>, key: Key) -> bool {
        let store = &self.fill.store;
        let mut head = head;
        head.body = length.unwrap_or(0);
        let size = head.size() as u64;
        let reserved = match length {
            _ if !self.fill.disk.health.may_store() || window::held() > MOST_MEMORY => None,
            _ if head.size() > MAX_HEAD => None,
            Some(length) => store.reserve(size.saturating_add(length)),
            None => store.reserve(size + RESERVE),
        };
        let head = Arc::new(head);
        let stores = self.fill.with(|state, wakes| {
            // The key may have been purged since the fill began.
            let stores = reserved.is_some() && state.storing == StorePhase::Undecided;
            if stores {
                debug_assert!(state.keeping.is_none() && state.reserved.is_none(), "the object is stored twice");
                (state.reserved, state.begin) = (reserved, size);
                state.keeping = Some(StoreState::new(head.clone(), key, length.is_some()));
            }
            state.head(head, length, if stores { StorePhase::Yes } else { StorePhase::No }, wakes);
            stores
        });
        if !stores {
            self.fill.counts.unstored.fetch_add(1, Relaxed);
            // Requests that wait for the head follow this fill; requests that come now lead another one.
            self.fill.remove();
        }
        stores
    }

    /// The response may not be shared: there is nothing to follow for the requests that wait.
    pub fn not_storable(mut self) {
        self.over = true;
        self.fill.with(|state, wakes| {
            state.phase = Phase::Never;
            state.finish(End::Broken, wakes);
        });
        self.fill.remove();
    }

    /// Gives the next bytes of the body. All followers see them when this is first polled; the future is ready when
    /// there is room for more.
    ///
    /// # Errors
    /// [`UnwantedRest`]: the leader need not go on.
    pub async fn push(&mut self, piece: Bytes) -> Result<(), UnwantedRest> {
        self.give(piece);
        let fill = &self.fill;
        let room = poll_fn(|context| {
            let (poll, work) = fill.with(|state, _| (state.poll_room(context), state.wants_work()));
            if work {
                write::start(fill);
                // If no pool took the task, there is room, or no follower is left.
                return fill.with(|state, _| state.poll_room(context));
            }
            poll
        });
        tokio::pin!(room);
        while freerun_runtime::timer::timeout(fill.disk.health.limit(), room.as_mut()).await.is_err() {
            // If the disk makes no progress, the fill goes on without it. A client that makes none is waited for.
            if fill.with(|state, _| state.is_storing() && !state.has_moved()) {
                fill.disk.health.late();
                fill.unstored();
            }
        }
        if fill.with(|state, _| state.is_unwanted()) { Err(UnwantedRest) } else { Ok(()) }
    }

    fn give(&mut self, piece: Bytes) {
        let enough = self.fill.with(|state, wakes| {
            state.push(piece, wakes);
            state.cover(RESERVE)
        });
        if !enough {
            self.fill.unstored();
        }
        self.fill.work();
    }

    /// Gives all of the body at once.
    pub fn whole(mut self, body: Bytes) {
        self.fill.with(|state, wakes| state.push(body, wakes));
        self.finish(End::Whole);
    }

    /// Ends the fill: the body is whole. The file gets its name in the background; until then new requests follow the
    /// fill. A body that is shorter or longer than was announced is not whole, and is treated as if this value were
    /// dropped.
    pub fn end(mut self) {
        self.finish(End::Whole);
    }

    fn finish(&mut self, end: End) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let fill = &self.fill;
        let (end, storing) = fill.with(|state, wakes| {
            state.finish(end, wakes);
            (state.end, state.is_storing())
        });
        if end == Some(End::Broken) {
            fill.counts.broken.fetch_add(1, Relaxed);
        }
        if storing {
            fill.work();
        } else {
            fill.remove();
        }
    }
}

impl Drop for FillWriter {
    fn drop(&mut self) {
        self.finish(End::Broken);
    }
}
