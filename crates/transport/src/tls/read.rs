//! Reading: bytes are received, decrypted, and given to the caller.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use freerun_runtime::log::clock;
use freerun_runtime::net::Socket;
use freerun_tls::session::{Event, has_whole_record};

use super::{TlsState, TlsStream, scratch};

/// The number of times that one read receives bytes without plaintext before other tasks get their turn.
const MAX_FILLS: usize = 2;

/// Bytes of the peer that are not decrypted yet.
#[derive(Debug, Default)]
pub(super) struct ReceivedBytes {
    bytes: Vec<u8>,
    /// The offset of the first byte that is not consumed.
    start: usize,
}

impl ReceivedBytes {
    pub(super) fn of(bytes: Vec<u8>) -> ReceivedBytes {
        ReceivedBytes { bytes, start: 0 }
    }

    /// The number of bytes of memory that it holds.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Whether there is a whole record.
    fn has_record(&self) -> bool {
        has_whole_record(&self.bytes[self.start..])
    }

    /// Receives more bytes, behind those that are there. Returns how many came, and how many had room.
    fn fill(&mut self, socket: &Socket) -> io::Result<(usize, usize)> {
        if self.bytes.capacity() < scratch::INPUT {
            let mut larger = scratch::take_input();
            larger.extend_from_slice(&self.bytes[self.start..]);
            (self.bytes, self.start) = (larger, 0);
        } else if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // What a session leaves is no more than a part of one record.
        debug_assert!(self.bytes.len() < self.bytes.capacity(), "no room would look like the end of the stream");
        let room = self.bytes.capacity() - self.bytes.len();
        socket.try_read(&mut self.bytes).map(|n| (n, room))
    }

    /// Keeps no more memory than the bytes need that are left, and gives the loop's buffer back.
    fn settle(&mut self) {
        if self.bytes.capacity() >= scratch::INPUT {
            let left = self.bytes[self.start..].to_vec();
            scratch::give_back_input(std::mem::replace(&mut self.bytes, left));
            self.start = 0;
        } else if self.is_empty() {
            *self = ReceivedBytes::default();
        }
    }
}

impl TlsState {
    /// Decrypts what was received, as many records as have room. `None`: it takes more bytes; `Ok(0)`: the peer has ended.
    fn decrypt<P: BufMut>(&mut self, socket: &Socket, out: &mut P, most: usize) -> Option<io::Result<usize>> {
        let session = self.session.as_deref_mut()?;
        if self.ended {
            return Some(Ok(0));
        }
        let mut given = 0;
        loop {
            if self.received.is_empty() && !session.has_more() && !self.failed {
                return (given > 0).then_some(Ok(given));
            }
            let received = &mut self.received.bytes[self.received.start..];
            let progress = session.step(clock::since_1970(), received, self.unsent.queue(), out, most - given);
            self.received.start += progress.consumed;
            // Answers to the peer (an alert, a key update) leave before anything else; what the socket does not take
            // goes with the next write, which reports an error too.
            let _ = self.unsent.flush(socket);
            match progress.event {
                Event::Plaintext(n) => {
                    debug_assert!(n <= most - given, "more is given than was asked for");
                    given += n;
                    if given == most {
                        return Some(Ok(given));
                    }
                }
                Event::Established => {}
                Event::NeedsInput => return (given > 0).then_some(Ok(given)),
                Event::PeerClosed => {
                    self.ended = true;
                    self.notified = true;
                    return Some(Ok(given));
                }
                // What came before the failure is given first. The session tells of it again.
                Event::Failed(_) if given > 0 => {
                    self.failed = true;
                    return Some(Ok(given));
                }
                Event::Failed(failure) => {
                    self.ended = true;
                    self.quiet = true;
                    return Some(Err(io::Error::new(io::ErrorKind::InvalidData, failure)));
                }
            }
        }
    }
}

