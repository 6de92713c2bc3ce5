//! Sending a response over HTTP/1: the head, then the body; memory with one `sendmsg`, sources piece by piece.

use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use freerun_proto::h1::{CutSignal, LengthMismatch, ResponseBody, ResponseFraming, write_last_chunk};
use freerun_runtime::deadline::Deadline;
use freerun_runtime::timer::Timer;
use freerun_runtime::{buffers, loops};

use crate::finish;
use crate::protocol::h1::file;
use crate::protocol::h1::writer::{Follows, Writer, before_end};
use crate::request::ClientConnection;
use crate::request::Request;
use crate::request::core_settings::CoreSettings;
use crate::request::response::{Body, BodySource, Field, LateTrailers, Part, Response, SourceError};
use crate::settings::transfer::TransferSettings;
use crate::write::pace::Pace;
use crate::write::source_progress::{poll_once, sent_beside};
use crate::write::text;
use crate::write::{PAUSE, WriteError};

/// A body in memory up to this size is copied behind the head: one `send` costs less than a `sendmsg` of two pieces.
const COPIED: usize = 2048;
/// The last piece of a source up to this size is copied behind the held bytes: the end of its chunk and of the body
/// follow.
const COPIED_LAST: usize = 16 * 1024;

/// Writes a response; with `upgrades`, a response that ends HTTP on the connection (101). The request notes how much
/// was sent, in any case. Returns what marks the response's end.
///
/// # Errors
/// The response is not complete, and the connection cannot be used any more.
pub async fn response(
    connection: &ClientConnection,
    request: &mut Request,
    mut response: Box<Response>,
    upgrades: bool,
) -> Result<ResponseFraming, WriteError> {
    let mut out = buffers::take_to_send();
    let (decided, fields) = text::head(request, &response, upgrades, &mut out);
    if request.generation.http.keeps_sent_head {
        request.answered.head.clear();
        request.answered.head.extend_from_slice(&out[fields..]);
        request.answered.location = None;
    }
    connection.sending.begin_response();
    let body = std::mem::replace(&mut response.body, Body::Empty);
    let (trailers, late_trailers) = (std::mem::take(&mut response.trailers), response.late_trailers);
    // The response keeps the buffer that its head came in from another server: it is dropped before the body is sent,
    // which may take long.
    drop(response);
    let result = write(connection, request, &mut out, body, decided.framing, trailers, late_trailers).await;
    buffers::give_back_sent(out);
    if let Err(error) = &result
        && !matches!(error, WriteError::Unsent(_))
    {
        match decided.framing.cut(request.head.parsed.version) {
            CutSignal::Reset => connection.transport.reset_on_close(),
            CutSignal::Close => connection.transport.cut_on_close(),
        }
    }
    request.sent.complete = result.is_ok();
    result.map(|()| decided.framing)
}

/// Writes `head` and then the body. `head` is emptied.
///
/// # Errors
/// The response is not complete.
async fn write(
    connection: &ClientConnection,
    request: &mut Request,
    head: &mut Vec<u8>,
    body: Body,
    framing: ResponseFraming,
    trailers: Vec<Field>,
    late_trailers: LateTrailers,
) -> Result<(), WriteError> {
    let head_len = head.len() as u64;
    let before = request.sent;
    let pace = Pace::of(request, loops::now());
    let (bytes, rest) = at_once(connection, head, body, framing, &pace)?;
    let Some(body) = rest else {
        request.sent.bytes += bytes;
        request.sent.body_bytes += bytes.saturating_sub(head_len);
        return Ok(());
    };
    let core = request.settings().get::<CoreSettings>();
    if request.answered.persistence.is_kept() && core.tcp_nodelay {
        connection.set_nodelay();
    }
    let send_timeout = core.send_timeout;
    let mut writer = Writer { connection, timer: Timer::default(), send_timeout, pace, bytes, long: None };
    let result = {
        let sending = pin!(async {
            match framing {
                ResponseFraming::None => writer.all(head, b"", Follows::Nothing).await,
                ResponseFraming::Length | ResponseFraming::UntilEnd => {
                    write_body(request, &mut writer, head, body, framing).await
                }
                ResponseFraming::Chunked => match write_chunked(request, &mut writer, head, body).await {
                    Ok(()) => {
                        request.sent.bytes = before.bytes + writer.bytes;
                        request.sent.body_bytes = before.body_bytes + writer.bytes.saturating_sub(head_len);
                        last_chunk(request, trailers, late_trailers, head);
                        writer.all(head, b"", Follows::Nothing).await
                    }
                    error => error,
                },
            }
        });
        finish::unless_cut(&connection.loop_state, sending).await.unwrap_or(Err(WriteError::Body))
    };
    request.sent = before;
    request.sent.bytes += writer.bytes;
    request.sent.body_bytes += writer.bytes.saturating_sub(head_len);
    result
}

