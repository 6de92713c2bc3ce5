//! Following a fill.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use freerun_runtime::files::{Aio, FileError, OpenFile, Via};

use super::state::{End, Phase, SMALL_WINDOW, StorePhase, Take};
use super::table::Fill;
use crate::record::Head;

/// Number of bytes of the file that a follower reads at a time when it is behind the window.
const READ: u64 = 64 << 10;

/// Progress of a fill.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The origin has not answered yet.
    Asked,
    /// The head has come.
    Known(Arc<Head>),
    /// There is nothing to follow.
    Never,
}

/// The reason why a follower gets no more bytes.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The origin did not send all of the body.
    #[error("connection aborted")]
    BrokenOff,
    /// A part of the response is neither in memory nor on the disk any more.
    #[error("a part of the response is not there any more")]
    Lost,
    /// The disk has not read a part within the time that it has.
    #[error("timed out")]
    SlowDisk,
    /// The file of the response is shorter than what was written to it.
    #[error("unexpected end of file")]
    Truncated,
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A follower: it gets the bytes that a fill has, and those still to come, in order from a given byte on.
#[derive(Debug)]
pub struct Follower {
    fill: Arc<Fill>,
    seat: usize,
    until: u64,
    aio: Aio,
    client: u64,
    /// The follower has asked for bytes, so it is counted.
    counted: bool,
}

impl Fill {
    /// Progress of the fill, without waiting.
    pub fn progress(&self) -> Progress {
        self.with(|state, _| match &state.phase {
            Phase::Asked => Progress::Asked,
            Phase::Known(head) => Progress::Known(head.clone()),
            Phase::Never => Progress::Never,
        })
    }

    /// Makes a follower at the first byte; `None` if the fill cannot be followed (any more). `aio` and `client` say
    /// how, and for which client, it reads bytes from the file that are no longer in memory.
    pub fn join(self: &Arc<Self>, aio: Aio, client: u64) -> Option<Follower> {
        self.seated(false, aio, client)
    }

    pub(super) fn seated(self: &Arc<Self>, leads: bool, aio: Aio, client: u64) -> Option<Follower> {
        let seat = self.with(|state, _| if state.can_join(0) { state.seats.take(0, leads) } else { None })?;
        Some(Follower::new(self.clone(), seat, aio, client))
    }
}

impl Follower {
    fn new(fill: Arc<Fill>, seat: usize, aio: Aio, client: u64) -> Follower {
        Follower { fill, seat, until: u64::MAX, aio, client, counted: false }
    }

    /// The fill that is followed.
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Waits for the head; `None`: there will be none to follow, see [`Progress::Never`].
    pub async fn head(&self) -> Option<Arc<Head>> {
        poll_fn(|context| {
            self.fill.with(|state, _| match &state.phase {
                Phase::Known(head) => Poll::Ready(Some(head.clone())),
                Phase::Never => Poll::Ready(None),
                Phase::Asked => {
                    state.seats.wait(self.seat, context);
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// Waits for the first byte of the body, or its end. Returns false if the body has broken off before its first byte.
    pub async fn begun(&self) -> bool {
        poll_fn(|context| {
            self.fill.with(|state, _| match state.end {
                _ if state.window.end() > 0 => Poll::Ready(true),
                Some(end) => Poll::Ready(end == End::Whole),
                None => {
                    state.seats.wait(self.seat, context);
                    Poll::Pending
                }
            })
        })
        .await
    }

    /// The length of the body, if it is known: it was announced, or all of the body has come.
    pub fn length(&self) -> Option<u64> {
        self.fill.with(|state, _| match state.end {
            Some(End::Whole) => Some(state.window.end()),
            _ => state.length,
        })
    }

    /// Restricts the follower to the bytes from `begin` up to, but not including, `until`. To be called before anything
    /// was taken.
    pub fn narrow(&mut self, begin: u64, until: u64) {
        debug_assert!(begin <= until && !self.counted, "the range {begin}..{until} comes too late, or ends first");
        self.until = until;
        self.fill.with(|state, wakes| state.advance(self.seat, begin, wakes));
    }

    /// Number of bytes that are still to come, if that is known.
    pub fn remaining(&self) -> Option<u64> {
        let at = self.fill.with(|state, _| state.seats.at(self.seat));
        self.length().map(|length| length.min(self.until).saturating_sub(at))
    }

    /// The next piece, never an empty one; `None` at the end.
    ///
    /// # Errors
    /// The origin did not send all of the body, or a part is on a disk that cannot be read. An incomplete body never ends
    /// like a complete one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, FollowError> {
        if !std::mem::replace(&mut self.counted, true) {
            self.fill.counts.followed.fetch_add(1, Relaxed);
        }
        let (fill, seat, until) = (&self.fill, self.seat, self.until);
        let take = poll_fn(|context| fill.with(|state, wakes| state.poll_take(seat, until, context, wakes))).await;
        match take {
            Take::Piece(piece) => Ok(Some(piece)),
            Take::File(file, offset, len) => self.read(&file, offset, len).await.map(Some),
            Take::End => Ok(None),
            Take::Broken => Err(FollowError::BrokenOff),
            Take::Lost => Err(FollowError::Lost),
        }
    }

    /// Waits until other followers may have to wait for this one: the body is not stored (any more) and more than its
    /// window is still to come. Then the origin is not read before all followers have taken the bytes in memory. Never
    /// ready if that does not happen.
    pub async fn unstored(&self) {
        if self.fill.with(|state, _| matches!(state.storing, StorePhase::Undecided | StorePhase::Yes)) {
            self.fill.closed().await;
        }
        let holds = self.fill.with(|state, _| {
            let fits = state.length.is_some_and(|length| length < SMALL_WINDOW);
            state.storing == StorePhase::No && state.end.is_none() && !fits
        });
        if !holds {
            std::future::pending::<()>().await;
        }
    }

    async fn read(&self, file: &Arc<OpenFile>, offset: u64, len: u64) -> Result<Bytes, FollowError> {
        let disk = &self.fill.disk;
        let via = Via { aio: &self.aio, client: self.client, gone: None };
        debug_assert!(len > 0, "an empty piece would look like the end");
        let wanted = len.min(READ);
        let read = disk.files.read_at(file, offset, wanted as usize, BytesMut::new(), via);
        let read = freerun_runtime::timer::timeout(disk.health.limit(), read).await.map_err(|_| {
            disk.health.late();
            FollowError::SlowDisk
        })?;
        let piece = read.inspect_err(|error| disk.health.failed(error))?.freeze();
        if piece.len() as u64 != wanted {
            return Err(FollowError::Truncated);
        }
        self.fill.with(|state, wakes| {
            let at = state.seats.at(self.seat);
            state.advance(self.seat, at + wanted, wakes);
        });
        Ok(piece)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        drop(self.fill.with(|state, wakes| state.leave(self.seat, wakes)));
    }
}
