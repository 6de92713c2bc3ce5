//! Files as bodies: what is in memory is sent from the loop, by `sendfile` or, with `sendfile off`, as a copy; the rest by
//! the thread pool.

use std::io;

use freerun_runtime::files::{Aio, COPIED_MAX, Cursor, FileError, SendResult, Via};
use freerun_runtime::loops;
use freerun_runtime::pool::PoolError;
use freerun_transport::FileSending;

use crate::connection::client_gone::ClientGone;
use crate::content::pull::Reader;
use crate::content::{aio, direct};
use crate::log_error;
use crate::protocol::h1::writer::{Follows, Writer, before_end};
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::response::{BodySource, FileRange};
use crate::write::WriteError;
use crate::write::file::{SMALL_FILE, cut_short, unreadable};
use crate::write::source_progress::meanwhile;

/// The most that one inline `sendfile` moves unless `sendfile_max_chunk` is smaller, so that a fast client with a large
/// file takes turns with the others.
const MAX_INLINE: u64 = 2 << 20;

/// The most that is copied (and encrypted, if the transport does that) before other connections have their turn: about a
/// third of a millisecond.
const MAX_COPIED: usize = 512 << 10;

/// The size of the first `sendfile` after a head. Together with the head, it nearly fills but never exceeds the first
/// segment of 64 KiB that the network card (or the loopback) takes. A head that is sent by itself costs a segment more,
/// and the kernel has to split a longer first piece. Measured for 100 KB: 23 and 27 µs, against 22.
const FIRST_CHUNK: u64 = 56 * 1024;
/// The head of a longer range is sent by itself (unless `tcp_nopush` is on), as in nginx. One segment more does not
/// matter among hundreds, and pages that begin where segments do are cheaper.
const FIRST_CHUNK_FOR: u64 = 256 * 1024;

/// The least number of bytes for the next attempt after the client had to be waited for: the socket may take more than
/// the last time.
const LEAST_AFTER_FULL: u64 = 64 * 1024;

/// Sends a range of a file, with the rest of the head before it.
pub async fn with_head(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    range: FileRange,
    follows: Follows,
) -> Result<(), WriteError> {
    let Some(aio) = aio::resolve(request) else { return Err(WriteError::Body) };
    let files = request.generation.files.clone();
    let core = request.settings().get::<CoreSettings>();
    let copies = matches!(writer.connection.transport.file_sending(), FileSending::Copy);
    if copies || direct::alignment(request, range.file.meta()).is_some() {
        return by_copying(request, writer, head, range, follows).await;
    }
    let FileRange { file, offset, len } = range;
    if len <= SMALL_FILE {
        let want = usize::try_from(len).unwrap_or(usize::MAX);
        let start = head.len();
        head.resize(start + want, 0);
        let read = files.try_read_now(&file, offset, &mut head[start..], &aio);
        match read {
            Some(Ok(n)) if n == want => {
                let result = writer.all(head, b"", follows).await;
                head.clear();
                return result;
            }
            Some(Ok(_)) => return Err(cut_short(request, &file)),
            Some(Err(error)) => return Err(failed(request, &error)),
            None => head.truncate(start),
        }
    }
    let short = len <= FIRST_CHUNK_FOR;
    let file_follows = if short || core.tcp_nopush { Follows::AtOnce } else { Follows::Later };
    writer.all(head, b"", file_follows).await?;
    head.clear();
    let first = if short { FIRST_CHUNK } else { MAX_INLINE };
    let ends = follows == Follows::Nothing;
    let cursor = if core.sendfile { Cursor::default() } else { Cursor::copying() };
    send(request, writer, FileRange { file, offset, len }, Chunks { first, ends, cursor }, &aio, None).await
}

/// Sends a range of a file that a source refers to; the source goes on while the client does not take it.
pub async fn of_source(
    request: &Request,
    writer: &mut Writer<'_>,
    range: FileRange,
    source: &mut Box<dyn BodySource>,
    follows: Follows,
) -> Result<(), WriteError> {
    let ends = follows == Follows::Nothing;
    if matches!(writer.connection.transport.file_sending(), FileSending::Copy) {
        let follows = if ends { follows } else { Follows::AtOnce };
        return by_copying(request, writer, &mut Vec::new(), range, follows).await;
    }
    let Some(aio) = aio::resolve(request) else { return Err(WriteError::Body) };
    // Nobody else writes to the file.
    let cursor = Cursor::default();
    send(request, writer, range, Chunks { first: MAX_INLINE, ends, cursor }, &aio, Some(source)).await
}

