//! The stream of one request, on a connection that carries several at once (HTTP/2, HTTP/3).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::head::FieldFault;
use freerun_serve::Address;

use crate::connection::file_out::FileOut;
use crate::message::Field;
use crate::message::field_block::FieldBlock;

/// The head of a response as it was decided, for protocols that encode it as fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status.
    pub status: u16,
    /// The fields in the order they are sent. None of them is about an HTTP/1 connection.
    pub fields: FieldBlock,
}

/// The reason why a stream gives or takes nothing more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The client has reset the stream, or has ended its connection, or the request has ended.
    #[error("connection reset")]
    Reset,
    /// The connection has failed, which is logged once for all its streams.
    #[error("connection aborted")]
    ConnectionFailed,
    /// The bytes that the stream has brought are no body of the request.
    #[error(transparent)]
    Faulty(Box<StreamFault>),
}

impl From<StreamError> for io::Error {
    /// The error of a tunnel, whose ends are byte streams.
    fn from(error: StreamError) -> io::Error {
        match error {
            StreamError::Reset => io::ErrorKind::ConnectionReset.into(),
            StreamError::ConnectionFailed => io::ErrorKind::ConnectionAborted.into(),
            StreamError::Faulty(fault) => io::Error::new(io::ErrorKind::InvalidData, fault),
        }
    }
}

/// The reason why the bytes that a stream has brought are no body of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// The body is not as long as it was announced.
    #[error("a body of another length")]
    Length {
        /// The bytes that have not come before the end; 0: more came than were announced.
        missing: u64,
    },
    /// The trailers are malformed.
    #[error(transparent)]
    Trailers(FieldFault),
}

/// The way of one request to its client and back, on a connection that it shares with others. The driver of the
/// protocol makes it; the request path knows no other part of that protocol.
///
/// The driver queues the data that is given to the stream. The room that [`Stream::poll_room`] reports bounds the
/// queue.
pub trait Stream {
    /// Polls the next piece of the request's body, at most `most` bytes; `None` at its end. A piece may be empty, as a frame may
    /// be: readers ask by [`poll_piece`]. The bytes that were taken
    /// open the client's flow-control window again.
    ///
    /// # Errors
    /// The client has reset the stream, or its connection has ended, or the body is [faulty](StreamError::Faulty).
    fn poll_body(&self, context: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>>;

    /// Whether the whole body has come, and all of it was taken: [`Stream::poll_body`] would tell its end.
    fn is_body_taken(&self) -> bool {
        false
    }

    /// Sends an interim response (RFC 9110 section 15.2). The driver leaves it out if it cannot be sent at once.
    fn send_interim(&self, head: &ResponseHead);

    /// Sends the head of the response; `ends` says that no body follows.
    fn send_head(&self, head: &ResponseHead, ends: bool);

    /// Polls for room: how many bytes of the body may be given to [`Stream::send_data`] now, at least one.
    ///
    /// # Errors
    /// The client has reset the stream, or its connection has ended.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<Result<usize, StreamError>>;

    /// Sends a piece of the body, no longer than the available room; `ends` says that nothing follows.
    fn send_data(&self, data: Bytes, ends: bool);

    /// Whether files are sent by [`Stream::send_file`]: the kernel copies them.
    fn sends_files(&self) -> bool {
        false
    }

    /// Sends a piece of the body from a file, no longer than the room; `ends` says that it is the last piece. Nobody calls it
    /// unless [`Stream::sends_files`].
    fn send_file(&self, _file: &Rc<FileOut>, _offset: u64, _len: usize, _ends: bool) {}

    /// Sends the trailers, which end the response.
    fn send_trailers(&self, fields: &[Field]);

    /// Ready when everything that was given to the stream has its place among the bytes to the client, the end of the
    /// response included. After that only the transport can hold the stream up.
    ///
    /// # Errors
    /// The client has reset the stream, or its connection has ended.
    fn poll_sent(&self, _context: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        Poll::Ready(Ok(()))
    }

    /// Number of bytes that the response has taken so far with everything that the protocol adds to it (`$bytes_sent`),
    /// if the driver counts them.
    fn sent_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether it is the client's flow control that holds up the stream, and not a transport that is slower than the responses,
    /// whose progress the driver watches.
    fn is_held(&self) -> bool {
        true
    }

    /// The client has held up the stream for too long. Without other streams that go on, there is no use in the connection.
    fn has_stalled(&self) {}

    /// Uses the settings of the location that answers, before the head of the response. They limit the frames of the body, so
    /// that other streams get their turn, and the time for the rest of the request.
    fn use_settings(&self, _settings: &SettingsSet) {}

    /// Lets the client go on sending when everything was sent to it: the stream is a tunnel from now on.
    fn become_tunnel(&self, _generation: u64) {}

    /// Resets the stream without completing the response: the client must not take the received part for the whole.
    fn reset(&self);

    /// Ready when the client has cancelled the request, or its connection has ended. Several futures of the request may
    /// wait for it.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()>;

    /// Number of bytes that the stream would certainly accept now.
    fn certain_room(&self) -> usize;

    /// The address that the client had when the request began, if its connection came from another one first.
    fn peer(&self) -> Option<&Address> {
        None
    }

    /// Tells the TLS session of a connection without a byte stream whether the client's certificate was found good. It is
    /// called when the certificate was verified again. A client that is refused cannot resume its session.
    fn settle_session(&self, _is_good: bool) {}
}

/// Polls the next piece of the request's body that is not empty, at most `most` bytes; `None` at its end. An empty frame says
/// nothing (RFC 9113 section 6.1), least of all that the body is complete.
///
/// # Errors
/// The errors of [`Stream::poll_body`].
pub fn poll_piece(
    stream: &dyn Stream,
    context: &mut Context<'_>,
    most: usize,
) -> Poll<Result<Option<Bytes>, StreamError>> {
    loop {
        match ready!(stream.poll_body(context, most))? {
            Some(piece) if piece.is_empty() => {}
            piece => return Poll::Ready(Ok(piece)),
        }
    }
}
