//! The body: memory with one `sendmsg`, files with `sendfile` as far as they are in memory and through the pool where not.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use freerun_proto::chunked::{CHUNK_END, ChunkHead, LAST_CHUNK};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::files::{Cursor, FileError, Gone, OpenFile, Sent, Via};
use freerun_runtime::pool::PoolError;
use freerun_runtime::tasks::LongWork;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use crate::content::pull::Reader;
use crate::content::response::{Body, Field, FileRange, LateTrailers, Part, Source};
use crate::content::{aio, direct, open};
use crate::log_error;
use crate::request::{Connection, Request};
use crate::settings::core::CoreSettings;
use crate::settings::knobs::TransferSettings;
use crate::write::WriteError;
use crate::write::beside::{meanwhile, poll_once, sent_beside};
use crate::write::head::{Framing, field};
use crate::write::pace::Pace;

/// A file range up to this size is read into the head's buffer and leaves with it in one system call, if it is in
/// memory: cheaper than a second call.
pub const SMALL_FILE: u64 = 32 * 1024;

/// A body in memory up to this size is copied behind the head: one `send` costs less than a `sendmsg` of two pieces.
const COPIED: usize = 2048;
/// The same for the last piece of a source, which is followed by the end of its chunk and of the body.
const COPIED_LAST: usize = 16 * 1024;
/// How long what is held back waits for a source to give more.
pub const PAUSE: Duration = Duration::from_millis(10);

/// The most that one inline `sendfile` moves when `sendfile_max_chunk` says nothing smaller, so that a fast client
/// with a large file takes turns with the others.
const MAX_INLINE: u64 = 2 << 20;

/// The first `sendfile` after a head: with the head, it makes the first segment of 64 KiB that the network card (or the
/// loopback) takes nearly full and never over-full. A head that leaves by itself costs a segment more, and a longer first
/// piece has to be split by the kernel: 23 and 27 µs for 100 KB, against 22.
const FIRST_CHUNK: u64 = 56 * 1024;
/// Longer ranges have their head sent by itself (unless `tcp_nopush` is on), as nginx does: the segment more is lost among
/// hundreds, and pages that begin where segments do are cheaper.
const FIRST_CHUNK_FOR: u64 = 256 * 1024;

/// What the writing of one response needs again and again.
struct Writer<'r> {
    connection: &'r Connection,
    timer: Timer,
    send_timeout: Duration,
    pace: Pace,
    bytes: u64,
    /// From when the client first had to be waited for.
    long: Option<LongWork>,
}