/// The sizes of the pieces in which a range of a file is sent.
struct Chunks {
    /// The most that the first call sends.
    first: u64,
    /// Whether the response ends with the range.
    ends: bool,
    /// Whether the bytes are copied first, and what is known of the file's pages.
    cursor: Cursor,
}

/// Sends a range of a file.
async fn send(
    request: &Request,
    writer: &mut Writer<'_>,
    range: FileRange,
    Chunks { mut first, ends, mut cursor }: Chunks,
    aio: &Aio,
    mut source: Option<&mut Box<dyn BodySource>>,
) -> Result<(), WriteError> {
    let FileRange { file, mut offset, mut len } = range;
    let files = &request.generation.files;
    let gone = ClientGone::of(&request.client);
    let client = request.client_key();
    let limit = match request.settings().get::<CoreSettings>().sendfile_max_chunk.0 {
        0 => u64::MAX,
        limit => limit,
    };
    let (turn, inline_max) = if cursor.copies() { (MAX_COPIED as u64, COPIED_MAX) } else { (MAX_INLINE, MAX_INLINE) };
    let (mut in_this_turn, mut since_full, mut at_once) = (0, 0, u64::MAX);
    while len > 0 {
        loops::note(writer.connection.number, "sending a file");
        let limit =
            if writer.pace.is_free() { limit } else { limit.min(meanwhile(&mut source, writer.room(len)).await) };
        let most = if ends { before_end(writer.connection, len) } else { len };
        let chunk = most.min(limit).min(at_once).min(std::mem::replace(&mut first, inline_max)).min(inline_max);
        let transport = &writer.connection.transport;
        let (mut inline, mut filled) = (true, false);
        let FileSending::Sendfile(out) = transport.file_sending() else { return Err(WriteError::Body) };
        let sent = match files.send_now(&file, &mut cursor, out, offset, chunk, aio) {
            Ok(SendResult::NeedsPool) => {
                inline = false;
                let via = Via { aio, client, gone: Some(&gone) };
                let pooled = files.send_pooled(&file, &mut cursor, transport.shared_fd(), offset, most.min(limit), via);
                meanwhile(&mut source, pooled).await
            }
            answer => answer,
        };
        match sent {
            Ok(SendResult::Bytes(n)) => {
                writer.bytes += n;
                offset += n;
                len -= n;
                in_this_turn += n;
                since_full += n;
                // A socket that took less than it was offered is mostly full: asking for its state costs less than
                // offering it the rest.
                if inline && n < chunk && len > 0 && !transport.has_room()? {
                    filled = true;
                } else if in_this_turn >= turn && len > 0 {
                    in_this_turn = 0;
                    loops::after_events().await;
                }
            }
            Ok(SendResult::SocketFull) if inline => filled = true,
            Ok(SendResult::SocketFull) => {
                in_this_turn = 0;
                meanwhile(&mut source, writer.wait_after_pool()).await?;
            }
            Ok(SendResult::Eof) => return Err(cut_short(request, &file)),
            Ok(SendResult::NeedsPool) => return Err(WriteError::Body),
            Err(error) => return Err(failed(request, &error)),
        }
        if filled {
            meanwhile(&mut source, writer.wait()).await?;
            // About as much will fit the next time: the bytes beyond that need not be tried now.
            at_once = since_full.saturating_mul(2).max(LEAST_AFTER_FULL);
            (in_this_turn, since_full) = (0, 0);
        }
    }
    Ok(())
}

/// Sends a range of a file piece by piece through memory that belongs to the response. It is for files that are read
/// past the page cache (`directio`), and for bytes that are changed on their way (TLS).
async fn by_copying(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    mut range: FileRange,
    follows: Follows,
) -> Result<(), WriteError> {
    let reader = Reader::new(request);
    let mut in_this_turn = 0;
    while range.len > 0 {
        let piece = match reader.read(&mut range).await {
            Ok(piece) => piece,
            Err(error) => return Err(unreadable(request, &range.file, &error)),
        };
        let follows = if range.len > 0 { Follows::AtOnce } else { follows };
        writer.all(head, &piece, follows).await?;
        head.clear();
        in_this_turn += piece.len();
        if in_this_turn >= MAX_COPIED && range.len > 0 {
            in_this_turn = 0;
            loops::after_events().await;
        }
    }
    writer.all(head, b"", follows).await
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