/// Sends in one call the part of the response that is in memory and can be sent now: nearly always the whole response.
/// Returns how many bytes were sent and, if the response is not complete, the rest of the body; `head` keeps the rest
/// of the head.
///
/// # Errors
/// The error of `sendmsg(2)`.
fn at_once(
    connection: &ClientConnection,
    head: &mut Vec<u8>,
    body: Body,
    framing: ResponseFraming,
    pace: &Pace,
) -> io::Result<(u64, Option<Body>)> {
    let bytes = match body {
        _ if framing == ResponseFraming::Chunked || !pace.is_free() => return Ok((0, Some(body))),
        Body::Empty => Bytes::new(),
        _ if framing == ResponseFraming::None => Bytes::new(),
        Body::Bytes(bytes) => bytes,
        body => return Ok((0, Some(body))),
    };
    let left = (head.len() + bytes.len()) as u64;
    if connection.has_places() && before_end(connection, left) < left {
        return Ok((0, Some(Body::Bytes(bytes))));
    }
    let transport = &connection.transport;
    let (sent, bytes) = if bytes.len() <= COPIED {
        head.extend_from_slice(&bytes);
        (transport.try_write(&[IoSlice::new(head)], false), Bytes::new())
    } else {
        (transport.try_write(&[IoSlice::new(head), IoSlice::new(&bytes)], false), bytes)
    };
    match sent {
        Ok(sent) if sent == head.len() + bytes.len() => Ok((sent as u64, None)),
        Ok(sent) => {
            let of_head = sent.min(head.len());
            head.drain(..of_head);
            Ok((sent as u64, Some(Body::Bytes(bytes.slice(sent - of_head..)))))
        }
        // The caller waits and tries again.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok((0, Some(Body::Bytes(bytes))))
        }
        Err(error) => Err(error),
    }
}

/// Writes the head and all chunks of the body except the last one. The rest in `head` is still to be sent.
async fn write_chunked(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    body: Body,
) -> Result<(), WriteError> {
    let framing = ResponseFraming::Chunked;
    match body {
        Body::Source(_) => write_body(request, writer, head, body, framing).await,
        body => {
            if let Some(length) = body.len().filter(|length| *length > 0) {
                let mut sent = ResponseBody::new(framing, None);
                sent.begin_piece(length, head)?;
                write_body(request, writer, head, body, framing).await?;
                head.clear();
                sent.end_piece(head);
            }
            Ok(())
        }
    }
}

/// Appends the last chunk with the trailers, which the request keeps for `$sent_trailer_…`.
fn last_chunk(request: &mut Request, trailers: Vec<Field>, late: LateTrailers, out: &mut Vec<u8>) {
    request.answered.trailers = trailers;
    for make in [late.passed, late.added].into_iter().flatten() {
        make(request);
    }
    write_last_chunk(request.answered.trailers.iter().map(|(name, value)| (&name[..], &value[..])), out);
}

