//! Bytes of files that are sent without TLS: the kernel copies them into the socket, between the heads of frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_proto::h2::Elsewhere;
use freerun_runtime::files::SendResult;
use freerun_transport::{FileSending, Transport};

use crate::connection::file_out::FileOut;

/// The read of bytes that turned out not to be in memory when they were to be sent.
pub(super) type Reading = Pin<Box<dyn Future<Output = io::Result<Bytes>>>>;

/// What came of sending bytes of a file.
pub(super) enum Moved {
    /// So many were sent.
    Bytes(usize),
    /// The socket takes nothing now; the task is woken when it does.
    SocketFull,
    /// They have to be read first.
    Reads(Reading),
}

/// Sends bytes of a file, as many as the socket takes.
///
/// # Errors
/// The socket is broken, or the file cannot be read: what was announced cannot be sent.
pub(super) fn send(transport: &Transport, range: &Elsewhere, context: &mut Context<'_>) -> io::Result<Moved> {
    let Some(file) = range.what.downcast_ref::<FileOut>() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let FileSending::Sendfile(out) = transport.file_sending() else { return Err(io::ErrorKind::Unsupported.into()) };
    let mut must_read = false;
    let mut send = || match file.send(out, range.at, range.len as u64) {
        Ok(SendResult::Bytes(count)) => Ok(usize::try_from(count).unwrap_or(0)),
        Ok(SendResult::SocketFull) => Err(io::ErrorKind::WouldBlock.into()),
        Ok(SendResult::NeedsPool) => {
            must_read = true;
            Ok(0)
        }
        Ok(SendResult::Eof) => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "file was truncated while it was sent"))
        }
        Err(error) if error.is_peer() => Err(io::ErrorKind::ConnectionReset.into()),
        Err(error) => Err(io::Error::other(error)),
    };
    let sent = match send() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => transport.poll_write_by(context, &mut send),
        sent => Poll::Ready(sent),
    };
    match sent {
        Poll::Pending => Ok(Moved::SocketFull),
        Poll::Ready(Ok(_)) if must_read => Ok(Moved::Reads(Box::pin(file.read(range.at, range.len)))),
        Poll::Ready(sent) => sent.map(Moved::Bytes),
    }
}
