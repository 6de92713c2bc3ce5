//! Reading a request's body, and reading past a body that no handler wants. A [`ClientBody`] keeps how far the body has
//! come.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::CString;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_conf::{bytes_of, text_of};
use freerun_proto::h1::CloseReason;
use freerun_proto::head::FieldFault;
use freerun_proto::{RequestError, Status};
use freerun_runtime::files::FileError;
use freerun_runtime::log::Level;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use self::collect::{CollectedBody, Collector, KeptBody, Spool};
use crate::connection::stream::{self, StreamError, StreamFault};
use crate::content::aio;
use crate::message::body::ClientBody;
use crate::request::ClientStream;
use crate::request::core_settings::{CoreSettings, InFileOnly};
use crate::request::{Head, Request};

pub mod collect;
mod lent_body;

pub use lent_body::{LentBody, lend, take_back};

/// Reasons why the bytes of a body are not a body, in the words of nginx's error log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// The chunks of HTTP/1 are no chunks.
    #[error("client sent invalid chunked body")]
    Chunks,
    /// A stream has ended before the announced length.
    #[error("client prematurely closed stream: only {received} out of {declared} bytes of request body received")]
    Short {
        /// The bytes that have come.
        received: u64,
        /// `Content-Length`.
        declared: u64,
    },
    /// A stream has more than the announced length.
    #[error("client intended to send body data larger than declared")]
    Long,
    /// A field behind the body is malformed.
    #[error("{0} while reading request trailers")]
    Trailers(FieldFault),
}

impl BodyFault {
    /// The level of the message, as in nginx.
    pub fn level(&self) -> Level {
        match self {
            BodyFault::Chunks => Level::Error,
            BodyFault::Short { .. } | BodyFault::Long | BodyFault::Trailers(_) => Level::Info,
        }
    }
}

/// The reason why a body could not be read. See [`BodyError::status`].
#[derive(Debug)]
pub enum BodyError {
    /// The request is answered with this status.
    Status(Status),
    /// The client has sent no valid body, which is answered with 400.
    Faulty(BodyFault),
    /// The connection or the stream broke, or ended before the body did, or there is no client that could send it.
    Broken,
    /// No byte came within the timeout.
    TimedOut,
}

impl BodyError {
    /// The status that the request is answered with, or has in the log.
    pub fn status(&self) -> Status {
        match self {
            BodyError::Status(status) => *status,
            BodyError::TimedOut => Status::REQUEST_TIMEOUT,
            BodyError::Faulty(_) | BodyError::Broken => Status::BAD_REQUEST,
        }
    }
}

impl From<RequestError> for BodyError {
    fn from(_: RequestError) -> BodyError {
        BodyError::Faulty(BodyFault::Chunks)
    }
}

/// Logs that the client has sent no valid body.
fn log_fault(request: &Request, error: &BodyError) {
    if let BodyError::Faulty(fault) = error {
        crate::log::write(&request, fault.level(), format_args!("{fault}"));
    }
}

/// Gives up the body: tells a waiting client to go on (so that the connection can be used again), and reads past the
/// bytes that have come already. [`finish_discarding`] reads the rest after the response.
///
/// # Errors
/// The framing is wrong: the status to answer with.
pub fn begin_discarding(request: &mut Request) -> Result<(), Status> {
    take_back(request);
    request.body.give_up();
    send_continue(request);
    request.body.skip(&request.head.buffer).map_err(|error| {
        crate::log_error!(request, Error, "{}", BodyFault::Chunks);
        request.answered.persistence.close(CloseReason::BadBody);
        error.status()
    })
}

/// Looks at the received bytes of a body that no handler asked for, before the response says whether the connection can
/// be used again: it cannot behind wrong framing.
pub fn look_at_rest(request: &mut Request) {
    take_back(request);
    if request.body.skip(&request.head.buffer).is_err() {
        request.answered.persistence.close(CloseReason::BadBody);
    }
}

/// Gives a subrequest a body of its own instead of the client's: for its variables, and for what it is passed on to.
pub fn give(request: &mut Request, body: Bytes) {
    let length = body.len().to_string();
    let kept = KeptBody(RefCell::new(Some(Rc::new(CollectedBody::Memory(body)))));
    request.shared = OnceCell::from(Rc::new(request.shared().with(kept)));
    request.lineage.without_body = false;
    request.set_field(b"Content-Length", length.as_bytes());
}