impl Writer<'_> {
    /// Writes all of `first` and `second`.
    async fn all(&mut self, first: &[u8], second: &[u8], more: bool) -> Result<(), WriteError> {
        self.all_from(None, first, second, more).await
    }

    /// Writes all of `first` and `second`, of which some came from `source`: it may go on while the client does not.
    async fn all_from(
        &mut self,
        mut source: Option<&mut Box<dyn Source>>,
        mut first: &[u8],
        mut second: &[u8],
        more: bool,
    ) -> Result<(), WriteError> {
        while !first.is_empty() || !second.is_empty() {
            let left = first.len() + second.len();
            let room = match self.pace.is_free() {
                true => left,
                false => usize::try_from(meanwhile(&mut source, self.room(left as u64)).await).unwrap_or(left),
            };
            let now = &first[..first.len().min(room)];
            let then = &second[..second.len().min(room - now.len())];
            let more = more && room == left;
            let answer = match (now.is_empty(), then.is_empty()) {
                (false, false) => self.connection.socket.try_write(&[IoSlice::new(now), IoSlice::new(then)], more),
                (false, true) => self.connection.socket.try_write(&[IoSlice::new(now)], more),
                _ => self.connection.socket.try_write(&[IoSlice::new(then)], more),
            };
            match answer {
                Ok(sent) => {
                    let is_full = sent < now.len() + then.len();
                    self.bytes += sent as u64;
                    let from_first = sent.min(first.len());
                    first = &first[from_first..];
                    second = &second[sent - from_first..];
                    if is_full {
                        // The kernel has taken what it has room for and tells when there is more; asking it once more would say no more.
                        meanwhile(&mut source, self.wait()).await?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => meanwhile(&mut source, self.wait()).await?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How many of `wanted` bytes may be sent now by `limit_rate`; waits until it is some.
    async fn room(&mut self, wanted: u64) -> u64 {
        loop {
            match self.pace.room(self.bytes, wanted, loops::now()) {
                Ok(room) => return room,
                // The same timer as that of `send_timeout`: one of the two is waited for at a time.
                Err(wait) => drop(self.timer.within(wait, std::future::pending::<()>()).await),
            }
        }
    }

    /// Waits for room in the socket, which a write of this task has just filled.
    async fn wait(&mut self) -> Result<(), WriteError> {
        self.long.get_or_insert_with(LongWork::begin);
        match self.timer.within(self.send_timeout, self.connection.socket.writable_after_full()).await {
            Some(answer) => Ok(answer?),
            None => Err(WriteError::TimedOut),
        }
    }

    /// Waits for room in the socket, which a pool thread has found full.
    async fn wait_after_pool(&mut self) -> Result<(), WriteError> {
        self.long.get_or_insert_with(LongWork::begin);
        match self.timer.within(self.send_timeout, self.connection.socket.writable()).await {
            Some(answer) => Ok(answer?),
            None => Err(WriteError::TimedOut),
        }
    }
}

/// Writes `head` and then the body. `head` is emptied.
///
/// # Errors
/// The response is not complete.
pub async fn write(
    request: &mut Request,
    head: &mut Vec<u8>,
    body: Body,
    framing: Framing,
    trailers: Vec<Field>,
    late_trailers: Option<LateTrailers>,
) -> Result<(), WriteError> {
    let head_len = head.len() as u64;
    let before = request.sent;
    let pace = Pace::of(request, loops::now());
    let (bytes, rest) = at_once(request, head, body, framing, &pace)?;
    let Some(body) = rest else {
        request.sent.bytes += bytes;
        request.sent.body_bytes += bytes.saturating_sub(head_len);
        return Ok(());
    };
    let connection = request.connection.clone();
    let core = request.settings().get::<CoreSettings>();
    if request.keep_alive && core.tcp_nodelay {
        connection.set_nodelay();
    }
    let send_timeout = core.send_timeout;
    let mut writer = Writer { connection: &connection, timer: Timer::default(), send_timeout, pace, bytes, long: None };
    let result = match framing {
        Framing::None => writer.all(head, b"", false).await,
        Framing::Length | Framing::Close => write_body(request, &mut writer, head, body, framing).await,
        Framing::Chunked => match write_chunked(request, &mut writer, head, body).await {
            Ok(()) => {
                request.sent.bytes = before.bytes + writer.bytes;
                request.sent.body_bytes = before.body_bytes + writer.bytes.saturating_sub(head_len);
                last_chunk(request, trailers, late_trailers, head);
                writer.all(head, b"", false).await
            }
            error => error,
        },
    };
    request.sent = before;
    request.sent.bytes += writer.bytes;
    request.sent.body_bytes += writer.bytes.saturating_sub(head_len);
    result
}

/// Sends what is all there and can be sent now, in one call: nearly always that is the whole response. Gives what is left
/// of the body, with what is left of the head in `head`, if it is not, and how many bytes were sent.
///
/// # Errors
/// What `sendmsg(2)` answers.
fn at_once(
    request: &Request,
    head: &mut Vec<u8>,
    body: Body,
    framing: Framing,
    pace: &Pace,
) -> io::Result<(u64, Option<Body>)> {
    let bytes = match body {
        _ if framing == Framing::Chunked || !pace.is_free() => return Ok((0, Some(body))),
        Body::Empty => Bytes::new(),
        _ if framing == Framing::None => Bytes::new(),
        Body::Bytes(bytes) => bytes,
        body => return Ok((0, Some(body))),
    };
    let socket = &request.connection.socket;
    let (sent, bytes) = if bytes.len() <= COPIED {
        head.extend_from_slice(&bytes);
        (socket.try_write(&[IoSlice::new(head)], false), Bytes::new())
    } else {
        (socket.try_write(&[IoSlice::new(head), IoSlice::new(&bytes)], false), bytes)
    };
    match sent {
        Ok(sent) if sent == head.len() + bytes.len() => Ok((sent as u64, None)),
        Ok(sent) => {
            let of_head = sent.min(head.len());
            head.drain(..of_head);
            Ok((sent as u64, Some(Body::Bytes(bytes.slice(sent - of_head..)))))
        }
        // Who waits asks again.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok((0, Some(Body::Bytes(bytes))))
        }
        Err(error) => Err(error),
    }
}

/// Writes the head and the chunks of the body but the last one. What is left in `head` is still to be sent.
async fn write_chunked(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    body: Body,
) -> Result<(), WriteError> {
    match body {
        Body::Source(_) => write_body(request, writer, head, body, Framing::Chunked).await,
        body => {
            if let Some(length) = body.len().filter(|length| *length > 0) {
                head.extend_from_slice(ChunkHead::new(length).as_bytes());
                write_body(request, writer, head, body, Framing::Chunked).await?;
                head.clear();
                head.extend_from_slice(b"\r\n");
            }
            Ok(())
        }
    }
}

/// Appends the last chunk with the trailers, which the request keeps for `$sent_trailer_…`.
fn last_chunk(request: &mut Request, mut trailers: Vec<Field>, late: Option<LateTrailers>, out: &mut Vec<u8>) {
    if let Some(late) = late {
        late(request, &mut trailers);
    }
    if trailers.is_empty() {
        return out.extend_from_slice(LAST_CHUNK);
    }
    out.extend_from_slice(b"0\r\n");
    for (name, value) in &trailers {
        field(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
    request.sent_trailers = trailers;
}

async fn write_body(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    body: Body,
    framing: Framing,
) -> Result<(), WriteError> {
    // The end of the chunk comes after it.
    let more = framing == Framing::Chunked;
    match body {
        Body::Empty => writer.all(head, b"", false).await,
        Body::Bytes(bytes) if bytes.len() <= COPIED => {
            head.extend_from_slice(&bytes);
            writer.all(head, b"", more).await
        }
        Body::Bytes(bytes) => writer.all(head, &bytes, more).await,
        Body::File(range) => file(request, writer, head, range, more).await,
        Body::Parts(parts) => {
            let last = parts.len().saturating_sub(1);
            for (index, part) in parts.into_iter().enumerate() {
                // Thousands of small ones fit into a socket.
                loops::consume_budget().await;
                match part {
                    Part::Bytes(bytes) => writer.all(head, &bytes, more || index < last).await?,
                    Part::File(range) => file(request, writer, head, range, more || index < last).await?,
                }
                head.clear();
            }
            writer.all(head, b"", false).await
        }
        Body::Source(source) => {
            let postpone = request.settings().get::<TransferSettings>().postpone_output.0;
            pull(writer, head, source, framing, postpone).await
        }
    }
}

/// Sends what a source gives; chunked where the length is not known.
async fn pull(
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    mut source: Box<dyn Source>,
    framing: Framing,
    postpone: u64,
) -> Result<(), WriteError> {
    // What is ready to be sent and waits for more stands behind the head.
    let held = head;
    let mut owed = source.remaining().filter(|_| framing == Framing::Length);
    let mut begun = false;
    loop {
        // A client as fast as the source must not keep the loop from others.
        loops::consume_budget().await;
        let pause = if source.is_urgent() { None } else { Some(PAUSE) };
        let mut next = source.next();
        let piece = if held.is_empty() {
            next.as_mut().await
        } else {
            let soon = match pause {
                Some(pause) => Deadline::within(pause, next.as_mut()).await,
                None => match poll_once(&mut next.as_mut()).await {
                    Poll::Ready(piece) => Some(piece),
                    Poll::Pending => None,
                },
            };
            match soon {
                Some(piece) => piece,
                None => {
                    // What there is must not wait for what takes long.
                    let come = sent_beside(writer.all(held, b"", false), next.as_mut()).await?;
                    held.clear();
                    match come {
                        Some(piece) => piece,
                        None => next.as_mut().await,
                    }
                }
            }
        };
        drop(next);
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                // A body that breaks at once breaks before the head is sent: the client sees that there is no answer at
                // all. What another server has sent before it broke off is passed on. The end of its last chunk is not
                // sent: nothing that could be taken for more of the framing follows.
                let sent = match framing {
                    Framing::Chunked => held.strip_suffix(CHUNK_END).unwrap_or(held),
                    _ => held,
                };
                if begun && !sent.is_empty() && error.kind() == io::ErrorKind::ConnectionAborted {
                    writer.all(sent, b"", false).await?;
                }
                return Err(WriteError::Body);
            }
        };
        begun = true;
        if let Some(piece) = &piece {
            if let Some(owed) = &mut owed {
                // What is beyond the announced length would be taken for the next response.
                *owed = owed.checked_sub(piece.len() as u64).ok_or(WriteError::Body)?;
            }
            if framing == Framing::Chunked {
                held.extend_from_slice(ChunkHead::new(piece.len() as u64).as_bytes());
            }
            let ends = source.remaining() == Some(0);
            if ((held.len() + piece.len()) as u64) < postpone || ends && piece.len() <= COPIED_LAST {
                if held.capacity() == 0 {
                    *held = buffers::take_to_send();
                }
                held.extend_from_slice(piece);
            } else {
                writer.all_from(Some(&mut source), held, piece, framing == Framing::Chunked).await?;
                // A client that takes its time with the rest needs no buffer for that.
                match framing {
                    Framing::Chunked => held.clear(),
                    _ => buffers::give_back_sent(std::mem::take(held)),
                }
            }
            if framing == Framing::Chunked {
                held.extend_from_slice(CHUNK_END);
            }
            if !ends {
                continue;
            }
        }
        if owed.is_some_and(|owed| owed > 0) {
            return Err(WriteError::Body);
        }
        return match framing {
            // The last chunk goes with it.
            Framing::Chunked => Ok(()),
            _ => writer.all(held, b"", false).await,
        };
    }
}

/// The client's socket as the pool watches it; none for what goes on without its client.
pub struct ClientGone<'c>(Option<&'c Connection>);

impl<'c> ClientGone<'c> {
    /// For work on behalf of a request.
    pub fn of(request: &'c Request) -> ClientGone<'c> {
        ClientGone::on(&request.connection, request.is_background)
    }

    /// The same where the request is not at hand.
    pub fn on(connection: &'c Connection, is_background: bool) -> ClientGone<'c> {
        ClientGone((!is_background).then_some(connection))
    }
}

impl Gone for ClientGone<'_> {
    fn gone(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>> {
        match self.0 {
            Some(connection) => Box::pin(connection.socket.gone()),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Sends a range of a file, with what is left of the head before it.
async fn file(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    range: FileRange,
    more: bool,
) -> Result<(), WriteError> {
    let Some(aio) = aio::resolve(request) else { return Err(WriteError::Body) };
    let files = request.generation.files.clone();
    let core = request.settings().get::<CoreSettings>();
    if direct::alignment(request, range.file.meta()).is_some() {
        return direct_file(request, writer, head, range, more).await;
    }
    let FileRange { file, mut offset, mut len } = range;
    if len <= SMALL_FILE {
        let want = usize::try_from(len).unwrap_or(usize::MAX);
        let start = head.len();
        head.resize(start + want, 0);
        let read = files.try_read_now(&file, offset, &mut head[start..], &aio);
        match read {
            Some(Ok(n)) if n == want => {
                let result = writer.all(head, b"", more).await;
                head.clear();
                return result;
            }
            Some(Ok(_)) => return Err(cut_short(request, &file)),
            Some(Err(error)) => return Err(failed(request, &error)),
            None => head.truncate(start),
        }
    }
    let short = len <= FIRST_CHUNK_FOR;
    writer.all(head, b"", short || core.tcp_nopush).await?;
    head.clear();
    let mut first = if short { FIRST_CHUNK } else { MAX_INLINE };
    let gone = ClientGone::of(request);
    let client = request.client_key();
    let limit = match core.sendfile_max_chunk.0 {
        0 => u64::MAX,
        limit => limit,
    };
    let mut cursor = Cursor::default();
    let mut in_this_turn = 0;
    while len > 0 {
        loops::note(writer.connection.number, "sending a file");
        let limit = match writer.pace.is_free() {
            true => limit,
            false => limit.min(writer.room(len).await),
        };
        let chunk = len.min(limit).min(std::mem::replace(&mut first, MAX_INLINE));
        let socket = &writer.connection.socket;
        let mut inline = true;
        let sent = match files.send_now(&file, &mut cursor, std::os::fd::AsFd::as_fd(socket), offset, chunk, &aio) {
            Ok(Sent::NeedsPool) => {
                inline = false;
                let via = Via { aio: &aio, client, gone: Some(&gone) };
                let out = socket.shared_fd();
                files.send_pooled(&file, &mut cursor, out, offset, len.min(limit), via).await
            }
            answer => answer,
        };
        match sent {
            Ok(Sent::Bytes(n)) => {
                writer.bytes += n;
                offset += n;
                len -= n;
                in_this_turn += n;
                if in_this_turn >= MAX_INLINE && len > 0 {
                    in_this_turn = 0;
                    loops::after_events().await;
                }
            }
            Ok(Sent::SocketFull) => {
                in_this_turn = 0;
                if inline {
                    writer.wait().await?;
                } else {
                    writer.wait_after_pool().await?;
                }
            }
            Ok(Sent::Eof) => return Err(cut_short(request, &file)),
            Ok(Sent::NeedsPool) => return Err(WriteError::Body),
            Err(error) => return Err(failed(request, &error)),
        }
    }
    Ok(())
}

/// The same, past the page cache: piece by piece through memory, read by the pool.
async fn direct_file(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    mut range: FileRange,
    more: bool,
) -> Result<(), WriteError> {
    let reader = Reader::new(request);
    while range.len > 0 {
        let piece = match reader.read(&mut range).await {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(cut_short(request, &range.file)),
            Err(error) => {
                log_error!(request, Crit, "{error} while sending response to client");
                return Err(WriteError::Body);
            }
        };
        writer.all(head, &piece, more || range.len > 0).await?;
        head.clear();
    }
    writer.all(head, b"", more).await
}

/// The file has become shorter than what was announced.
fn cut_short(request: &Request, file: &Arc<OpenFile>) -> WriteError {
    open::forget(request, file);
    log_error!(request, Alert, "file was truncated while it was sent to the client");
    WriteError::Body
}

fn failed(request: &Request, error: &FileError) -> WriteError {
    match error {
        FileError::System { errno, .. } if is_connection_error(*errno) => io::Error::from_raw_os_error(*errno).into(),
        FileError::Pool(PoolError::ClientGone) => {
            log_error!(request, Info, "{error} while sending response to client");
            WriteError::Body
        }
        error => {
            log_error!(request, Crit, "{error} while sending response to client");
            WriteError::Body
        }
    }
}

fn is_connection_error(errno: i32) -> bool {
    use rustix::io::Errno;
    [Errno::PIPE, Errno::CONNRESET, Errno::NOTCONN, Errno::TIMEDOUT].iter().any(|known| known.raw_os_error() == errno)
}
