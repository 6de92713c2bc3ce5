//! The state of a fill and its transitions: pure code, behind a lock that is held for a short time.
//!
//! ```text
//!            written                 window.start()            window.end()
//!   ──────────────┴───────────────────────┴────────────────────────┴─────▶ body
//!    in the file; who is here reads it     in memory: who is here takes it
//! ```
//! While the fill is stored, bytes that were written may leave the memory, so `window.start() <= written` holds. When
//! it is not stored (any more), the window follows the slowest follower.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use freerun_runtime::files::OpenFile;

use super::file::StoreState;
use super::waiting_slots::{Seats, Wakes};
use super::window::{self, Window};
use crate::index::Reservation;
use crate::record::Head;

/// Time for which a complete fill can be followed while its file has no name yet: the disk may hang.
pub const LINGER: Duration = Duration::from_secs(5);
/// Number of bytes of a body that are kept in memory: beyond it the origin is not read.
pub const WINDOW: u64 = 1 << 20;
/// Number of bytes of a body that are kept in memory when all fills together hold more than [`WINDOWS`].
pub const SMALL_WINDOW: u64 = 128 << 10;
/// The bytes that all fills together may have in memory before their windows become small.
pub const WINDOWS: u64 = 256 << 20;
/// Number of bytes that are written at a time, unless there is a reason to write less.
pub const WRITE: usize = 256 << 10;

const _: () = assert!(SMALL_WINDOW < WINDOW && WINDOW < WINDOWS, "many windows of full size make all of them small");
const _: () = assert!(WINDOW >= 2 * WRITE as u64, "while one batch is written, the next one can come");

/// Progress of the head.
#[derive(Debug, Clone, Default)]
pub(super) enum Phase {
    /// The origin has not answered yet.
    #[default]
    Asked,
    /// The head has come.
    Known(Arc<Head>),
    /// There is no head to follow: the response may not be stored, or did not come.
    Never,
}

/// End of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All of the body came.
    Whole,
    /// The rest of the body will never come.
    Broken,
}

/// Whether the object is stored on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum StorePhase {
    /// No decision yet.
    #[default]
    Undecided,
    /// The object is being written.
    Yes,
    /// The object is not written, or no longer.
    No,
    /// The object is written and its file has its name.
    Done,
}

/// The next step of the task that writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing until the task is started again.
    Rest,
    /// Write these pieces at this place of the body.
    Write(Vec<Bytes>, u64),
    /// Everything is written, this number of bytes: give the file its name.
    Finish(u64),
    /// Drop the file that was being written.
    Abandon,
}

/// The answer to a follower that asks for bytes.
#[derive(Debug)]
pub(super) enum Take {
    /// The next bytes.
    Piece(Bytes),
    /// The bytes are in this file, from this offset on, and so many.
    File(Arc<OpenFile>, u64, u64),
    /// All of the body came.
    End,
    /// The rest of the body does not come.
    Broken,
    /// The bytes are no longer in memory, and in no file.
    Lost,
}

/// The state of a fill.
///
/// Invariants, which [`State::check_invariants`] has in full: a body has come only behind a head. What is stored is in the
/// file or in memory. A fill that is closed is not being stored. A body that has broken off is never stored. An object is
/// stored only when all of its body is written. What was released has no follower.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    pub(super) window: Window,
    /// The length of the body that was announced.
    pub(super) length: Option<u64>,
    pub(super) end: Option<End>,
    pub(super) storing: StorePhase,
    /// Bytes of the body in the file.
    pub(super) written: u64,
    /// The file, and where in it the body begins.
    pub(super) file: Option<(Arc<OpenFile>, u64)>,
    /// A pool's task is at work, or waits for a thread.
    pub(super) working: bool,
    pub(super) seats: Seats,
    /// The waker of the leader, while it waits for room.
    giver: Option<Waker>,
    /// The follower whose progress the leader waits for.
    slowest: Option<usize>,
    /// The state that is needed to store the object, while no task has it.
    pub(super) keeping: Option<StoreState>,
    /// The space reserved for the object.
    pub(super) reserved: Option<Reservation>,
    /// Place of the body in the file.
    pub(super) begin: u64,
    /// Moment at which the head, or the last bytes of the body, came.
    moved: Option<Instant>,
    /// Moment at which all of the body had come.
    ended: Option<Instant>,
    /// The value of `written` when it was last looked at.
    seen: u64,
    /// The fill cannot be found by its key any more.
    pub(super) closed: bool,
    /// The bytes that it had in memory are gone.
    released: bool,
}

