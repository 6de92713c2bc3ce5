//! The state that receives the body of a request.
//!
//! The first bytes of a body often come with the head, and stand behind it in the connection's buffer. The bytes that follow
//! the body there belong to the next request.

use std::convert::Infallible;
use std::ops::Range;

use crate::body::BodyDecoder;
use crate::chunked::ChunkStep;
use crate::{BodyFraming, RequestError};

/// A body that is being received: which bytes of the buffer belong to it, how many there were, and whether more come.
///
/// `E` is the place of a body whose rest does not come by the connection's own bytes: a stream of a multiplexed protocol, or
/// a reader apart from the request. The connection knows neither the bytes of such a body nor its end until it has returned.
#[derive(Debug, Clone)]
pub struct RequestBody<E = Infallible> {
    source: Source<E>,
    declared: Option<u64>,
    /// The number of bytes of the connection's buffer that have been used, including the head.
    used: usize,
    /// The number of bytes of the body that a handler has had; discarded bytes do not count.
    received: u64,
    /// The number of bytes of chunk framing and trailers that were read with these.
    framing_read: u64,
    /// Whether the client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
    /// Whether the body was refused, or a part of it discarded, before it was complete: no handler can have it any
    /// more.
    given_up: bool,
}

/// The source of the rest of a body.
#[derive(Debug, Clone)]
enum Source<E> {
    /// There is no rest.
    Done,
    /// The rest comes by the connection, framed by HTTP/1.
    Framed(BodyDecoder),
    /// The rest does not come by the connection's own bytes.
    Elsewhere(E),
}

/// The next bytes of a body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BodyPiece {
    /// Their place in the buffer; `None` if more has to be received, or if the body is complete.
    pub data: Option<Range<usize>>,
    /// The number of bytes of framing that were read in front of them, or instead of them. The bytes that end the body do not count.
    pub framing: usize,
}

/// Whether a body ends within these bytes.
fn ends_within(decoder: &BodyDecoder, mut bytes: &[u8]) -> bool {
    if let Some(left) = decoder.remaining() {
        return left <= bytes.len() as u64;
    }
    let mut decoder = decoder.clone();
    loop {
        match decoder.step(bytes) {
            Ok(ChunkStep::Data(data)) => bytes = &bytes[data.end..],
            Ok(ChunkStep::Done(_)) => return true,
            Ok(ChunkStep::More) | Err(_) => return false,
        }
    }
}

impl<E> RequestBody<E> {
    /// The body that a head announces. The head is the first `head_len` bytes of the buffer.
    #[inline]
    pub fn new(framing: BodyFraming, head_len: usize, expects_continue: bool) -> RequestBody<E> {
        let (source, declared) = match framing {
            BodyFraming::None => (Source::Done, None),
            BodyFraming::Length(0) => (Source::Done, Some(0)),
            BodyFraming::Length(length) => (Source::Framed(framing.decoder()), Some(length)),
            BodyFraming::Chunked => (Source::Framed(framing.decoder()), None),
        };
        RequestBody {
            source,
            declared,
            used: head_len,
            received: 0,
            framing_read: 0,
            expects_continue,
            given_up: false,
        }
    }

    /// A body whose bytes do not come by the connection's own ones, behind a head of `head_len` bytes.
    pub fn elsewhere(place: E, declared: Option<u64>, head_len: usize, expects_continue: bool) -> RequestBody<E> {
        RequestBody {
            source: Source::Elsewhere(place),
            declared,
            ..RequestBody::new(BodyFraming::None, head_len, expects_continue)
        }
    }

    // ---- the state of the body -------------------------------------------------------------------------------------

    /// `Content-Length`, where there is one.
    pub fn declared_length(&self) -> Option<u64> {
        self.declared
    }

    /// Whether the whole body has been read.
    #[inline]
    pub fn is_done(&self) -> bool {
        matches!(self.source, Source::Done)
    }

    /// The place of the rest, if it does not come by the connection's own bytes.
    #[inline]
    pub fn place(&self) -> Option<&E> {
        if let Source::Elsewhere(place) = &self.source { Some(place) } else { None }
    }

