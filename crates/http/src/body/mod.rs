//! The request body: its framing, and reading past one that nobody wants.
//!
//! The first bytes of a body often come with the head and stand behind it in the connection's buffer; what follows the
//! body there belongs to the next request.

use std::ffi::CString;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_proto::BodyFraming;
use freerun_proto::chunked::{ChunkedDecoder, Step};
use freerun_runtime::files::FileError;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use self::collect::{Collected, Collector, KeptBody, Spool};
use crate::content::aio;
use crate::message::persistence::CloseReason;
use crate::request::ClientStream;
use crate::request::core_settings::{CoreSettings, InFileOnly};
use crate::request::{Head, Request};

pub mod collect;
mod lent;

use lent::Returned;
pub use lent::{Lent, lend, take_back};

/// A body on its way in.
pub struct ClientBody {
    framing: Framing,
    declared: Option<u64>,
    /// Bytes of the connection's buffer that have been used, head included.
    used: usize,
    /// Bytes of the body that a handler has had; what is thrown away does not count.
    received: u64,
    /// Bytes of chunk framing and trailers that were read with these.
    framing_read: u64,
    /// The client waits for `100 Continue` before it sends.
    expects_continue: bool,
    /// It was refused, or what has come of it was thrown away, before all of it was there: nobody can have it any more.
    given_up: bool,
}

enum Framing {
    Done,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    /// The client's stream gives it, and tells its end.
    Stream,
    /// Somebody reads it apart from its request, and gives it back there.
    Lent(Rc<Returned>),
}

/// Why a body could not be read.
#[derive(Debug)]
pub enum BodyError {
    /// Answer with this status.
    Status(u16),
    /// The connection broke.
    Broken(io::Error),
    /// Nothing came for too long.
    TimedOut,
}

impl ClientBody {
    /// The body that a head announces. `head_len` bytes of the buffer are the head.
    pub fn new(framing: BodyFraming, head_len: usize, expects_continue: bool) -> ClientBody {
        let (framing, declared) = match framing {
            BodyFraming::None => (Framing::Done, None),
            BodyFraming::Length(0) => (Framing::Done, Some(0)),
            BodyFraming::Length(length) => (Framing::Length(length), Some(length)),
            BodyFraming::Chunked => (Framing::Chunked(Box::new(ChunkedDecoder::new())), None),
        };
        ClientBody {
            framing,
            declared,
            used: head_len,
            received: 0,
            framing_read: 0,
            expects_continue,
            given_up: false,
        }
    }

    /// The body that comes by a stream of a multiplexed protocol, behind a head of `head_len` bytes. `declared` is its
    /// `Content-Length`, which the driver has the stream keep to.
    pub fn of_stream(declared: Option<u64>, head_len: usize, expects_continue: bool) -> ClientBody {
        ClientBody {
            framing: Framing::Stream,
            declared,
            ..ClientBody::new(BodyFraming::None, head_len, expects_continue)
        }
    }

    /// `Content-Length`, where there is one.
    pub fn declared_length(&self) -> Option<u64> {
        self.declared
    }

    /// Whether everything has been read.
    pub fn is_done(&self) -> bool {
        matches!(self.framing, Framing::Done)
    }

    /// Whether all that is left of it stands in the connection's buffer, where its length says so.
    pub fn is_here(&self, buffer: &[u8]) -> bool {
        match self.framing {
            Framing::Length(left) => left <= buffer.len().saturating_sub(self.used) as u64,
            Framing::Done => true,
            Framing::Chunked(_) | Framing::Stream | Framing::Lent(_) => false,
        }
    }

    /// Nobody can have it any more, if it is not here.
    pub fn give_up(&mut self) {
        self.given_up |= !self.is_done();
    }

    /// Whether it was given up.
    pub fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// A waiting client is not told to send.
    pub fn refuse(&mut self) {
        self.expects_continue = false;
    }

    /// How many bytes of the body a handler has had; what is thrown away does not count.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// What these bytes were on the wire, as `$request_length` tells.
    pub fn length(&self) -> u64 {
        self.received + self.framing_read
    }