/// Sends `100 Continue` to a client that waits for it before it sends its body, even if that is empty, as nginx does.
#[inline]
pub fn send_continue(request: &mut Request) {
    if request.is_http11() && request.body.take_expects_continue() {
        // As in nginx, all bytes that are not of the response's head count as its body.
        let sent = request.client.send_continue() as u64;
        request.sent.bytes += sent;
        request.sent.body_bytes += sent;
    }
}

/// Reads to the end of a body that no handler wanted, so that the connection can be used again. Each piece is waited
/// for as long as `wait`, and all of them together as long as `total`.
///
/// # Errors
/// The end of the body cannot be reached: see [`BodyError`].
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

/// Reads the next bytes into the connection's buffer; they take the room of the bytes that have been used.
async fn read_more(request: &mut Request, timer: &mut Timer, wait: Duration) -> Result<(), BodyError> {
    loops::consume_budget().await;
    let head = request.head.parsed.len as usize;
    let more = poll_fn(|context| {
        let Request { body, head: Head { buffer, .. }, client, .. } = request;
        poll_more(body, context, (buffer, head), client)
    });
    timer.within(wait, more).await.unwrap_or(Err(BodyError::TimedOut))
}

/// Returns the next piece of the body, for a handler that passes it on as it comes; `None` at its end. Tells a waiting
/// client to go on. A piece is what has come so far, but at most `most` bytes.
///
/// The future may be dropped while it waits, and the function called again. A body cannot be [collected](collect()) any
/// more after pieces of it were taken.
///
/// # Errors
/// See [`BodyError`]; a body larger than `client_max_body_size` is logged, and the status is 413.
pub async fn next_piece(request: &mut Request, timer: &mut Timer, most: usize) -> Result<Option<Bytes>, BodyError> {
    take_back(request);
    send_continue(request);
    loops::consume_budget().await;
    let (wait, limit) = limits(request);
    let head = request.head.parsed.len as usize;
    let piece = poll_fn(|context| {
        let Request { body, head: Head { buffer, .. }, client, .. } = request;
        poll_piece(body, context, (buffer, head), client, most)
    });
    let piece = timer.within(wait, piece).await.unwrap_or_else(|| Err(timed_out(request)));
    let piece = piece.inspect_err(|error| log_fault(request, error))?;
    check_size(request, limit)?;
    Ok(piece)
}

/// The longest time to wait for each piece of the body, and the largest size of the body (0 is no limit).
fn limits(request: &Request) -> (Duration, u64) {
    let core = request.settings().get::<CoreSettings>();
    (core.client_body_timeout, core.client_max_body_size.0)
}

/// Polls for the next piece of the body, at most `most` bytes, from the buffer or else from the client; `None` at its
/// end. The body stands in the buffer behind `head` bytes that stay.
fn poll_piece(
    body: &mut ClientBody,
    context: &mut Context<'_>,
    (buffer, head): (&mut Vec<u8>, usize),
    client: &ClientStream,
    most: usize,
) -> Poll<Result<Option<Bytes>, BodyError>> {
    if body.is_stream() {
        return poll_stream(body, context, client, most);
    }
    loop {
        let mut piece = Vec::new();
        while piece.len() < most {
            let Some(range) = body.next_wanted(buffer, most - piece.len())? else { break };
            piece.extend_from_slice(&buffer[range]);
        }
        if !piece.is_empty() {
            return Poll::Ready(Ok(Some(piece.into())));
        }
        if body.is_done() {
            return Poll::Ready(Ok(None));
        }
        if let Some(left) = body.remaining() {
            let Some(transport) = client.transport() else { return Poll::Ready(Err(BodyError::Broken)) };
            // Only bytes of this body can come: they need not pass through the connection's buffer.
            let room = usize::try_from(left).map_or(most, |left| left.min(most));
            let mut piece = BytesMut::new();
            let read = transport.poll_read_by(context, || {
                piece.reserve(room);
                Ok((transport.try_read_bytes(&mut piece, room)?, room))
            });
            some(ready!(read))?;
            body.came_directly(&piece)?;
            return Poll::Ready(Ok(Some(piece.freeze())));
        }
        ready!(poll_more(body, context, (&mut *buffer, head), client))?;
    }
}

/// Polls for more bytes, and appends them to the buffer.
fn poll_more(
    body: &mut ClientBody,
    context: &mut Context<'_>,
    (buffer, head): (&mut Vec<u8>, usize),
    client: &ClientStream,
) -> Poll<Result<(), BodyError>> {
    if body.is_lent() {
        // The reader that the body was lent to has not given it back: the meaning of the next bytes is not known.
        return Poll::Ready(Err(BodyError::Status(Status::BAD_REQUEST)));
    }
    let Some(transport) = client.transport() else { return Poll::Ready(Err(BodyError::Broken)) };
    body.make_room(buffer, head);
    let read = transport.poll_read_by(context, || {
        buffer.reserve(buffers::BUFFER_SIZE);
        let room = buffer.capacity() - buffer.len();
        Ok((transport.try_read(buffer)?, room))
    });
    Poll::Ready(some(ready!(read)))
}