/// Values that are dropped after the lock is released.
pub(super) type DroppedAfterUnlock = (Option<StoreState>, Option<Reservation>, Option<Window>);

impl State {
    /// Asserts the invariants. Debug builds call it after each transition.
    pub(super) fn check_invariants(&self) {
        let (start, end) = (self.window.start(), self.window.end());
        let is_known = matches!(self.phase, Phase::Known(_));
        debug_assert!(self.written <= end, "{} bytes were written of {end}", self.written);
        debug_assert!(is_known || end == 0, "a body without a head");
        if matches!(self.storing, StorePhase::Yes | StorePhase::Done) {
            debug_assert!(is_known, "an object without a head is stored");
            debug_assert!(start <= self.written, "bytes from {} to {start} are lost", self.written);
            debug_assert!(self.end != Some(End::Broken), "a body that has broken off is stored");
        }
        if self.storing == StorePhase::Yes {
            debug_assert!(!self.closed && !self.released, "a fill is stored that cannot be found");
            let is_complete = self.keeping.is_some() && self.reserved.is_some();
            debug_assert!(self.working || is_complete, "nobody has what is needed to store the object");
        }
        if self.storing == StorePhase::Done {
            debug_assert!(self.end == Some(End::Whole) && self.written == end, "the stored object is not whole");
        }
        if self.end == Some(End::Whole) {
            debug_assert!(self.length.is_none_or(|length| length == end), "a whole body has another length");
        }
        if self.end == Some(End::Broken) {
            debug_assert!(!matches!(self.phase, Phase::Asked), "somebody waits for a head that never comes");
        }
        debug_assert!(self.ended.is_some() == self.end.is_some(), "the end has no time");
        debug_assert!(self.file.is_some() || self.written == 0 || self.released, "nothing can be read from the file");
        if self.released {
            debug_assert!(self.closed && self.end.is_some() && !self.working, "it was released too early");
            debug_assert!(self.seats.len() == 0 && self.window.weight() == 0, "it was released and is in use");
        }
    }

    /// The head is known; `storing` says whether the body is stored.
    pub(super) fn head(&mut self, head: Arc<Head>, length: Option<u64>, storing: StorePhase, wakes: &mut Wakes) {
        debug_assert!(matches!(self.phase, Phase::Asked) && self.end.is_none(), "a head comes once, and first");
        debug_assert!(matches!(storing, StorePhase::Yes | StorePhase::No), "with the head it is decided");
        self.phase = Phase::Known(head);
        self.length = length;
        self.storing = storing;
        self.moved = Some(Instant::now());
        self.seats.wake(wakes);
    }

    pub(super) fn push(&mut self, piece: Bytes, wakes: &mut Wakes) {
        debug_assert!(self.end.is_none() || piece.is_empty(), "bytes come after the end");
        self.moved = Some(Instant::now());
        self.window.push(piece);
        self.trim();
        self.seats.wake(wakes);
    }

    /// Ends the body. A body that is not whole is not stored.
    pub(super) fn finish(&mut self, end: End, wakes: &mut Wakes) {
        let short = self.length.is_some_and(|length| length != self.window.end());
        let end = if short { End::Broken } else { end };
        if self.end.is_none() {
            self.end = Some(end);
            self.ended = Some(Instant::now());
        }
        if self.end == Some(End::Broken) {
            if matches!(self.phase, Phase::Asked) {
                self.phase = Phase::Never;
            }
            if self.storing != StorePhase::Done {
                self.storing = StorePhase::No;
            }
        }
        self.seats.wake(wakes);
    }