    /// How many bytes of the connection's buffer head and body have taken.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The next bytes of the body that are in the buffer, at most so many, as a range of it; `None` when more has to be
    /// read, or when the body is complete.
    fn next(&mut self, buffer: &[u8], most: usize) -> Result<Option<Range<usize>>, BodyError> {
        loop {
            let start = self.used;
            let rest = &buffer[start..];
            match &mut self.framing {
                Framing::Done | Framing::Stream | Framing::Lent(_) => return Ok(None),
                _ if rest.is_empty() => return Ok(None),
                Framing::Length(left) => {
                    let here = rest.len().min(most).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= here as u64;
                    if *left == 0 {
                        self.framing = Framing::Done;
                    }
                    self.take(here);
                    return Ok(Some(start..start + here));
                }
                Framing::Chunked(decoder) => {
                    let limited = &rest[..rest.len().min(most)];
                    match decoder.step(limited).map_err(|error| BodyError::Status(error.status()))? {
                        Step::Data(data) => {
                            // A buffer may hold a thousand chunks.
                            loops::spend(data.start);
                            self.take(data.end);
                            return Ok(Some(start + data.start..start + data.end));
                        }
                        Step::More => {
                            let looked_at = limited.len();
                            loops::spend(looked_at);
                            self.take(looked_at);
                        }
                        Step::Done(consumed) => {
                            self.framing = Framing::Done;
                            self.take(consumed);
                        }
                    }
                }
            }
        }
    }

    /// The same for a handler, for whom it counts.
    fn next_wanted(&mut self, buffer: &[u8], most: usize) -> Result<Option<Range<usize>>, BodyError> {
        let before = self.used;
        let next = self.next(buffer, most)?;
        let wanted = next.as_ref().map_or(0, Range::len);
        self.received += wanted as u64;
        self.framing_read += (self.used - before - wanted) as u64;
        Ok(next)
    }

    fn take(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// Reads past what is in the buffer.
    #[inline]
    fn skip(&mut self, buffer: &[u8]) -> Result<(), BodyError> {
        if self.is_done() {
            return Ok(());
        }
        while self.next(buffer, usize::MAX)?.is_some() {}
        Ok(())
    }
}

/// Says that the body is not wanted: tells a waiting client to go on (so that the connection can be used again) and
/// reads past what has come already. What is still to come is read after the response, by [`finish_discarding`].
///
/// # Errors
/// The framing is wrong: the status to answer with.
pub fn begin_discarding(request: &mut Request) -> Result<(), u16> {
    take_back(request);
    request.body.give_up();
    send_continue(request);
    match request.body.skip(&request.head.buffer) {
        Err(BodyError::Status(status)) => {
            crate::log_error!(request, Error, "client sent invalid chunked body");
            request.answered.persistence.close(CloseReason::BadBody);
            Err(status)
        }
        _ => Ok(()),
    }
}

/// Looks at what has come of a body that nobody asked for, before the answer says whether the connection can be used
/// again: not behind framing that is wrong.
pub fn look_at_rest(request: &mut Request) {
    take_back(request);
    if request.body.skip(&request.head.buffer).is_err() {
        request.answered.persistence.close(CloseReason::BadBody);
    }
}

/// Tells a client that waits for it to send its body.
fn send_continue(request: &mut Request) {
    if request.body.expects_continue && request.is_http11() {
        request.body.expects_continue = false;
        request.sent.bytes += request.client.send_continue() as u64;
    }
}

/// Reads to the end of a body that nobody wanted, so that the connection can be used again: waits for each piece as long
/// as `wait`, and for all of them as long as `total`.
///
/// # Errors
/// It cannot.
pub async fn finish_discarding(
    request: &mut Request,
    timer: &mut Timer,
    wait: Duration,
    total: Duration,
) -> Result<(), BodyError> {
    request.body.skip(&request.head.buffer)?;
    let start = loops::now();
    while !request.body.is_done() {
        let left = total.saturating_sub(loops::now().saturating_duration_since(start));
        if left.is_zero() {
            return Err(BodyError::TimedOut);
        }
        read_more(request, timer, wait.min(left)).await?;
        request.body.skip(&request.head.buffer)?;
    }
    Ok(())
}

/// Reads what comes next behind the bytes that have been used, whose room it takes.
async fn read_more(request: &mut Request, timer: &mut Timer, wait: Duration) -> Result<(), BodyError> {
    loops::consume_budget().await;
    let head = request.head.parsed.len as usize;
    let more = poll_fn(|context| {
        let Request { body, head: Head { buffer, .. }, client, .. } = request;
        body.poll_more(context, (buffer, head), client)
    });
    timer.within(wait, more).await.unwrap_or(Err(BodyError::TimedOut))
}

/// The next piece of the body, for a handler that passes it on as it comes; `None` at its end. Tells a waiting client to
/// go on. A piece is what has come, but at most `most` bytes.
///
/// It may be dropped while it waits, and asked again. A body of which pieces were taken cannot be [collected](collect()) any more.
///
/// # Errors
/// See [`BodyError`]; more than `client_max_body_size` is logged, and the status is 413.
pub async fn next_piece(request: &mut Request, timer: &mut Timer, most: usize) -> Result<Option<Bytes>, BodyError> {
    take_back(request);
    send_continue(request);
    loops::consume_budget().await;
    let (wait, limit) = limits(request);
    let head = request.head.parsed.len as usize;
    let piece = poll_fn(|context| {
        let Request { body, head: Head { buffer, .. }, client, .. } = request;
        body.poll_piece(context, (buffer, head), client, most)
    });
    let piece = timer.within(wait, piece).await.unwrap_or(Err(BodyError::TimedOut))?;
    if request.body.declared.is_none() {
        check_size(request, limit)?;
    }
    Ok(piece)
}

/// How long each piece of the body is waited for, and how long the body may be (0: as long as it likes).
fn limits(request: &Request) -> (Duration, u64) {
    let core = request.settings().get::<CoreSettings>();
    (core.client_body_timeout, core.client_max_body_size.0)
}

impl ClientBody {
    /// What has come of the body already, at most `most` bytes, or what comes next; `None` at its end. It stands in a buffer
    /// behind `head` bytes that stay.
    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        (buffer, head): (&mut Vec<u8>, usize),
        client: &ClientStream,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        if let Framing::Stream = self.framing {
            return self.poll_stream(context, client, most);
        }
        loop {
            let mut piece = Vec::new();
            while piece.len() < most {
                let Some(range) = self.next_wanted(buffer, most - piece.len())? else { break };
                piece.extend_from_slice(&buffer[range]);
            }
            if !piece.is_empty() {
                return Poll::Ready(Ok(Some(piece.into())));
            }
            if self.is_done() {
                return Poll::Ready(Ok(None));
            }
            if let Framing::Length(left) = &mut self.framing {
                let Some(transport) = client.transport() else { return Poll::Ready(Err(nobody())) };
                // Nothing else can come: it does not have to pass through the connection's buffer.
                let room = usize::try_from(*left).map_or(most, |left| left.min(most));
                let mut piece = BytesMut::new();
                let read = transport.poll_read_by(context, || {
                    piece.reserve(room);
                    Ok((transport.try_read_bytes(&mut piece, room)?, room))
                });
                some(ready!(read))?;
                *left -= piece.len() as u64;
                if *left == 0 {
                    self.framing = Framing::Done;
                }
                self.received += piece.len() as u64;
                return Poll::Ready(Ok(Some(piece.freeze())));
            }
            ready!(self.poll_more(context, (&mut *buffer, head), client))?;
        }
    }

