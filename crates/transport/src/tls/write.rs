//! Writing: plaintext is encrypted in batches and sent.
//!
//! A batch that the socket takes only in part is not reported as written. Its rest is kept, and the plaintext counts as
//! written when the rest has left. The caller has to repeat a write that was not reported, and learns of it then; the
//! bytes are not encrypted again.

use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use freerun_runtime::net::Socket;
use freerun_tls::session::TlsSession;

use super::{TlsState, TlsStream, scratch};

/// The plaintext of the largest record.
const FRAGMENT: usize = 16 << 10;

/// Encrypted bytes that the socket has not taken.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    /// The offset of the first byte that is not sent.
    start: usize,
    /// The number of the caller's bytes that these bytes stand for. The caller does not know yet that they are written:
    /// they belong to a batch that was sent in part.
    plaintext: usize,
}

impl Unsent {
    /// The number of bytes that wait for the socket.
    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.bytes.capacity()
    }

    fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The bytes, to append what the session itself has to say.
    pub(super) fn queue(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Sends as much as fits.
    ///
    /// # Errors
    /// `WouldBlock` if something is left, or the error that broke the stream.
    pub(super) fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while !self.is_empty() {
            match socket.try_write(&[IoSlice::new(&self.bytes[self.start..])], false) {
                Ok(n) => self.start += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.bytes, self.start) = (Vec::new(), 0);
        Ok(())
    }
}

/// The caller's bytes: at most two pieces in practice.
struct PlaintextPieces<'p, 'b> {
    parts: &'p [IoSlice<'b>],
    /// The number of bytes of the first part that are written.
    done: usize,
}

impl<'p> PlaintextPieces<'p, '_> {
    fn skip(&mut self, mut n: usize) {
        while let Some(first) = self.parts.first() {
            let left = first.len() - self.done;
            if n < left {
                self.done += n;
                return;
            }
            n -= left;
            self.parts = &self.parts[1..];
            self.done = 0;
        }
        debug_assert!(n == 0, "{n} bytes are skipped that nobody has offered");
    }

    /// The next bytes that make a record. Bytes of several pieces are put together in `joined`.
    fn next<'a>(&self, joined: &'a mut Vec<u8>) -> &'a [u8]
    where
        'p: 'a,
    {
        let Some((first, others)) = self.parts.split_first() else { return &[] };
        let first = &first[self.done..];
        if others.is_empty() || first.len() >= FRAGMENT {
            let whole = if first.len() > FRAGMENT && !others.is_empty() {
                first.len() / FRAGMENT * FRAGMENT
            } else {
                first.len()
            };
            return &first[..whole.min(scratch::BATCH)];
        }
        joined.clear();
        joined.extend_from_slice(first);
        for part in others {
            joined.extend_from_slice(&part[..part.len().min(FRAGMENT - joined.len())]);
        }
        joined
    }
}

impl TlsState {
    /// Encrypts a batch and sends it. Returns how much plaintext it has, and whether all of it was sent.
    fn send_batch(
        session: &mut TlsSession,
        unsent: &mut Unsent,
        socket: &Socket,
        mut plaintext: &[u8],
        more: bool,
    ) -> io::Result<(usize, bool)> {
        debug_assert!(unsent.is_empty() && unsent.plaintext == 0, "a batch overtakes the one before");
        scratch::with_output(|output| {
            let (mut taken, mut written) = (0, 0);
            while !plaintext.is_empty() && output.len() - written >= freerun_tls::session::MIN_OUTPUT {
                let encrypted = session
                    .encrypt(plaintext, &mut output[written..])
                    .map_err(|failure| io::Error::new(io::ErrorKind::InvalidData, failure))?;
                if encrypted.taken == 0 && encrypted.written == 0 {
                    break;
                }
                plaintext = &plaintext[encrypted.taken..];
                taken += encrypted.taken;
                written += encrypted.written;
            }
            let mut sent = 0;
            while sent < written {
                match socket.try_write(&[IoSlice::new(&output[sent..written])], more) {
                    Ok(n) => sent += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if sent < written {
                unsent.bytes.extend_from_slice(&output[sent..written]);
                unsent.plaintext = taken;
            }
            Ok((taken, sent == written))
        })
    }
}

impl TlsStream {
    /// Writes as much as fits without waiting; see [`Transport::try_write`](crate::Transport::try_write).
    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        let state = &mut *self.state.borrow_mut();
        let TlsState { session: Some(session), unsent, .. } = state else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        unsent.flush(&self.socket)?;
        let all: usize = parts.iter().map(|part| part.len()).sum();
        let mut pieces = PlaintextPieces { parts, done: 0 };
        let mut written = unsent.plaintext.min(all);
        unsent.plaintext -= written;
        pieces.skip(written);
        let mut joined = Vec::new();
        while written < all {
            let plaintext = pieces.next(&mut joined);
            let more = more || plaintext.len() < all - written;
            let (taken, sent) = TlsState::send_batch(session, unsent, &self.socket, plaintext, more)?;
            if !sent {
                break;
            }
            pieces.skip(taken);
            written += taken;
        }
        if written == 0 && all > 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(written) }
    }

    /// Polls a write of as much of `bytes` as fits.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.socket.poll_write_by(context, || self.try_write(&[IoSlice::new(bytes)], false))
    }

    /// The number of bytes that a write would certainly take now; 0 if that is not known.
    pub(crate) fn certain_room(&self) -> usize {
        let is_empty = self.state.borrow().unsent.is_empty();
        let room = if is_empty { self.socket.certain_room() } else { 0 };
        // Records add to their plaintext; the smallest configurable records nearly double it.
        room / 2
    }

    /// Whether a write would not wait, or would fail.
    pub(crate) fn has_room(&self) -> io::Result<bool> {
        match self.state.borrow_mut().unsent.flush(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // The write itself reports it.
            Err(_) => Ok(true),
            Ok(()) => self.socket.has_room(),
        }
    }
}