    /// Stops writing; the followers go on.
    pub(super) fn give_up_disk(&mut self, wakes: &mut Wakes) {
        if matches!(self.storing, StorePhase::Yes | StorePhase::Undecided) {
            self.storing = StorePhase::No;
        }
        wakes.extend(self.giver.take());
    }

    /// Moment at which the head, or the last bytes of the body, came. `None` once the body has ended.
    pub(super) fn moved(&self) -> Option<Instant> {
        if self.end.is_some() { None } else { self.moved }
    }

    pub(super) fn is_storing(&self) -> bool {
        self.storing == StorePhase::Yes
    }

    /// The length of the body, if all of it has come.
    pub(super) fn whole_length(&self) -> Option<u64> {
        (self.end == Some(End::Whole)).then(|| self.window.end())
    }

    /// Makes sure that there is reserved space for the bytes that have come. False: there is not enough.
    pub(super) fn cover(&mut self, step: u64) -> bool {
        let size = self.begin + self.window.end();
        match &mut self.reserved {
            Some(reserved) if self.storing == StorePhase::Yes && size > reserved.bytes() => {
                reserved.cover(size.next_multiple_of(step)) || reserved.cover(size)
            }
            _ => true,
        }
    }

    /// Whether something was written since the last call.
    pub(super) fn has_moved(&mut self) -> bool {
        std::mem::replace(&mut self.seen, self.written) != self.written
    }

