//! A direction of a relay.

use std::io;
use std::num::NonZeroU32;
use std::task::{Context, Poll};

use bytes::BytesMut;
use freerun_runtime::loops;

use super::end::RelayEnd;
use super::pace::RatePace;

/// The most bytes that are read at a time from a sender that always has more, if the receiver certainly takes them.
const LARGE: usize = 128 * 1024;

/// The number of reads that go one way before the task yields.
const TURN: usize = 16;

/// The number of bytes that go one way before the task yields.
const TURN_BYTES: usize = 512 * 1024;

/// Bytes that were read, and that the receiver does not take yet.
#[derive(Debug)]
struct HeldBytes {
    bytes: Vec<u8>,
    /// Number of the bytes that were written.
    done: usize,
    /// The time since when the receiver takes nothing.
    blocked: Option<u64>,
}

/// A direction: from one side of the relay to the other.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The number of bytes read.
    pub(super) read: u64,
    /// The number of bytes written.
    pub(super) written: u64,
    held: Option<Box<HeldBytes>>,
    pace: Option<Box<RatePace>>,
    /// The longest time in which the receiver takes nothing, in milliseconds.
    patience: Option<NonZeroU32>,
    /// Whether the limit of the rate was met at the last look.
    is_paced: bool,
    /// Whether the sender has ended.
    pub(super) is_over: bool,
}

/// The progress of a direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Went {
    /// Whether there were any bytes.
    pub(super) read: bool,
    /// Whether the receiver has taken any.
    pub(super) wrote: bool,
    /// Whether there may be more bytes, but the turn is over.
    pub(super) has_more: bool,
}

/// The end of the relay that an error belongs to.
#[derive(Debug)]
pub(super) enum Broke {
    From(io::Error),
    To(io::Error),
}

impl Direction {
    /// A direction whose receiver may take nothing for `patience` milliseconds.
    pub(super) fn new(patience: Option<NonZeroU32>) -> Direction {
        Direction { patience, ..Direction::default() }
    }

    /// Limits the rate to `rate` bytes a second from now on; 0 is no limit. `before` bytes were read already.
    pub(super) fn limit(&mut self, rate: u64, before: u64) {
        self.pace = RatePace::new(rate, loops::millis(), before).map(Box::new);
    }

    /// Puts these bytes before those that are still to be read.
    pub(super) fn hold(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.held.is_none(), "bytes are put before others once");
        self.held = HeldBytes::new(bytes);
    }

    /// Whether all that was read was written.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// Passes bytes on, as many as there are and the turn allows.
    pub(super) fn poll(
        &mut self,
        from: &impl RelayEnd,
        to: &impl RelayEnd,
        piece: usize,
        buffer: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Result<Went, Broke> {
        let mut went = Went::default();
        self.is_paced = false;
        if !self.flush(to, &mut went, context)? {
            return Ok(went);
        }
        let (mut most, mut moved) = (piece, 0);
        for _ in 0..TURN {
            if self.is_over || moved >= TURN_BYTES {
                break;
            }
            let allowed = match &self.pace {
                None => most,
                Some(pace) => usize::try_from(pace.allows(self.read, loops::millis())).unwrap_or(most).min(most),
            };
            if allowed == 0 {
                self.is_paced = true;
                return Ok(went);
            }
            buffer.clear();
            buffer.reserve(allowed);
            match from.poll_read(context, buffer, allowed) {
                Poll::Pending => return Ok(went),
                Poll::Ready(Err(error)) => return Err(Broke::From(error)),
                Poll::Ready(Ok(0)) => self.is_over = true,
                Poll::Ready(Ok(n)) => {
                    self.read += n as u64;
                    moved += n;
                    went.read = true;
                    let done = self.write(to, buffer, &mut went, context)?;
                    if done < buffer.len() {
                        self.held = HeldBytes::new(buffer[done..].to_vec());
                        return Ok(went);
                    }
                    // Who sends that much is served in fewer steps, but nothing is read that would have to be held.
                    most = if n >= most && piece < LARGE { to.certain_room().clamp(piece, LARGE) } else { piece };
                }
            }
        }
        went.has_more = !self.is_over;
        Ok(went)
    }

    /// Writes what is held. False: the receiver takes no more.
    fn flush(&mut self, to: &impl RelayEnd, went: &mut Went, context: &mut Context<'_>) -> Result<bool, Broke> {
        let Some(mut held) = self.held.take() else { return Ok(true) };
        debug_assert!(held.done < held.bytes.len(), "the sender waits, and nothing is held");
        let n = self.write(to, &held.bytes[held.done..], went, context)?;
        if n > 0 {
            held.blocked = None;
        }
        held.done += n;
        if held.done == held.bytes.len() {
            return Ok(true);
        }
        held.blocked.get_or_insert_with(loops::millis);
        self.held = Some(held);
        Ok(false)
    }

    /// Writes as many of the bytes as the receiver takes.
    fn write(
        &mut self,
        to: &impl RelayEnd,
        bytes: &[u8],
        went: &mut Went,
        context: &mut Context<'_>,
    ) -> Result<usize, Broke> {
        let mut done = 0;
        while done < bytes.len() {
            match to.poll_write(context, &bytes[done..]) {
                Poll::Ready(Ok(n)) => {
                    done += n;
                    self.written += n as u64;
                    went.wrote = true;
                }
                Poll::Ready(Err(error)) => return Err(Broke::To(error)),
                Poll::Pending => break,
            }
        }
        Ok(done)
    }

    /// The moment at which the receiver has taken nothing for too long.
    pub(super) fn too_late(&self) -> Option<u64> {
        Some(self.held.as_ref()?.blocked?.saturating_add(self.patience?.get().into()))
    }

    /// The moment from which on more may be read, if the rate has kept bytes from being read.
    pub(super) fn resumes(&self) -> Option<u64> {
        self.pace.as_ref().filter(|_| self.is_paced).map(|pace| pace.next(self.read))
    }
}

impl HeldBytes {
    /// Bytes that the receiver has not begun to take; `None` if there are none.
    fn new(bytes: Vec<u8>) -> Option<Box<HeldBytes>> {
        let blocked = (!bytes.is_empty()).then(loops::millis)?;
        Some(Box::new(HeldBytes { bytes, done: 0, blocked: Some(blocked) }))
    }
}