async fn write_body(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    body: Body,
    framing: ResponseFraming,
) -> Result<(), WriteError> {
    // The end of the chunk comes after the body.
    let follows = if framing == ResponseFraming::Chunked { Follows::AtOnce } else { Follows::Nothing };
    match body {
        Body::Empty => writer.all(head, b"", follows).await,
        Body::Bytes(bytes) if bytes.len() <= COPIED => {
            head.extend_from_slice(&bytes);
            writer.all(head, b"", follows).await
        }
        Body::Bytes(bytes) => writer.all(head, &bytes, follows).await,
        Body::File(range) => file::with_head(request, writer, head, range, follows).await,
        Body::Parts(parts) => {
            let last = parts.len().saturating_sub(1);
            for (index, part) in parts.into_iter().enumerate() {
                // Thousands of small parts fit into a socket.
                loops::consume_budget().await;
                let follows = if index < last { Follows::AtOnce } else { follows };
                match part {
                    Part::Bytes(bytes) => writer.all(head, &bytes, follows).await?,
                    Part::File(range) => file::with_head(request, writer, head, range, follows).await?,
                }
                head.clear();
            }
            writer.all(head, b"", follows).await
        }
        Body::Source(source) => pull(request, writer, head, source, framing).await,
    }
}

/// Sends the body of a source, in chunks if its length is not known.
async fn pull(
    request: &Request,
    writer: &mut Writer<'_>,
    head: &mut Vec<u8>,
    mut source: Box<dyn BodySource>,
    framing: ResponseFraming,
) -> Result<(), WriteError> {
    let postpone = request.settings().get::<TransferSettings>().postpone_output.0;
    // Bytes that are held back until there are more stand behind the head.
    let held = head;
    let mut sent = ResponseBody::new(framing, source.remaining());
    let mut begun = false;
    loop {
        // A client as fast as the source must not keep other tasks from the loop.
        loops::consume_budget().await;
        if let Some(range) = source.next_in_file() {
            begun = true;
            sent.begin_piece(range.len, held)?;
            let ends = source.remaining() == Some(0);
            writer.all_from(Some(&mut source), held, b"", Follows::AtOnce).await?;
            give_back(held, framing);
            file::of_source(request, writer, range, &mut source, follows(framing, ends)).await?;
            sent.end_piece(held);
            if ends {
                return end(writer, held, &sent).await;
            }
            continue;
        }
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
                    // The held bytes must not wait for a slow source.
                    let come = sent_beside(writer.all(held, b"", Follows::Later), next.as_mut()).await?;
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
                if let SourceError::Replaced(status) = error
                    && writer.bytes == 0
                {
                    return Err(WriteError::Unsent(status));
                }
                let unsent = sent.of_cut(held);
                if error.keeps_unsent(begun) && !unsent.is_empty() {
                    writer.all(unsent, b"", Follows::Later).await?;
                }
                return Err(WriteError::Body);
            }
        };
        begun = true;
        if let Some(piece) = &piece {
            sent.begin_piece(piece.len() as u64, held)?;
            let ends = source.remaining() == Some(0);
            if ((held.len() + piece.len()) as u64) < postpone || ends && piece.len() <= COPIED_LAST {
                if held.capacity() == 0 {
                    *held = buffers::take_to_send();
                }
                held.extend_from_slice(piece);
            } else {
                let ends = ends || sent.is_complete();
                writer.all_from(Some(&mut source), held, piece, follows(framing, ends)).await?;
                give_back(held, framing);
            }
            sent.end_piece(held);
            if !ends {
                continue;
            }
        }
        return end(writer, held, &sent).await;
    }
}

impl From<LengthMismatch> for WriteError {
    /// A body of another length than announced is cut short: the client would take its bytes for the next response.
    fn from(_: LengthMismatch) -> WriteError {
        WriteError::Body
    }
}

/// Gives the buffer back: a client that is slow to take the rest needs none.
fn give_back(held: &mut Vec<u8>, framing: ResponseFraming) {
    match framing {
        ResponseFraming::Chunked => held.clear(),
        _ => buffers::give_back_sent(std::mem::take(held)),
    }
}

/// Ends a body whose source has given all its bytes. The last chunk goes with the held bytes.
async fn end(writer: &mut Writer<'_>, held: &[u8], sent: &ResponseBody) -> Result<(), WriteError> {
    sent.end()?;
    if sent.is_chunked() {
        return Ok(());
    }
    writer.all(held, b"", Follows::Nothing).await
}

/// The bytes that follow a piece of a source; `ends`: it is the last one.
fn follows(framing: ResponseFraming, ends: bool) -> Follows {
    match framing {
        ResponseFraming::Chunked => Follows::AtOnce,
        _ if ends => Follows::Nothing,
        _ => Follows::Later,
    }
}