    /// Whether requests that ask for its key now are to follow it.
    pub(super) fn is_open(&self) -> bool {
        let lingers = self.ended.is_some_and(|ended| ended.elapsed() > LINGER);
        !self.closed && !lingers && self.can_join(0)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Makes the fill impossible to find by its key. The caller drops the returned values.
    pub(super) fn close(&mut self) -> DroppedAfterUnlock {
        self.closed = true;
        let idle = !self.working && self.storing != StorePhase::Yes;
        let keeping = self.keeping.take_if(|_| idle);
        let reserved = self.reserved.take_if(|_| idle);
        (keeping, reserved, self.release())
    }

    fn release(&mut self) -> Option<Window> {
        let over = self.closed && self.end.is_some() && !self.working && self.seats.len() == 0;
        (over && !std::mem::replace(&mut self.released, true)).then(|| {
            self.file = None;
            self.window.take()
        })
    }

    /// The present limit of the window.
    fn limit(&self) -> u64 {
        if window::held() > WINDOWS { SMALL_WINDOW } else { WINDOW }
    }

    /// Drops bytes from memory that are not needed there, as far as the window is over its limit.
    fn trim(&mut self) {
        self.slowest = None;
        if self.window.weight() < self.limit() {
            return;
        }
        let until = match self.storing {
            StorePhase::Yes | StorePhase::Done => self.written,
            StorePhase::Undecided => 0,
            StorePhase::No => match self.seats.slowest() {
                Some((index, at)) => {
                    self.slowest = Some(index);
                    at
                }
                None => self.window.end(),
            },
        };
        while self.window.weight() >= self.limit() && self.window.drop_first(until) {}
    }

    /// Ready when more bytes may be given.
    pub(super) fn poll_room(&mut self, context: &Context<'_>) -> Poll<()> {
        self.trim();
        if self.window.weight() < self.limit() || self.is_unwanted() {
            self.giver = None;
            return Poll::Ready(());
        }
        self.giver = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether the leader waits for room before it takes more.
    pub(super) fn is_full(&self) -> bool {
        self.giver.is_some()
    }

    /// Whether no client follows the fill and it is not being stored.
    pub(super) fn is_unwanted(&self) -> bool {
        self.storing == StorePhase::No && self.seats.len() == 0
    }

    /// Whether there is work for a task that writes, and no such task runs. If so, the caller starts one.
    pub(super) fn wants_work(&mut self) -> bool {
        let waiting = self.window.end() - self.written;
        let enough = waiting >= WRITE as u64 || waiting > 0 && self.giver.is_some() || self.end == Some(End::Whole);
        let wants = self.storing == StorePhase::Yes && !self.working && enough;
        self.working |= wants;
        wants
    }

    /// Takes the next step of the task that writes.
    pub(super) fn step(&mut self) -> Step {
        debug_assert!(self.working, "a step is taken by the task that writes");
        if self.storing != StorePhase::Yes {
            return Step::Abandon;
        }
        let waiting = self.window.end() - self.written;
        let over = self.end == Some(End::Whole);
        if waiting > 0 && (over || waiting >= WRITE as u64 || self.giver.is_some()) {
            let batch = self.window.batch(self.written, WRITE);
            debug_assert!(!batch.is_empty(), "bytes that are not written have left the memory");
            // Otherwise the task would ask for the next step for ever.
            return if batch.is_empty() { Step::Abandon } else { Step::Write(batch, self.written) };
        }
        if over {
            return Step::Finish(self.written);
        }
        self.working = false;
        Step::Rest
    }

    /// The task that writes has ended for good.
    pub(super) fn stopped(&mut self) -> DroppedAfterUnlock {
        self.working = false;
        self.close()
    }

    /// Notes that this many further bytes are in the file.
    pub(super) fn wrote(&mut self, bytes: u64, file: &Arc<OpenFile>, begin: u64, wakes: &mut Wakes) {
        debug_assert!(self.working && self.written + bytes <= self.window.end(), "more was written than has come");
        debug_assert!(begin == self.begin, "the body begins at {begin} in the file, and not at {}", self.begin);
        self.written += bytes;
        if self.file.is_none() {
            self.file = Some((file.clone(), begin));
        }
        wakes.extend(self.giver.take());
    }

    /// The file has its name.
    pub(super) fn named(&mut self, wakes: &mut Wakes) {
        debug_assert!(self.working && self.end == Some(End::Whole), "a file gets its name last");
        self.working = false;
        if self.storing == StorePhase::Yes {
            self.storing = StorePhase::Done;
        }
        wakes.extend(self.giver.take());
    }

    /// Whether a follower that begins at this byte can be served.
    pub(super) fn can_join(&self, at: u64) -> bool {
        let served = at >= self.window.start() || self.file.is_some() && self.storing != StorePhase::No;
        served && !self.released && self.end != Some(End::Broken) && !matches!(self.phase, Phase::Never)
    }

    /// The bytes for the follower in a seat; it has taken the bytes of the last call.
    pub(super) fn poll_take(
        &mut self,
        seat: usize,
        until: u64,
        context: &Context<'_>,
        wakes: &mut Wakes,
    ) -> Poll<Take> {
        let at = self.seats.at(seat);
        if at >= until {
            return Poll::Ready(Take::End);
        }
        if let Some(mut piece) = self.window.get(at) {
            piece.truncate(usize::try_from(until - at).unwrap_or(usize::MAX));
            self.advance(seat, at + piece.len() as u64, wakes);
            return Poll::Ready(Take::Piece(piece));
        }
        if at < self.window.start() {
            return Poll::Ready(match &self.file {
                Some((file, begin)) if at < self.written => {
                    Take::File(file.clone(), begin + at, self.written.min(until) - at)
                }
                _ => Take::Lost,
            });
        }
        match self.end {
            Some(End::Whole) => Poll::Ready(Take::End),
            Some(End::Broken) => Poll::Ready(Take::Broken),
            None => {
                self.seats.wait(seat, context);
                Poll::Pending
            }
        }
    }

    /// The follower in a seat has everything before this byte.
    pub(super) fn advance(&mut self, seat: usize, at: u64, wakes: &mut Wakes) {
        self.seats.go_to(seat, at);
        if self.slowest == Some(seat) {
            wakes.extend(self.giver.take());
        }
    }

    /// Removes a follower. The caller drops the returned window.
    pub(super) fn leave(&mut self, seat: usize, wakes: &mut Wakes) -> Option<Window> {
        self.seats.leave(seat);
        if self.slowest == Some(seat) || self.seats.len() == 0 {
            wakes.extend(self.giver.take());
        }
        self.release()
    }
}