/// Polls a stream of a multiplexed protocol for the next piece of the body; `None` at its end.
fn poll_stream(
    body: &mut ClientBody,
    context: &mut Context<'_>,
    client: &ClientStream,
    most: usize,
) -> Poll<Result<Option<Bytes>, BodyError>> {
    let Some(client) = client.stream() else { return Poll::Ready(Err(BodyError::Broken)) };
    let piece = match ready!(stream::poll_piece(&**client, context, most)) {
        Ok(piece) => piece,
        Err(error) => return Poll::Ready(Err(fault_of_stream(error, body.declared_length()))),
    };
    body.came_by_stream(piece.as_ref());
    if piece.is_some() && client.is_body_taken() {
        // Whoever passes the body on can say with these bytes that they are the last ones.
        body.came_by_stream(None);
    }
    Poll::Ready(Ok(piece))
}

/// Converts the error of a stream to the error of a body whose declared length is `declared`.
#[cold]
fn fault_of_stream(error: StreamError, declared: Option<u64>) -> BodyError {
    let fault = match error {
        StreamError::Reset | StreamError::ConnectionFailed => return BodyError::Broken,
        StreamError::Faulty(fault) => *fault,
    };
    BodyError::Faulty(match fault {
        StreamFault::Trailers(fault) => BodyFault::Trailers(fault),
        StreamFault::Length { missing: 0 } => BodyFault::Long,
        StreamFault::Length { missing } => {
            let declared = declared.unwrap_or(missing);
            BodyFault::Short { received: declared.saturating_sub(missing), declared }
        }
    })
}

/// Turns the end of the stream (0 bytes) into an error: a body that ends too early is broken.
fn some(read: io::Result<usize>) -> Result<(), BodyError> {
    match read {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err(BodyError::Broken),
    }
}

/// Refuses a body of undeclared length that has become larger than `limit`; 0 is no limit.
fn check_size(request: &mut Request, limit: u64) -> Result<(), BodyError> {
    if request.body.is_beyond(limit) {
        let received = request.body.received();
        crate::log_error!(request, Error, "client intended to send too large chunked body: {received} bytes");
        request.answered.persistence.close(CloseReason::BadBody);
        return Err(BodyError::Status(Status::CONTENT_TOO_LARGE));
    }
    Ok(())
}

/// Reads the whole body, for a handler that wants it: into memory, or into a temporary file if it is larger than
/// `client_body_buffer_size`. Tells a waiting client to go on.
///
/// # Errors
/// See [`BodyError`]. A file that cannot be written is logged, and the status is 500 (507: the disk is full; 503: the
/// pool is). If another reader had a part of the body and did not keep it, the rest is not the whole body:
/// [`status_of_spent`] has the status.
pub async fn collect(request: &mut Request) -> Result<Rc<CollectedBody>, BodyError> {
    collect_for(request, Purpose::Handler).await
}

/// Reads the whole body as [`collect`](collect()) does, for a handler that keeps it as a file. The log has no line
/// about the body's file, as it was wanted.
///
/// # Errors
/// See [`collect`](collect()).
pub async fn collect_upload(request: &mut Request) -> Result<Rc<CollectedBody>, BodyError> {
    collect_for(request, Purpose::Upload).await
}

/// Reads the whole body as [`collect`](collect()) does, before a location is chosen (`client_body_early_read`): the
/// file has no name in any case.
///
/// # Errors
/// See [`collect`](collect()).
pub async fn collect_early(request: &mut Request) -> Result<Rc<CollectedBody>, BodyError> {
    collect_for(request, Purpose::Early).await
}

/// The purpose of reading a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The request's handler.
    Handler,
    /// A handler that keeps it as a file.
    Upload,
    /// Whatever is chosen later: `client_body_in_file_only` of a location does not count.
    Early,
}

/// The status of the response that an error page took the place of last, if a part of the body had been read by then.
#[derive(Default)]
struct ReplacedStatus(Cell<Option<Status>>);

/// Notes that an error page takes the place of a response with this status: it may need a body that is spent.
pub fn note_replaced(request: &Request, status: Status) {
    if request.body.received() > 0 || request.body.is_lent() {
        request.own.get::<ReplacedStatus>().0.set(Some(status));
    }
}