    /// The number of bytes that are still to come by the connection, if it is known.
    pub fn remaining(&self) -> Option<u64> {
        match &self.source {
            Source::Framed(decoder) => decoder.remaining(),
            Source::Done | Source::Elsewhere(_) => None,
        }
    }

    /// Whether the whole rest of the body stands in the connection's buffer. The end of one in chunks is looked for.
    pub fn is_here(&self, buffer: &[u8]) -> bool {
        match &self.source {
            Source::Done => true,
            Source::Framed(decoder) => ends_within(decoder, self.unused(buffer)),
            Source::Elsewhere(_) => false,
        }
    }

    /// Whether some of the body, or its end, stands in the connection's buffer and has not been read.
    pub fn has_more_here(&self, buffer: &[u8]) -> bool {
        let rest = self.unused(buffer);
        match &self.source {
            Source::Framed(decoder) if !rest.is_empty() => !matches!(decoder.clone().step(rest), Ok(ChunkStep::More)),
            Source::Framed(_) | Source::Done | Source::Elsewhere(_) => false,
        }
    }

    /// Whether more of the body has come than `limit` allows; 0 is no limit.
    pub fn is_beyond(&self, limit: u64) -> bool {
        // A body with a known length was checked when the location was chosen; a named location does not check it
        // again.
        self.declared.is_none() && limit > 0 && self.received > limit
    }

    /// The number of bytes of the body that a handler has had; discarded bytes do not count.
    #[inline]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The number of bytes that these were on the wire, for `$request_length`.
    pub fn length(&self) -> u64 {
        self.received + self.framing_read
    }

    /// The number of bytes of the connection's buffer that the head and the body have used.
    #[inline]
    pub fn used(&self) -> usize {
        self.used
    }