    /// Reads what comes next into that buffer.
    fn poll_more(
        &mut self,
        context: &mut Context<'_>,
        (buffer, head): (&mut Vec<u8>, usize),
        client: &ClientStream,
    ) -> Poll<Result<(), BodyError>> {
        if let Framing::Lent(_) = self.framing {
            // Whoever has it has not given it back: nothing is known of what comes.
            return Poll::Ready(Err(BodyError::Status(400)));
        }
        let Some(transport) = client.transport() else { return Poll::Ready(Err(nobody())) };
        // What has been used makes room; the head must stay, the handlers look into it.
        buffer.drain(head..self.used);
        self.used = head;
        let read = transport.poll_read_by(context, || {
            buffer.reserve(buffers::BUFFER_SIZE);
            let room = buffer.capacity() - buffer.len();
            Ok((transport.try_read(buffer)?, room))
        });
        Poll::Ready(some(ready!(read)))
    }

    /// What a stream of a multiplexed protocol gives of the body next; `None` at its end.
    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        client: &ClientStream,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, BodyError>> {
        let Some(stream) = client.stream() else { return Poll::Ready(Err(nobody())) };
        let piece = ready!(stream.poll_body(context, most)).map_err(BodyError::Broken)?;
        match &piece {
            Some(piece) => self.received += piece.len() as u64,
            None => self.framing = Framing::Done,
        }
        Poll::Ready(Ok(piece))
    }

    /// Whether more has come than there may be; 0 is no limit.
    fn is_beyond(&self, limit: u64) -> bool {
        // Of one with a length that was judged when the location was chosen; a named location does not judge again.
        self.declared.is_none() && limit > 0 && self.received > limit
    }
}