/// The status of a request whose body is needed, but was passed on to a server before: the status of the error that led
/// to an error page.
pub fn status_of_spent(request: &Request) -> Status {
    request.own.find::<ReplacedStatus>().and_then(|replaced| replaced.0.get()).unwrap_or(Status::INTERNAL_SERVER_ERROR)
}

/// Reads the whole body, unless that was done before.
async fn collect_for(request: &mut Request, purpose: Purpose) -> Result<Rc<CollectedBody>, BodyError> {
    let kept = request.shared().get::<KeptBody>();
    if let Some(body) = &*kept.0.borrow() {
        return Ok(body.clone());
    }
    if request.body.received() > 0 {
        crate::log_error!(request, Error, "a request body that was passed on in part cannot be read again");
        return Err(BodyError::Status(status_of_spent(request)));
    }
    let body = match read_all(request, purpose).await {
        Ok(body) => Rc::new(body),
        Err(error) => {
            log_fault(request, &error);
            request.body.give_up();
            // The framing of the rest of the body is not known any more.
            request.answered.persistence.close(CloseReason::BadBody);
            return Err(error);
        }
    };
    *kept.0.borrow_mut() = Some(body.clone());
    Ok(body)
}

async fn read_all(request: &mut Request, purpose: Purpose) -> Result<CollectedBody, BodyError> {
    take_back(request);
    send_continue(request);
    let location = request.place.location.clone();
    let core = location.settings.get::<CoreSettings>();
    let aio = aio::resolve(request).ok_or(BodyError::Status(Status::INTERNAL_SERVER_ERROR))?;
    let folder = &core.client_body_temp_path;
    let spool = Spool {
        directory: CString::new(bytes_of(&folder.path).into_owned())
            .map_err(|_| BodyError::Status(Status::INTERNAL_SERVER_ERROR))?,
        levels: folder.levels.clone(),
        file_only: purpose != Purpose::Early && core.client_body_in_file_only != InFileOnly::Off,
        keep: core.client_body_in_file_only == InFileOnly::On,
    };
    // As by nginx, what the configuration asks for is less remarkable than a body that does not fit its buffer.
    let level = if spool.file_only { Level::Notice } else { Level::Warn };
    let mut is_logged = purpose == Purpose::Upload;
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
        if !is_logged && let Some(path) = collector.file_path() {
            is_logged = true;
            log_file(request, level, &path);
        }
        if request.body.is_stream()
            && let Some(piece) = next_of_stream(request, &mut timer, core.client_body_timeout).await?
        {
            check_size(request, limit)?;
            collector.push(&piece).await.map_err(|error| not_kept(request, &error))?;
            continue;
        }
        if request.body.is_done() {
            let body = collector.finish().await.map_err(|error| not_kept(request, &error))?;
            if let CollectedBody::File(file) = &body
                && !is_logged
            {
                log_file(request, level, &file.shown_path());
            }
            return Ok(body);
        }
        read_more(request, &mut timer, core.client_body_timeout).await?;
    }
}

/// Returns the next piece of a body that comes by a stream; `None` at its end.
async fn next_of_stream(request: &mut Request, timer: &mut Timer, wait: Duration) -> Result<Option<Bytes>, BodyError> {
    loops::consume_budget().await;
    let piece = poll_fn(|context| {
        let Request { body, client, .. } = &mut *request;
        poll_stream(body, context, client, buffers::BUFFER_SIZE)
    });
    timer.within(wait, piece).await.unwrap_or_else(|| Err(timed_out(request)))
}

/// The next piece of a body has not come in time. As by nginx, it is logged if the body comes by a stream, whose connection
/// goes on.
fn timed_out(request: &Request) -> BodyError {
    if request.body.is_stream() {
        crate::log_error!(request, Info, "client timed out (110: Connection timed out)");
    }
    BodyError::TimedOut
}

fn log_file(request: &Request, level: Level, path: &[u8]) {
    let path = text_of(path);
    crate::log::write(&request, level, format_args!("a client request body is buffered to a temporary file {path}"));
}

fn not_kept(request: &Request, error: &FileError) -> BodyError {
    crate::log_error!(request, Crit, "{error} while keeping the request body");
    BodyError::Status(match error {
        FileError::Pool(_) => Status::SERVICE_UNAVAILABLE,
        error if error.is_full_disk() => Status::INSUFFICIENT_STORAGE,
        _ => Status::INTERNAL_SERVER_ERROR,
    })
}
