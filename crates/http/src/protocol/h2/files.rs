//! Bytes of files that are sent without TLS: the kernel copies them into the socket, between the heads of frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use freerun_proto::h2::Elsewhere;
use freerun_runtime::files::SendResult;
use freerun_transport::{FileSending, Transport};

use crate::connection::file_out::FileOut;
use crate::files::read_error::ReadError;

/// The read of bytes that turned out not to be in memory when they were to be sent.
pub(super) type FileRead = Pin<Box<dyn Future<Output = Result<Bytes, ReadError>>>>;

/// The result of sending bytes of a file.
pub(super) enum FileSendOutcome {
    /// The number of bytes that were sent.
    Bytes(usize),
    /// The socket takes nothing now; the task is woken when it does.
    SocketFull,
    /// The bytes have to be read first.
    Reads(FileRead),
}

/// The reason why bytes that were left in the machine cannot be written, after which the connection ends.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// The file cannot be read: the announced bytes cannot be sent.
    File(ReadError),
    /// The socket is broken.
    Socket(io::Error),
}

impl From<io::Error> for WriteFailure {
    fn from(error: io::Error) -> WriteFailure {
        WriteFailure::Socket(error)
    }
}

/// Sends bytes of a file, as many as the socket takes.
///
/// # Errors
/// The socket is broken, or the file cannot be read: what was announced cannot be sent.
pub(super) fn send(
    transport: &Transport,
    range: &Elsewhere,
    context: &mut Context<'_>,
) -> Result<FileSendOutcome, WriteFailure> {
    let Some(file) = range.what.downcast_ref::<FileOut>() else {
        return Err(WriteFailure::Socket(io::ErrorKind::InvalidInput.into()));
    };
    let FileSending::Sendfile(out) = transport.file_sending() else {
        return Err(WriteFailure::Socket(io::ErrorKind::Unsupported.into()));
    };
    let mut must_read = false;
    let mut unreadable = None;
    let mut send = || -> io::Result<usize> {
        match file.send(out, range.at, range.len as u64) {
            Ok(SendResult::Bytes(count)) => Ok(usize::try_from(count).unwrap_or(0)),
            Ok(SendResult::SocketFull) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(SendResult::NeedsPool) => {
                must_read = true;
                Ok(0)
            }
            Ok(SendResult::Eof) => {
                unreadable = Some(ReadError::Truncated);
                Ok(0)
            }
            Err(error) if error.is_peer() => Err(io::ErrorKind::ConnectionReset.into()),
            Err(error) => {
                unreadable = Some(error.into());
                Ok(0)
            }
        }
    };
    let sent = match send() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => transport.poll_write_by(context, &mut send),
        sent => Poll::Ready(sent),
    };
    if let Some(error) = unreadable {
        return Err(WriteFailure::File(error));
    }
    match sent {
        Poll::Pending => Ok(FileSendOutcome::SocketFull),
        Poll::Ready(Ok(_)) if must_read => Ok(FileSendOutcome::Reads(Box::pin(file.read(range.at, range.len)))),
        Poll::Ready(sent) => Ok(FileSendOutcome::Bytes(sent?)),
    }
}
