//! An end of a relay.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use freerun_transport::Transport;

/// An end of a [`Relay`](super::Relay): bytes that are read and written without being understood. An end that has gone is
/// found by reading or writing.
pub trait RelayEnd {
    /// Polls for bytes, about `most` at a time, and appends them to the buffer, which has room for so many; 0 is the end.
    ///
    /// # Errors
    /// The error that broke the stream.
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut BytesMut, most: usize) -> Poll<io::Result<usize>>;

    /// Polls a write of as much of `bytes` as fits; `bytes` must not be empty.
    ///
    /// # Errors
    /// The error that broke the stream.
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Shuts down the sending side; the other end reads the end of the stream.
    fn shutdown_write(&self);

    /// Number of bytes that a write would certainly take now; 0 if that is not known.
    fn certain_room(&self) -> usize {
        0
    }
}

impl RelayEnd for Transport {
    #[inline]
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        self.poll_read_bytes(context, buffer, most)
    }

    #[inline]
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        debug_assert!(!bytes.is_empty(), "nothing to write");
        Transport::poll_write(self, context, bytes)
    }

    fn shutdown_write(&self) {
        Transport::shutdown_write(self);
    }

    #[inline]
    fn certain_room(&self) -> usize {
        Transport::certain_room(self)
    }
}
