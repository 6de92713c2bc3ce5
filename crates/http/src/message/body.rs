//! The progress of a request's body, as a value: which bytes of the buffer belong to it, how many there were, and
//! whether more come. [`body`](crate::body) does the reading.
//!
//! The first bytes of a body often come with the head and stand behind it in the connection's buffer; the bytes that
//! follow the body there belong to the next request.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::body::BodyDecoder;
use freerun_proto::chunked::Step;
use freerun_proto::{BodyFraming, Error};
use freerun_runtime::loops;

/// A body that is being received.
pub struct ClientBody {
    source: Source,
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
enum Source {
    /// There is no rest.
    Done,
    /// The rest comes by the connection, framed by HTTP/1.
    Framed(BodyDecoder),
    /// The rest comes by the client's stream, which also marks its end.
    Stream,
    /// A reader has it apart from its request, and returns it there.
    Lent(Rc<ReturnedBody>),
}

/// The place where a reader that had the body apart from its request leaves it, with the buffer that it was read into.
#[derive(Default)]
pub(crate) struct ReturnedBody(Cell<Option<(ClientBody, Vec<u8>)>>);

/// Whether a body ends within these bytes.
fn ends_within(decoder: &BodyDecoder, mut bytes: &[u8]) -> bool {
    if let Some(left) = decoder.remaining() {
        return left <= bytes.len() as u64;
    }
    let mut decoder = decoder.clone();
    loop {
        match decoder.step(bytes) {
            Ok(Step::Data(data)) => bytes = &bytes[data.end..],
            Ok(Step::Done(_)) => return true,
            Ok(Step::More) | Err(_) => return false,
        }
    }
}

impl ReturnedBody {
    /// Leaves the body for the request.
    pub(crate) fn leave(&self, body: ClientBody, buffer: Vec<u8>) {
        self.0.set(Some((body, buffer)));
    }
}

impl ClientBody {
    /// The body that a head announces. The head is the first `head_len` bytes of the buffer.
    pub fn new(framing: BodyFraming, head_len: usize, expects_continue: bool) -> ClientBody {
        let (source, declared) = match framing {
            BodyFraming::None => (Source::Done, None),
            BodyFraming::Length(0) => (Source::Done, Some(0)),
            BodyFraming::Length(length) => (Source::Framed(framing.decoder()), Some(length)),
            BodyFraming::Chunked => (Source::Framed(framing.decoder()), None),
        };
        ClientBody { source, declared, used: head_len, received: 0, framing_read: 0, expects_continue, given_up: false }
    }

    /// A body that comes by a stream of a multiplexed protocol, behind a head of `head_len` bytes. `declared` is its
    /// `Content-Length`, which the driver enforces.
    pub fn of_stream(declared: Option<u64>, head_len: usize, expects_continue: bool) -> ClientBody {
        ClientBody {
            source: Source::Stream,
            declared,
            ..ClientBody::new(BodyFraming::None, head_len, expects_continue)
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

    /// Whether the body comes by a stream of a multiplexed protocol, and is not complete.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.source, Source::Stream)
    }

    /// Whether the body is lent and has not been returned.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.source, Source::Lent(_))
    }

