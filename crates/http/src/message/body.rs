//! The body of a request as handlers have it. HTTP/1 finds its bytes ([`RequestBody`]), a multiplexed protocol gives them by
//! a stream, and a reader may have it apart from its request. [`body`](crate::body) does the reading.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::rc::Rc;

use bytes::Bytes;
use freerun_proto::h1::{BodyPiece, RequestBody};
use freerun_proto::{BodyFraming, RequestError};
use freerun_runtime::loops;

/// A body that is being received.
pub struct ClientBody(RequestBody<BodyPlace>);

/// The place of a body whose rest does not come by the connection's own bytes.
pub enum BodyPlace {
    /// The client's stream, which also marks the end.
    Stream,
    /// A reader that has the body apart from its request, and returns it there.
    Lent(Rc<ReturnedBody>),
}

/// The place where a reader that had the body apart from its request leaves it, with the buffer that it was read into.
#[derive(Default)]
pub struct ReturnedBody(Cell<Option<(ClientBody, Vec<u8>)>>);

impl ReturnedBody {
    /// Leaves the body for the request.
    pub(crate) fn leave(&self, body: ClientBody, buffer: Vec<u8>) {
        self.0.set(Some((body, buffer)));
    }
}

/// Everything that only reads. Calls that change the body are charged as work, or forwarded by [`ClientBody`].
impl Deref for ClientBody {
    type Target = RequestBody<BodyPlace>;

    #[inline]
    fn deref(&self) -> &RequestBody<BodyPlace> {
        &self.0
    }
}

impl ClientBody {
    /// The body that a head announces. The head is the first `head_len` bytes of the buffer.
    #[inline]
    pub fn new(framing: BodyFraming, head_len: usize, expects_continue: bool) -> ClientBody {
        ClientBody(RequestBody::new(framing, head_len, expects_continue))
    }

    /// A body that comes by a stream of a multiplexed protocol, behind a head of `head_len` bytes. `declared` is its
    /// `Content-Length`, which the driver enforces.
    pub fn of_stream(declared: Option<u64>, head_len: usize, expects_continue: bool) -> ClientBody {
        ClientBody(RequestBody::elsewhere(BodyPlace::Stream, declared, head_len, expects_continue))
    }

    /// Whether the body comes by a stream of a multiplexed protocol, and is not complete.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.place(), Some(BodyPlace::Stream))
    }

    /// Whether the body is lent and has not been returned.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.place(), Some(BodyPlace::Lent(_)))
    }

    /// Lends the body to a reader apart from its request, for a buffer that begins with the body. The body that stays
    /// here counts as not received; its place in the buffer is behind `head_len` bytes.
    pub(crate) fn lend(&mut self, head_len: usize) -> (ClientBody, Rc<ReturnedBody>) {
        let returned = Rc::<ReturnedBody>::default();
        let lent = self.0.lend(BodyPlace::Lent(returned.clone()), head_len);
        (ClientBody(lent), returned)
    }

    /// Takes back a lent body that has been returned. The unused bytes of its reader's buffer are appended to `buffer`,
    /// behind the `head_len` bytes of the head.
    #[inline]
    pub(crate) fn take_back(&mut self, head_len: usize, buffer: &mut Vec<u8>) {
        let Some(BodyPlace::Lent(returned)) = self.place() else { return };
        let Some((body, read)) = returned.0.take() else { return };
        buffer.extend_from_slice(body.unused(&read));
        self.0.take_back(body.0, head_len);
    }

    /// Returns the next bytes of the body in the buffer, at most `most`, and counts them as received by a handler. `None` means
    /// that more has to be read, or that the body is complete.
    ///
    /// # Errors
    /// [`RequestError::Chunked`]: the framing is wrong, and remains so.
    pub(crate) fn next_wanted(&mut self, buffer: &[u8], most: usize) -> Result<Option<Range<usize>>, RequestError> {
        let BodyPiece { data, framing } = self.0.next_wanted(buffer, most)?;
        spend(framing);
        Ok(data)
    }

    /// Discards the bytes of the body that are in the buffer.
    ///
    /// # Errors
    /// [`RequestError::Chunked`]: the framing is wrong, and remains so.
    #[inline]
    pub(crate) fn skip(&mut self, buffer: &[u8]) -> Result<(), RequestError> {
        if !self.is_done() {
            let mut framing = 0;
            let skipped = self.0.skip(buffer, &mut framing);
            spend(framing);
            return skipped;
        }
        Ok(())
    }

    /// See [`RequestBody::give_up`].
    pub(crate) fn give_up(&mut self) {
        self.0.give_up();
    }

    /// See [`RequestBody::refuse`].
    pub(crate) fn refuse(&mut self) {
        self.0.refuse();
    }

    /// See [`RequestBody::take_expects_continue`].
    #[inline]
    pub(crate) fn take_expects_continue(&mut self) -> bool {
        self.0.take_expects_continue()
    }

    /// See [`RequestBody::head_has_grown`].
    pub(crate) fn head_has_grown(&mut self, by: usize) {
        self.0.head_has_grown(by);
    }

    /// See [`RequestBody::came_directly`].
    pub(crate) fn came_directly(&mut self, piece: &[u8]) -> Result<(), RequestError> {
        self.0.came_directly(piece)
    }

    /// See [`RequestBody::make_room`].
    pub(crate) fn make_room(&mut self, buffer: &mut Vec<u8>, head_len: usize) {
        self.0.make_room(buffer, head_len);
    }

    /// Counts a piece that the client's stream gave to a handler; `None` is the end.
    pub(crate) fn came_by_stream(&mut self, piece: Option<&Bytes>) {
        debug_assert!(self.is_stream(), "a body by a stream");
        self.0.came_from_elsewhere(piece.map(Bytes::len));
    }
}

/// Counts bytes of framing as work: a buffer may hold a thousand chunks, and each costs time.
fn spend(framing: usize) {
    if framing > 0 {
        loops::spend(framing);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use freerun_proto::body::BodyDecoder;

    use super::*;

    /// The bytes that a handler gets of a body of which `buffer` has come, in pieces of at most `most` bytes.
    fn read(body: &mut ClientBody, buffer: &[u8], most: usize) -> Result<Vec<u8>, RequestError> {
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
        assert_eq!(size_of::<BodyPlace>() + 8, size_of::<BodyDecoder>());
    }

    /// Wrong framing in the middle of a line must not be taken for other framing when it is read again.
    #[test]
    fn behind_wrong_framing_there_is_no_end() {
        let mut body = ClientBody::new(BodyFraming::Chunked, 0, false);
        let buffer = b"1\r\nx\r\n4;a\x7f\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(body.next_wanted(buffer, 99), Ok(Some(3..4)));
        for _ in 0..3 {
            assert_eq!(body.skip(buffer), Err(RequestError::Chunked));
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
