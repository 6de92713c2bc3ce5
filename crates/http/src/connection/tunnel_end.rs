//! An end of a tunnel: the bytes that are read and written when they are no longer HTTP.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use freerun_serve::upstream::relay::RelayEnd;
use freerun_transport::Transport;

use super::stream::{Stream, poll_piece};

/// An end of a tunnel (RFC 9110 sections 7.8 and 9.3.6), on any transport. An end that has gone is found by reading or
/// writing.
#[derive(Clone, Copy)]
pub enum TunnelEnd<'e> {
    /// A byte stream that the tunnel has for itself: behind `101 Switching Protocols`, or to another server.
    Transport(&'e Transport),
    /// A stream of a protocol that carries several at once: the data behind the head of a request, and of its response.
    Stream(&'e dyn Stream),
}

impl RelayEnd for TunnelEnd<'_> {
    #[inline]
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut BytesMut, most: usize) -> Poll<io::Result<usize>> {
        match self {
            TunnelEnd::Transport(transport) => transport.poll_read(context, buffer, most),
            TunnelEnd::Stream(stream) => {
                let piece = ready!(poll_piece(*stream, context, most))?.unwrap_or_default();
                buffer.extend_from_slice(&piece);
                Poll::Ready(Ok(piece.len()))
            }
        }
    }

    #[inline]
    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        debug_assert!(!bytes.is_empty(), "nothing to write");
        match self {
            TunnelEnd::Transport(transport) => RelayEnd::poll_write(*transport, context, bytes),
            TunnelEnd::Stream(stream) => {
                let room = ready!(stream.poll_room(context))?.min(bytes.len());
                stream.send_data(Bytes::copy_from_slice(&bytes[..room]), false);
                Poll::Ready(Ok(room))
            }
        }
    }

    fn shutdown_write(&self) {
        match self {
            TunnelEnd::Transport(transport) => RelayEnd::shutdown_write(*transport),
            TunnelEnd::Stream(stream) => stream.send_data(Bytes::new(), true),
        }
    }

    fn certain_room(&self) -> usize {
        match self {
            TunnelEnd::Transport(transport) => RelayEnd::certain_room(*transport),
            TunnelEnd::Stream(stream) => stream.certain_room(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::task::Waker;

    use freerun_runtime::loops;

    use super::*;
    use crate::connection::stream::{ResponseHead, StreamError};
    use crate::message::Field;

    /// A stream that holds some bytes from a client, and has room for some.
    #[derive(Default)]
    struct Scripted {
        body: RefCell<Vec<Bytes>>,
        has_ended: bool,
        is_reset: bool,
        room: Cell<usize>,
        sent: RefCell<Vec<u8>>,
        we_ended: Cell<bool>,
    }

    impl Stream for Scripted {
        fn poll_body(&self, _: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
            let mut body = self.body.borrow_mut();
            match body.first_mut() {
                _ if self.is_reset => Poll::Ready(Err(StreamError::Reset)),
                Some(piece) if piece.len() > most => Poll::Ready(Ok(Some(piece.split_to(most)))),
                Some(_) => Poll::Ready(Ok(Some(body.remove(0)))),
                None if self.has_ended => Poll::Ready(Ok(None)),
                None => Poll::Pending,
            }
        }

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
            match self.room.get() {
                _ if self.is_reset => Poll::Ready(Err(StreamError::Reset)),
                0 => Poll::Pending,
                room => Poll::Ready(Ok(room)),
            }
        }

        fn send_data(&self, data: Bytes, ends: bool) {
            self.room.set(self.room.get().checked_sub(data.len()).expect("no more is sent than there is room for"));
            self.sent.borrow_mut().extend_from_slice(&data);
            self.we_ended.set(ends);
        }

        fn send_interim(&self, _: &ResponseHead) {}

        fn send_head(&self, _: &ResponseHead, _: bool) {}

        fn send_trailers(&self, _: &[Field]) {}

        fn reset(&self) {}

        fn poll_gone(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        fn certain_room(&self) -> usize {
            0
        }
    }

    fn read(end: TunnelEnd<'_>, most: usize) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
        let mut buffer = BytesMut::from(&b"before"[..]);
        buffer.reserve(most);
        let read = end.poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer, most);
        read.map_err(|error| error.kind()).map_ok(|len| {
            assert_eq!(buffer.len(), 6 + len);
            buffer[6..].to_vec()
        })
    }

    fn write(end: TunnelEnd<'_>, bytes: &[u8]) -> Poll<Result<usize, io::ErrorKind>> {
        end.poll_write(&mut Context::from_waker(Waker::noop()), bytes).map_err(|error| error.kind())
    }

    #[test]
    fn a_stream_carries_bytes_both_ways() {
        let body = ["", "question", ""].map(|piece| Bytes::from_static(piece.as_bytes()));
        let mut stream = Scripted { body: RefCell::new(body.into()), ..Scripted::default() };
        assert_eq!(read(TunnelEnd::Stream(&stream), 5), Poll::Ready(Ok(b"quest".to_vec())));
        assert_eq!(read(TunnelEnd::Stream(&stream), 5), Poll::Ready(Ok(b"ion".to_vec())));
        assert_eq!(read(TunnelEnd::Stream(&stream), 5), Poll::Pending);
        stream.has_ended = true;
        assert_eq!(read(TunnelEnd::Stream(&stream), 5), Poll::Ready(Ok(Vec::new())));

        assert_eq!(write(TunnelEnd::Stream(&stream), b"answer"), Poll::Pending);
        stream.room.set(4);
        assert_eq!(write(TunnelEnd::Stream(&stream), b"answer"), Poll::Ready(Ok(4)));
        assert_eq!(write(TunnelEnd::Stream(&stream), b"er"), Poll::Pending);
        stream.room.set(9);
        assert_eq!(write(TunnelEnd::Stream(&stream), b"er"), Poll::Ready(Ok(2)));
        assert!(!stream.we_ended.get());
        TunnelEnd::Stream(&stream).shutdown_write();
        assert_eq!((&stream.sent.borrow()[..], stream.we_ended.get()), (&b"answer"[..], true));

        stream.is_reset = true;
        assert_eq!(read(TunnelEnd::Stream(&stream), 5), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
        assert_eq!(write(TunnelEnd::Stream(&stream), b"x"), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
    }

    #[test]
    fn a_transport_carries_bytes_both_ways() {
        loops::block_on(async {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let transport = Transport::plain(ours.into());
            let end = TunnelEnd::Transport(&transport);
            theirs.write_all(b"question").unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let mut buffer = BytesMut::with_capacity(64);
            while std::future::poll_fn(|context| end.poll_read(context, &mut buffer, 64)).await.unwrap() > 0 {}
            assert_eq!(&buffer[..], b"question");
            assert_eq!(std::future::poll_fn(|context| end.poll_write(context, b"answer")).await.unwrap(), 6);
            end.shutdown_write();
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"answer");
        })
        .unwrap();
    }
}
