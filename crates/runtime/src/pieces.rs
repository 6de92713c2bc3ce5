//! Buffers for pieces of files on their way to a client, used again and again. New memory costs a page fault for every
//! 4 KB, and has to be filled with zeros first.

use std::cell::RefCell;

use bytes::Bytes;

/// The size of a buffer: a buffer of nginx's `output_buffers`.
pub const SIZE: usize = 32 * 1024;

/// Number of unused buffers that a thread keeps, 2 MiB; further ones are freed.
const KEPT: usize = 64;

thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer, given back when it is dropped. It has [`SIZE`] bytes, which may be left from an earlier use: only those that
/// were written may be shown to anybody.
pub struct Piece {
    buffer: Box<[u8]>,
    filled: usize,
}

impl Piece {
    /// A buffer, which a thread that has one gives back.
    pub fn take() -> Piece {
        let free = FREE.with_borrow_mut(Vec::pop);
        Piece { buffer: free.unwrap_or_else(|| vec![0; SIZE].into_boxed_slice()), filled: 0 }
    }

    /// The whole buffer, for whatever fills it.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The first `filled` bytes of the buffer, which were written since it was taken.
    pub fn into_bytes(mut self, filled: usize) -> Bytes {
        self.filled = filled.min(self.buffer.len());
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        // At the end of a thread, its buffers are gone before the last of these may be.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                free.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_the_last_part_of_it_is_gone() {
        let mut piece = Piece::take();
        piece.room()[..6].copy_from_slice(b"secret");
        let place = piece.room().as_ptr();
        let mut bytes = piece.into_bytes(6);
        let part = bytes.split_to(3);
        drop(bytes);
        assert_ne!(Piece::take().room().as_ptr(), place, "a part of it is still used");
        assert_eq!(&part[..], b"sec");
        drop(part);
        let again: Vec<_> = (0..3).map(|_| Piece::take()).collect();
        assert!(again.iter().any(|piece| piece.buffer.as_ptr() == place));
        assert!(Piece::take().into_bytes(0).is_empty());
    }

    #[test]
    fn no_more_than_some_are_kept() {
        let many: Vec<_> = (0..KEPT + 10).map(|_| Piece::take()).collect();
        drop(many);
        assert_eq!(FREE.with_borrow(Vec::len), KEPT);
    }
}