impl TlsStream {
    /// Reads without waiting, at most `most` bytes; `Ok(0)` is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock` if there are no bytes; `Interrupted` if much has come that has no plaintext, and there may be more; or
    /// the error that broke the stream.
    pub(crate) fn try_read_into<P: BufMut>(&self, out: &mut P, most: usize) -> io::Result<usize> {
        let state = &mut *self.state.borrow_mut();
        let mut fills = 0;
        let answer = loop {
            if let Some(answer) = state.decrypt(&self.socket, out, most) {
                break answer;
            }
            if fills == MAX_FILLS {
                break Err(io::ErrorKind::Interrupted.into());
            }
            fills += 1;
            match state.received.fill(&self.socket) {
                Ok((0, _)) => {
                    state.ended = true;
                    break Ok(0);
                }
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        state.received.settle();
        answer
    }

    /// Polls a read of at most `most` bytes.
    pub(crate) fn poll_read_into<P: BufMut>(
        &self,
        context: &mut Context<'_>,
        out: &mut P,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let state = &mut *self.state.borrow_mut();
        self.poll_shutdown(state, context);
        let mut fills = 0;
        let answer = loop {
            if let Some(answer) = state.decrypt(&self.socket, out, most) {
                break Poll::Ready(answer);
            }
            if fills == MAX_FILLS {
                context.waker().wake_by_ref();
                break Poll::Pending;
            }
            fills += 1;
            match self.socket.poll_read_by(context, || state.received.fill(&self.socket)) {
                Poll::Ready(Ok(0)) => {
                    state.ended = true;
                    break Poll::Ready(Ok(0));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        state.received.settle();
        answer
    }

    /// Reads if there are bytes by the loop's latest events; see [`Socket::read_now`].
    pub(crate) fn read_now(&self, buffer: &mut Vec<u8>) -> Option<io::Result<usize>> {
        let most = buffer.capacity() - buffer.len();
        let state = &mut *self.state.borrow_mut();
        let mut fills = 0;
        let answer = loop {
            if let Some(answer) = state.decrypt(&self.socket, buffer, most) {
                break Some(answer);
            }
            if fills == MAX_FILLS {
                break None;
            }
            fills += 1;
            match self.socket.read_now_by(|| state.received.fill(&self.socket)) {
                Some(Ok(0)) => {
                    state.ended = true;
                    break Some(Ok(0));
                }
                Some(Ok(_)) => {}
                answer => break answer,
            }
        };
        state.received.settle();
        answer
    }

    /// Whether a read would find something without the socket: plaintext, a record, a failure, or the end.
    pub(super) fn has_something(&self) -> bool {
        let state = self.state.borrow();
        let Some(session) = &state.session else { return false };
        // What was left of the received bytes is an incomplete record, or the caller's buffer was full.
        state.ended || state.failed || session.has_more() || state.received.has_record()
    }

    /// Polls for bytes of the peer, which need not be plaintext.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown(&mut self.state.borrow_mut(), context);
        if self.has_something() {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_readable(context)
    }

    /// Polls a read that `read` does by [`TlsStream::try_read_into`]. The loop's events are asked for as long as `read`
    /// finds nothing.
    pub(crate) fn poll_read_by(
        &self,
        context: &mut Context<'_>,
        mut read: impl FnMut() -> io::Result<(usize, usize)>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(context))?;
            match read() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket.found_empty(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                answer => return Poll::Ready(answer.map(|(n, _)| n)),
            }
        }
    }

    /// Whether the peer has sent nothing of interest: neither plaintext nor the end. Messages of the protocol itself, such
    /// as tickets for later sessions, are dealt with.
    pub(crate) fn is_quiet(&self, surely: bool) -> bool {
        if !self.has_something() && self.socket.is_quiet(surely) {
            return true;
        }
        let mut nothing = Vec::new();
        let read = self.try_read_into(&mut nothing, 0);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) && self.socket.is_quiet(true)
    }
}