    /// The bytes of the buffer that neither the head nor the body has used. Behind a complete body they belong to
    /// the next request, or to the protocol that the connection has gone over to.
    #[inline]
    pub fn unused<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(self.used..).unwrap_or_default()
    }

    /// The place behind the body in the buffer, if a part of the next request has come there. Some clients send line ends
    /// behind a body (RFC 9112 section 2.2): these alone are no request, and before one its reader skips them.
    #[inline]
    pub fn next_request(&self, buffer: &[u8]) -> Option<usize> {
        debug_assert!(self.is_done(), "a request begins behind a complete body");
        let is_next = self.unused(buffer).iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
        is_next.then_some(self.used)
    }

    // ---- changes of the state --------------------------------------------------------------------------------------

    /// Gives the body up, if it is not complete: no handler can have it any more.
    pub fn give_up(&mut self) {
        self.given_up |= !self.is_done();
    }

    /// Whether the body was given up.
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Notes that the head has grown in the buffer, so that everything behind it has moved.
    pub fn head_has_grown(&mut self, by: usize) {
        self.used += by;
    }

    /// Does not ask a waiting client to send the body.
    pub fn refuse(&mut self) {
        self.expects_continue = false;
    }

    /// Whether the client waits for `100 Continue` before it sends the body. It no longer does after this call, whose caller
    /// sends it.
    #[inline]
    pub fn take_expects_continue(&mut self) -> bool {
        std::mem::take(&mut self.expects_continue)
    }

    /// Lends the body to a reader apart from its request, for a buffer that begins with the body. The body that stays
    /// here counts as not received; its place in the buffer is behind `head_len` bytes.
    pub fn lend(&mut self, place: E, head_len: usize) -> RequestBody<E> {
        let stays = RequestBody {
            source: Source::Elsewhere(place),
            declared: self.declared,
            used: head_len,
            received: self.received,
            framing_read: self.framing_read,
            expects_continue: false,
            given_up: self.given_up,
        };
        let lent = std::mem::replace(self, stays);
        RequestBody { used: 0, ..lent }
    }

    /// Takes back a body that was lent. The unused bytes of its reader's buffer stand behind `head_len` bytes again.
    pub fn take_back(&mut self, body: RequestBody<E>, head_len: usize) {
        *self = RequestBody { used: head_len, ..body };
    }

    // ---- its bytes -------------------------------------------------------------------------------------------------

    /// Returns the next bytes of the body in the buffer, at most `most`.
    ///
    /// # Errors
    /// [`RequestError::Chunked`]: the framing is wrong, and remains so.
    pub(super) fn next(&mut self, buffer: &[u8], most: usize) -> Result<BodyPiece, RequestError> {
        debug_assert!(self.used <= buffer.len() || self.is_done(), "the body begins behind what there is");
        let mut framing = 0;
        while let Source::Framed(decoder) = &mut self.source {
            let start = self.used;
            let rest = &buffer[start..];
            let looked_at = rest.len().min(most);
            if looked_at == 0 {
                break;
            }
            match decoder.step(&rest[..looked_at])? {
                ChunkStep::Data(data) => {
                    if decoder.is_done() {
                        self.source = Source::Done;
                    }
                    self.used += data.end;
                    framing += data.start;
                    return Ok(BodyPiece { data: Some(start + data.start..start + data.end), framing });
                }
                ChunkStep::More => {
                    framing += looked_at;
                    self.used += looked_at;
                }
                ChunkStep::Done(consumed) => {
                    self.source = Source::Done;
                    self.used += consumed;
                }
            }
        }
        Ok(BodyPiece { data: None, framing })
    }

    /// Returns the next bytes as [`RequestBody::next`] does, and counts them as received by a handler.
    ///
    /// # Errors
    /// [`RequestError::Chunked`]: the framing is wrong, and remains so.
    pub fn next_wanted(&mut self, buffer: &[u8], most: usize) -> Result<BodyPiece, RequestError> {
        let before = self.used;
        let next = self.next(buffer, most)?;
        let wanted = next.data.as_ref().map_or(0, Range::len);
        self.received += wanted as u64;
        self.framing_read += (self.used - before - wanted) as u64;
        Ok(next)
    }

    /// Discards the bytes of the body that are in the buffer. Adds the number of bytes of framing among them to `framing`,
    /// also of those before an error.
    ///
    /// # Errors
    /// [`RequestError::Chunked`]: the framing is wrong, and remains so.
    #[inline]
    pub fn skip(&mut self, buffer: &[u8], framing: &mut usize) -> Result<(), RequestError> {
        while !self.is_done() {
            let piece = self.next(buffer, usize::MAX)?;
            *framing += piece.framing;
            if piece.data.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Counts bytes of a body with a known length that a handler gets past the buffer, whose bytes have all been used.
    ///
    /// # Errors
    /// The bytes do not all belong to this body, so that its end is not known.
    pub fn came_directly(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        let Source::Framed(decoder) = &mut self.source else { return Err(RequestError::ContentLength) };
        let step = decoder.step(piece)?;
        let is_whole = matches!(&step, ChunkStep::Data(data) if data.len() == piece.len());
        debug_assert!(is_whole, "no more is read than the body has");
        if !is_whole {
            return Err(RequestError::ContentLength);
        }
        if decoder.is_done() {
            self.source = Source::Done;
        }
        self.received += piece.len() as u64;
        Ok(())
    }

    /// Counts a piece that a handler got from elsewhere; `None` is the end.
    pub fn came_from_elsewhere(&mut self, piece: Option<usize>) {
        debug_assert!(self.place().is_some(), "the body comes by the connection");
        match piece {
            Some(len) => self.received += len as u64,
            None => self.source = Source::Done,
        }
    }

    /// Removes the used bytes of the body from the buffer. The head stays, because handlers read it.
    pub fn make_room(&mut self, buffer: &mut Vec<u8>, head_len: usize) {
        buffer.drain(head_len..self.used);
        self.used = head_len;
    }

    /// Compares the counts with the head and the body that they are of, for tests and fuzzing. The head has `head_len` bytes.
    pub fn check_invariants(&self, buffer: &[u8], head_len: usize) {
        debug_assert!(self.used >= head_len, "the body begins in the head");
        debug_assert!(self.used <= buffer.len(), "the body begins behind what there is");
        if let (Some(declared), Source::Framed(decoder)) = (self.declared, &self.source) {
            let left = decoder.remaining();
            debug_assert!(left.is_some_and(|left| left > 0), "a body of known length waits for nothing");
            debug_assert!(left.is_some_and(|left| self.received + left <= declared), "the body has too many bytes");
        }
        debug_assert!(self.declared.is_none_or(|declared| self.received <= declared), "the body is too long");
        debug_assert!(self.declared.is_none() || self.framing_read == 0, "a body of known length has no framing");
    }
}