/// The error of reading a body where there is no client: one that nobody sends breaks off.
fn nobody() -> BodyError {
    BodyError::Broken(io::ErrorKind::NotConnected.into())
}

/// A body that ends before its end is broken.
fn some(read: io::Result<usize>) -> Result<(), BodyError> {
    match read {
        Ok(0) => Err(BodyError::Broken(io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => Ok(()),
        Err(error) => Err(BodyError::Broken(error)),
    }
}

/// Refuses a body that has come to be larger than `limit`; 0 is no limit.
fn check_size(request: &mut Request, limit: u64) -> Result<(), BodyError> {
    if request.body.is_beyond(limit) {
        let received = request.body.received;
        crate::log_error!(request, Error, "client intended to send too large chunked body: {received} bytes");
        request.answered.persistence.close(CloseReason::BadBody);
        return Err(BodyError::Status(413));
    }
    Ok(())
}

/// Reads the whole body, for a handler that wants it: into memory, or beyond `client_body_buffer_size` into a temporary
/// file. Tells a waiting client to go on.
///
/// # Errors
/// See [`BodyError`]; a file that cannot be written is logged, and the status is 500 (507: the disk is full; 503: the pool is).
/// 500, too, if somebody had a part of it and did not keep that: what is left is not the body.
pub async fn collect(request: &mut Request) -> Result<Rc<Collected>, BodyError> {
    let kept = request.shared().get::<KeptBody>();
    if let Some(body) = &*kept.0.borrow() {
        return Ok(body.clone());
    }
    if request.body.received() > 0 {
        crate::log_error!(request, Error, "a request body that was passed on in part cannot be read again");
        return Err(BodyError::Status(500));
    }
    let body = match read_all(request).await {
        Ok(body) => Rc::new(body),
        Err(error) => {
            request.body.give_up();
            // What is left of the body is anybody's guess.
            request.answered.persistence.close(CloseReason::BadBody);
            return Err(error);
        }
    };
    *kept.0.borrow_mut() = Some(body.clone());
    Ok(body)
}

async fn read_all(request: &mut Request) -> Result<Collected, BodyError> {
    take_back(request);
    send_continue(request);
    let location = request.place.location.clone();
    let core = location.settings.get::<CoreSettings>();
    let aio = aio::resolve(request).ok_or(BodyError::Status(500))?;
    let folder = &core.client_body_temp_path;
    let spool = Spool {
        directory: CString::new(folder.path.as_str()).map_err(|_| BodyError::Status(500))?,
        levels: folder.levels.clone(),
        file_only: core.client_body_in_file_only != InFileOnly::Off,
        keep: core.client_body_in_file_only == InFileOnly::On,
    };
    let in_memory = usize::try_from(core.client_body_buffer_size.0).unwrap_or(usize::MAX);
    let files = request.generation.files.clone();
    let mut collector = Collector::new(files, aio, request.client_key(), spool, in_memory);
    let mut timer = Timer::default();
    let limit = core.client_max_body_size.0;
    loop {
        while let Some(range) = request.body.next_wanted(&request.head.buffer, usize::MAX)? {
            check_size(request, limit)?;
            collector.push(&request.head.buffer[range]).await.map_err(|error| not_kept(request, &error))?;
        }
        if let Framing::Stream = request.body.framing
            && let Some(piece) = next_of_stream(request, &mut timer, core.client_body_timeout).await?
        {
            check_size(request, limit)?;
            collector.push(&piece).await.map_err(|error| not_kept(request, &error))?;
            continue;
        }
        if request.body.is_done() {
            return collector.finish().await.map_err(|error| not_kept(request, &error));
        }
        read_more(request, &mut timer, core.client_body_timeout).await?;
    }
}

/// What comes next of a body by a stream.
async fn next_of_stream(request: &mut Request, timer: &mut Timer, wait: Duration) -> Result<Option<Bytes>, BodyError> {
    loops::consume_budget().await;
    let piece = poll_fn(|context| {
        let Request { body, client, .. } = &mut *request;
        body.poll_stream(context, client, buffers::BUFFER_SIZE)
    });
    timer.within(wait, piece).await.unwrap_or(Err(BodyError::TimedOut))
}

fn not_kept(request: &Request, error: &FileError) -> BodyError {
    crate::log_error!(request, Crit, "{error} while keeping the request body");
    BodyError::Status(match error {
        FileError::Pool(_) => 503,
        error if error.is_full_disk() => 507,
        _ => 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many reads may still follow in the same turn when all of this was read past, in parts of `part` bytes.
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