    /// How many bytes of the body are still to come by the connection, if its length is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match &self.source {
            Source::Framed(decoder) => decoder.remaining(),
            Source::Done | Source::Stream | Source::Lent(_) => None,
        }
    }

    /// Whether the whole rest of the body stands in the connection's buffer. The end of one in chunks is looked for.
    pub fn is_here(&self, buffer: &[u8]) -> bool {
        let rest = buffer.get(self.used..).unwrap_or_default();
        match &self.source {
            Source::Done => true,
            Source::Framed(decoder) => ends_within(decoder, rest),
            Source::Stream | Source::Lent(_) => false,
        }
    }

    /// Whether some of the body, or its end, stands in the connection's buffer and has not been read.
    pub(crate) fn has_more_here(&self, buffer: &[u8]) -> bool {
        let rest = buffer.get(self.used..).unwrap_or_default();
        match &self.source {
            Source::Framed(decoder) if !rest.is_empty() => !matches!(decoder.clone().step(rest), Ok(Step::More)),
            Source::Framed(_) | Source::Done | Source::Stream | Source::Lent(_) => false,
        }
    }

    /// Whether more of the body has come than `limit` allows; 0 is no limit.
    pub(crate) fn is_beyond(&self, limit: u64) -> bool {
        // A body with a known length was checked when the location was chosen; a named location does not check it
        // again.
        self.declared.is_none() && limit > 0 && self.received > limit
    }

    /// How many bytes of the body a handler has had; discarded bytes do not count.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many bytes these were on the wire, for `$request_length`.
    pub fn length(&self) -> u64 {
        self.received + self.framing_read
    }

    /// How many bytes of the connection's buffer the head and the body have used.
    pub fn used(&self) -> usize {
        self.used
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
    pub(crate) fn head_has_grown(&mut self, by: usize) {
        self.used += by;
    }

    /// Does not ask a waiting client to send the body.
    pub fn refuse(&mut self) {
        self.expects_continue = false;
    }

    /// Whether the client waits for `100 Continue` before it sends the body. It no longer does after this call, whose caller
    /// sends it.
    pub(crate) fn take_expects_continue(&mut self) -> bool {
        std::mem::take(&mut self.expects_continue)
    }

    /// Lends the body to a reader apart from its request, for a buffer that begins with the body. The body that stays
    /// here counts as not received; its place in the buffer is behind `head_len` bytes.
    pub(crate) fn lend(&mut self, head_len: usize) -> (ClientBody, Rc<ReturnedBody>) {
        let returned = Rc::<ReturnedBody>::default();
        let stays = ClientBody {
            source: Source::Lent(returned.clone()),
            declared: self.declared,
            used: head_len,
            received: self.received,
            framing_read: self.framing_read,
            expects_continue: false,
            given_up: self.given_up,
        };
        let lent = std::mem::replace(self, stays);
        (ClientBody { used: 0, ..lent }, returned)
    }

    /// Takes back a lent body that has been returned. The unused bytes of its reader's buffer are appended to `buffer`,
    /// behind the `head_len` bytes of the head.
    #[inline]
    pub(crate) fn take_back(&mut self, head_len: usize, buffer: &mut Vec<u8>) {
        let Source::Lent(returned) = &self.source else { return };
        let Some((body, read)) = returned.0.take() else { return };
        buffer.extend_from_slice(&read[body.used..]);
        *self = ClientBody { used: head_len, ..body };
    }

    // ---- its bytes -------------------------------------------------------------------------------------------------

    /// Returns the next bytes of the body in the buffer, at most `most`, as a range of the buffer; `None` if more has
    /// to be read, or if the body is complete.
    ///
    /// # Errors
    /// [`Error::Chunked`]: the framing is wrong, and remains so.
    fn next(&mut self, buffer: &[u8], most: usize) -> Result<Option<Range<usize>>, Error> {
        debug_assert!(self.used <= buffer.len() || self.is_done(), "the body begins behind what there is");
        while let Source::Framed(decoder) = &mut self.source {
            let start = self.used;
            let rest = &buffer[start..];
            let looked_at = rest.len().min(most);
            if looked_at == 0 {
                return Ok(None);
            }
            match decoder.step(&rest[..looked_at])? {
                Step::Data(data) => {
                    if data.start > 0 {
                        // A buffer may hold a thousand chunks, each of which costs time.
                        loops::spend(data.start);
                    }
                    if decoder.is_done() {
                        self.source = Source::Done;
                    }
                    self.used += data.end;
                    return Ok(Some(start + data.start..start + data.end));
                }
                Step::More => {
                    loops::spend(looked_at);
                    self.used += looked_at;
                }
                Step::Done(consumed) => {
                    self.source = Source::Done;
                    self.used += consumed;
                }
            }
        }
        Ok(None)
    }

    /// Returns the next bytes as [`ClientBody::next`] does, and counts them as received by a handler.
    ///
    /// # Errors
    /// [`Error::Chunked`]: the framing is wrong, and remains so.
    pub(crate) fn next_wanted(&mut self, buffer: &[u8], most: usize) -> Result<Option<Range<usize>>, Error> {
        let before = self.used;
        let next = self.next(buffer, most)?;
        let wanted = next.as_ref().map_or(0, Range::len);
        self.received += wanted as u64;
        self.framing_read += (self.used - before - wanted) as u64;
        Ok(next)
    }

    /// Discards the bytes of the body that are in the buffer.
    ///
    /// # Errors
    /// [`Error::Chunked`]: the framing is wrong, and remains so.
    #[inline]
    pub(crate) fn skip(&mut self, buffer: &[u8]) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        while self.next(buffer, usize::MAX)?.is_some() {}
        Ok(())
    }

    /// Counts bytes of a body with a known length that a handler gets past the buffer, whose bytes have all been used.
    ///
    /// # Errors
    /// The bytes do not all belong to this body, so that its end is not known.
    pub(crate) fn came_directly(&mut self, piece: &[u8]) -> Result<(), Error> {
        let Source::Framed(decoder) = &mut self.source else { return Err(Error::ContentLength) };
        let step = decoder.step(piece)?;
        let is_whole = matches!(&step, Step::Data(data) if data.len() == piece.len());
        debug_assert!(is_whole, "no more is read than the body has");
        if !is_whole {
            return Err(Error::ContentLength);
        }
        if decoder.is_done() {
            self.source = Source::Done;
        }
        self.received += piece.len() as u64;
        Ok(())
    }

    /// Counts a piece that the client's stream gave to a handler; `None` is the end.
    pub(crate) fn came_by_stream(&mut self, piece: Option<&Bytes>) {
        debug_assert!(self.is_stream(), "a body by a stream");
        match piece {
            Some(piece) => self.received += piece.len() as u64,
            None => self.source = Source::Done,
        }
    }

    /// Removes the used bytes of the body from the buffer. The head stays, because handlers read it.
    pub(crate) fn make_room(&mut self, buffer: &mut Vec<u8>, head_len: usize) {
        buffer.drain(head_len..self.used);
        self.used = head_len;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    /// The bytes that a handler gets of a body of which `buffer` has come, in pieces of at most `most` bytes.
    fn read(body: &mut ClientBody, buffer: &[u8], most: usize) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while let Some(range) = body.next_wanted(buffer, most)? {
            assert!(!range.is_empty() && range.len() <= most);
            all.extend_from_slice(&buffer[range]);
        }
        Ok(all)
    }

    #[test]
    fn a_body_stands_between_its_head_and_the_next_request() {
        let buffer = b"headhelloGET";
        for most in 1..10 {
            let mut body = ClientBody::new(BodyFraming::Length(5), 4, false);
            assert!(body.is_here(buffer) && body.is_here(b"headhello") && !body.is_here(b"headhell"));
            assert_eq!(read(&mut body, buffer, most).as_deref(), Ok(&b"hello"[..]));
            assert!(body.is_done() && body.is_here(b""));
            assert_eq!((body.used(), body.received(), body.length()), (9, 5, 5));
        }
        let buffer = b"head2;x\r\nok\r\n0\r\nT: v\r\n\r\nGET";
        for most in 1..buffer.len() {
            let mut body = ClientBody::new(BodyFraming::Chunked, 4, false);
            assert!(body.is_here(buffer) && body.is_here(&buffer[..buffer.len() - 3]));
            assert!((0..buffer.len() - 3).all(|len| !body.is_here(&buffer[..len])), "its end is missing");
            assert_eq!(read(&mut body, buffer, most).as_deref(), Ok(&b"ok"[..]));
            assert_eq!((body.is_done(), body.used()), (true, buffer.len() - 3));
            assert_eq!((body.received(), body.length()), (2, buffer.len() as u64 - 7));
        }
    }

    #[test]
    fn what_nobody_wanted_does_not_count() {
        let mut body = ClientBody::new(BodyFraming::Chunked, 0, false);
        let buffer = b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n";
        assert_eq!(body.next_wanted(buffer, 10), Ok(Some(3..4)));
        body.give_up();
        body.skip(buffer).unwrap();
        assert_eq!((body.is_done(), body.is_given_up(), body.used()), (true, true, buffer.len()));
        assert_eq!((body.received(), body.length()), (1, 4));
        let mut body = ClientBody::new(BodyFraming::None, 0, false);
        body.give_up();
        assert!(!body.is_given_up(), "it is here");
    }

    #[test]
    fn a_limit_is_for_bodies_without_a_length() {
        let mut body = ClientBody::new(BodyFraming::Chunked, 0, false);
        read(&mut body, b"3\r\nabc\r\n", 99).unwrap();
        assert!(body.is_beyond(2) && !body.is_beyond(3) && !body.is_beyond(0));
        let mut body = ClientBody::new(BodyFraming::Length(3), 0, false);
        read(&mut body, b"abc", 99).unwrap();
        assert!(!body.is_beyond(2));
        let mut body = ClientBody::of_stream(None, 0, false);
        body.came_by_stream(Some(&Bytes::from_static(b"abc")));
        assert!(body.is_beyond(2) && body.is_stream());
        body.came_by_stream(None);
        assert!(body.is_done());
    }

    #[test]
    fn room_is_made_behind_the_head() {
        let mut buffer = b"headheGE".to_vec();
        let mut body = ClientBody::new(BodyFraming::Length(5), 4, false);
        assert_eq!(body.next_wanted(&buffer, 2), Ok(Some(4..6)));
        body.make_room(&mut buffer, 4);
        assert_eq!((&buffer[..], body.used(), body.remaining()), (&b"headGE"[..], 4, Some(3)));
        assert_eq!(body.next_wanted(&buffer, 9), Ok(Some(4..6)));
        body.make_room(&mut buffer, 4);
        body.came_directly(b"T").unwrap();
        assert_eq!((body.is_done(), body.received()), (true, 5));
    }

    #[test]
    fn what_was_lent_comes_back_behind_the_head() {
        let mut buffer = b"head".to_vec();
        let mut body = ClientBody::new(BodyFraming::Length(5), 4, true);
        let (mut lent, returned) = body.lend(4);
        assert!(body.is_lent() && !body.is_done() && !body.take_expects_continue());
        assert_eq!((lent.used(), lent.remaining(), body.remaining()), (0, Some(5), None));
        assert_eq!(body.next_wanted(b"headhello", 99), Ok(None), "it is not here");
        body.take_back(4, &mut buffer);
        assert!(body.is_lent(), "nobody has given it back");
        let read = b"heLLO".to_vec();
        assert_eq!(lent.next_wanted(&read, 2), Ok(Some(0..2)));
        returned.leave(lent, read);
        body.take_back(4, &mut buffer);
        assert_eq!((&buffer[..], body.used(), body.remaining(), body.received()), (&b"headLLO"[..], 4, Some(3), 2));
    }

    /// Each request has a body, nearly always an empty one: the decoder's states have to fit where there is room beside
    /// them.
    #[test]
    fn it_is_small() {
        assert!(size_of::<ClientBody>() <= 64, "{}", size_of::<ClientBody>());
        assert_eq!(size_of::<Source>(), size_of::<BodyDecoder>());
    }

    /// Wrong framing in the middle of a line must not be taken for other framing when it is read again.
    #[test]
    fn behind_wrong_framing_there_is_no_end() {
        let mut body = ClientBody::new(BodyFraming::Chunked, 0, false);
        let buffer = b"1\r\nx\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(body.next_wanted(buffer, 99), Ok(Some(3..4)));
        for _ in 0..3 {
            assert_eq!(body.skip(buffer), Err(Error::Chunked));
            assert!(!body.is_done());
        }
    }

    /// How many reads may still follow in the same turn after all of this body was discarded, in parts of `part` bytes.
    fn reads_after(body: &[u8], part: usize) -> usize {
        loops::block_on(async {
            loops::yield_now().await;
            let mut client = ClientBody::new(BodyFraming::Chunked, 0, false);
            for end in (part..=body.len()).step_by(part) {
                client.skip(&body[..end]).unwrap();
                assert_eq!(client.used(), end);
            }
            let mut reads = 0;
            poll_fn(|context| {
                while loops::poll_budget(context).is_ready() {
                    reads += 1;
                }
                Poll::Ready(reads)
            })
            .await
        })
        .unwrap()
    }

    #[test]
    fn tiny_chunks_count_as_the_work_that_they_are() {
        const LEN: usize = 240_000;
        let all = reads_after(b"", 1);
        let large = format!("{LEN:x}\r\n{}", "x".repeat(LEN));
        assert_eq!(reads_after(large.as_bytes(), large.len()), all);
        let tiny = "1\r\na\r\n".repeat(LEN / 6);
        assert!(reads_after(tiny.as_bytes(), LEN) < all * 2 / 3);
        assert!(reads_after(tiny.as_bytes(), 10) < all * 2 / 3);
        let long = format!("1;{}\r\na\r\n", "e".repeat(3994)).repeat(LEN / 4000);
        assert!(reads_after(long.as_bytes(), 100) < all * 2 / 3, "{}", long.len());
    }
}
