//! Pieces of a body that wait for the client.
//!
//! A piece is a part of the buffer that it was read into, and keeps that whole buffer alive. If an application sends a
//! few bytes at a time, each piece would keep a buffer, so small pieces are put together instead.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Pieces from this length on are kept without copying.
const LARGE: usize = 4096;
/// The length up to which small pieces are put together.
const TOGETHER: usize = 16 * 1024;

/// A queue of pieces.
#[derive(Default)]
pub struct PieceQueue {
    whole: VecDeque<Bytes>,
    /// The end of the queue: small pieces, put together.
    small: BytesMut,
    bytes: usize,
}

impl PieceQueue {
    /// The number of bytes in the queue.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        if piece.len() >= LARGE {
            self.close();
            self.whole.push_back(piece);
            return;
        }
        if self.small.len() + piece.len() > TOGETHER {
            self.close();
        }
        self.small.extend_from_slice(&piece);
    }

    /// Turns the small pieces that were put together into a piece like the others.
    fn close(&mut self) {
        if !self.small.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.small).freeze());
        }
    }

    /// Takes the next piece.
    pub fn pop(&mut self) -> Option<Bytes> {
        if self.whole.is_empty() {
            self.close();
        }
        let piece = self.whole.pop_front()?;
        self.bytes -= piece.len();
        Some(piece)
    }

    /// Makes one piece of all pieces, leaves it in the queue, and returns it.
    pub fn as_one(&mut self) -> Bytes {
        self.close();
        if self.whole.len() > 1 {
            let mut all = BytesMut::with_capacity(self.bytes);
            self.whole.iter().for_each(|piece| all.extend_from_slice(piece));
            // The pieces are dropped, with the buffers that they are parts of.
            self.whole.clear();
            self.whole.push_back(all.freeze());
        }
        self.whole.front().cloned().unwrap_or_default()
    }
}

/// Copies a piece out of its buffer, if it is a small part of that.
pub fn own(piece: Bytes) -> Bytes {
    if piece.len() < LARGE { Bytes::copy_from_slice(&piece) } else { piece }
}

impl From<VecDeque<Bytes>> for PieceQueue {
    fn from(whole: VecDeque<Bytes>) -> PieceQueue {
        let bytes = whole.iter().map(Bytes::len).sum();
        PieceQueue { whole, small: BytesMut::new(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A buffer that one piece holds completely.
    struct Buffer {
        _counted: Arc<()>,
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &[b'x'; 24 * 1024]
        }
    }

    #[test]
    fn small_pieces_do_not_keep_the_buffers_that_they_came_in() {
        let buffers = Arc::new(());
        let mut pieces = PieceQueue::default();
        for _ in 0..10_000 {
            pieces.push(Bytes::from_owner(Buffer { _counted: buffers.clone() }).slice(3..13));
        }
        assert_eq!((pieces.bytes(), Arc::strong_count(&buffers)), (100_000, 1));
        assert!(pieces.whole.len() < 10);
        let alone: Vec<Bytes> =
            (0..100).map(|_| own(Bytes::from_owner(Buffer { _counted: buffers.clone() }).slice(3..13))).collect();
        assert_eq!((alone.concat().len(), Arc::strong_count(&buffers)), (1000, 1));
    }

    #[test]
    fn they_come_out_in_order_and_are_counted() {
        for joined in [false, true] {
            let mut pieces = PieceQueue::from(VecDeque::from([Bytes::from_static(b"first")]));
            let mut all = b"first".to_vec();
            for number in 0..200u8 {
                let piece = vec![number; if number % 7 == 0 { LARGE } else { usize::from(number) }];
                all.extend_from_slice(&piece);
                pieces.push(piece.into());
                assert_eq!(pieces.bytes(), all.len());
            }
            if joined {
                assert!(pieces.as_one() == all);
            }
            let mut got = Vec::new();
            while let Some(piece) = pieces.pop() {
                got.extend_from_slice(&piece);
                assert_eq!(pieces.bytes(), all.len() - got.len());
            }
            assert!(got == all && pieces.is_empty());
        }
    }
}
