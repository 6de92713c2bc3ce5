//! The carrier of an exchange with an upstream server, as a byte stream: a connection of its own, or a stream of a
//! connection that others use, too.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use freerun_transport::Transport;

use crate::http2::{Http2Connection, Http2Stream};
use crate::http3::{Http3Connection, Http3Stream};
use crate::pool::{Exclusive, MultiplexedConnection, SharedSlot};

/// An exchange on a shared connection, as a byte stream of [records](crate::exchange::record). Dropping it gives up what is not
/// complete, and the connection goes on.
#[derive(Debug)]
pub enum ExchangeStream {
    /// A stream of HTTP/2.
    Http2(Http2Stream),
    /// A stream of HTTP/3.
    Http3(Http3Stream),
}

/// Calls a method of the stream, whatever its protocol.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            ExchangeStream::Http2($inner) => $call,
            ExchangeStream::Http3($inner) => $call,
        }
    };
}

/// A shared connection that is in no pool.
#[derive(Debug, Clone)]
pub enum LoneConnection {
    /// A connection of HTTP/2.
    Http2(Arc<Http2Connection>),
    /// A connection of HTTP/3.
    Http3(Arc<Http3Connection>),
}

impl LoneConnection {
    /// The most exchanges that it carries at a time; 0: it takes no further one.
    pub fn streams(&self) -> usize {
        match self {
            LoneConnection::Http2(connection) => connection.streams(),
            LoneConnection::Http3(connection) => connection.streams(),
        }
    }
}

impl ExchangeStream {
    /// The stream for a slot. It begins when the head of the request is written. `None`: the connection has just ended.
    pub fn of(slot: SharedSlot) -> Option<ExchangeStream> {
        if slot.connection::<Http3Connection>().is_some() {
            return Http3Stream::of(slot).map(ExchangeStream::Http3);
        }
        Http2Stream::of(slot).map(ExchangeStream::Http2)
    }

    /// A stream of a connection that is in no pool. `None`: the connection has just ended.
    pub fn alone(connection: LoneConnection) -> Option<ExchangeStream> {
        match connection {
            LoneConnection::Http2(connection) => Http2Stream::alone(connection).map(ExchangeStream::Http2),
            LoneConnection::Http3(connection) => Http3Stream::alone(connection).map(ExchangeStream::Http3),
        }
    }

    /// Polls for records, or the end, without reading them.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        either!(self, stream => stream.poll_readable(context))
    }

    /// Polls a read of records with at most `most` bytes of a body, or one byte. Returns how many bytes of records have come,
    /// 0 at the end. What is read here is what the server may send again.
    ///
    /// # Errors
    /// The error that broke the connection.
    pub fn poll_read(&self, context: &mut Context<'_>, out: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_read(context, out, most))
    }

    /// Writes as much of `out`, and then of `piece`, as the server takes now, without waiting. All but the bytes of a body
    /// have to be in `out`, record by record.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room for any byte; or the stream has ended.
    pub fn try_write(&self, out: &[u8], piece: &Bytes) -> io::Result<usize> {
        either!(self, stream => stream.try_write(out, piece))
    }

    /// Polls for room to write, after a write found none. A stream that has ended is always ready: the write reports it.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        either!(self, stream => stream.poll_writable(context))
    }

    /// Whether the server has nothing unread, neither bytes nor the end, as far as can be seen: otherwise the connection may be
    /// about to end.
    pub fn is_quiet(&self) -> bool {
        match self {
            ExchangeStream::Http2(stream) => stream.is_quiet(),
            // What has come is known when the connection's task has looked at its socket.
            ExchangeStream::Http3(_) => false,
        }
    }

    /// Whether the connection takes no further request.
    pub fn is_over(&self) -> bool {
        either!(self, stream => stream.is_over())
    }

    /// Whether somebody has accepted the connection: the server has said something on it.
    pub fn is_heard(&self) -> bool {
        match self {
            ExchangeStream::Http2(stream) => stream.is_heard(),
            // There is no stream before the handshake is complete.
            ExchangeStream::Http3(_) => true,
        }
    }

    /// Moment at which anything came from the server the last time, on whichever stream, in milliseconds as
    /// [`loops::millis`](freerun_runtime::loops::millis) counts them.
    pub fn heard(&self) -> u64 {
        either!(self, stream => stream.heard())
    }

    /// Asks the server whether it is there. Its answer changes [`ExchangeStream::heard`].
    pub fn ask(&self) {
        either!(self, stream => stream.ask())
    }
}

/// Carrier of an exchange.
#[derive(Debug)]
pub enum Link {
    /// A connection that carries one exchange at a time.
    Own(Exclusive),
    /// A stream of a shared connection. Its bytes are [records](crate::exchange::record).
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
