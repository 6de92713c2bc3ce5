//! The carrier of an exchange with an upstream server, as a byte stream: a connection of its own, or a stream of a
//! connection that others use, too.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use freerun_transport::Transport;

use crate::http2::ExchangeStream;
use crate::pool::Exclusive;

/// Carrier of an exchange.
#[derive(Debug)]
pub enum Link {
    /// A connection that carries one exchange at a time.
    Own(Exclusive),
    /// A stream of a connection of HTTP/2. Its bytes are [records](crate::http2::record).
    Stream(ExchangeStream),
}

impl Link {
    /// The byte stream to the server, if the exchange has it for itself.
    #[inline]
    pub fn transport(&self) -> Option<&Transport> {
        match self {
            Link::Own(connection) => Some(&connection.transport),
            Link::Stream(_) => None,
        }
    }

    /// The stream, if it is one of a shared connection.
    #[inline]
    pub fn stream(&self) -> Option<&ExchangeStream> {
        match self {
            Link::Own(_) => None,
            Link::Stream(stream) => Some(stream),
        }
    }

    /// Writes as much of `out`, and then of `piece`, as fits without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if no byte fits, or the error that broke the connection or the stream.
    #[inline]
    pub fn try_write(&self, out: &[u8], piece: &Bytes) -> io::Result<usize> {
        let connection = match self {
            Link::Own(connection) => connection,
            Link::Stream(stream) => return stream.try_write(out, piece),
        };
        let both = [IoSlice::new(out), IoSlice::new(piece)];
        let parts = match (out.is_empty(), piece.is_empty()) {
            (true, _) => &both[1..],
            (_, true) => &both[..1],
            _ => &both,
        };
        connection.transport.try_write(parts, false)
    }

    /// Waits until a write would not wait. It has to be called right after a write that found no room, without an `await`
    /// in between.
    ///
    /// # Errors
    /// The loop cannot watch the connection, or is ending.
    #[inline]
    pub async fn writable_after_full(&self) -> io::Result<()> {
        match self {
            Link::Own(connection) => connection.transport.writable_after_full().await,
            Link::Stream(stream) => {
                poll_fn(|context| stream.poll_writable(context)).await;
                Ok(())
            }
        }
    }

    /// Polls for bytes, or the end, without reading them.
    ///
    /// # Errors
    /// The loop cannot watch the connection, or is ending.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Link::Own(connection) => connection.transport.poll_readable(context),
            Link::Stream(stream) => stream.poll_readable(context).map(Ok),
        }
    }

    /// Waits for bytes, or the end, and appends at most about `most` bytes. Returns how many have come, 0 at the end.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub async fn read(&self, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
        match self {
            Link::Own(connection) => connection.transport.read_bytes(buffer, most).await,
            Link::Stream(stream) => poll_fn(|context| stream.poll_read(context, buffer, most)).await,
        }
    }
}
