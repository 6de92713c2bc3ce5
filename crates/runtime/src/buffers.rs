//! Read buffers of a loop, kept for the next connection that needs one.

use std::cell::RefCell;

/// Size of a pooled buffer: a request head with its cookies nearly always fits.
pub const BUFFER_SIZE: usize = 4096;

/// How many unused buffers a loop keeps; more are given back to the allocator.
const KEPT: usize = 256;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_SIZE`] bytes.
pub fn take() -> Vec<u8> {
    FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(BUFFER_SIZE))
}

/// Gives a buffer back. One that has grown is not kept, so that a burst of large heads does not hold memory for good.
pub fn give_back(mut buffer: Vec<u8>) {
    if buffer.capacity() == BUFFER_SIZE {
        FREE.with_borrow_mut(|free| {
            if free.len() < KEPT {
                buffer.clear();
                free.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_comes_back_empty() {
        let mut buffer = take();
        buffer.extend_from_slice(b"secret");
        let place = buffer.as_ptr();
        give_back(buffer);
        let again = take();
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), place);
        let mut grown = take();
        grown.reserve(10 * BUFFER_SIZE);
        give_back(grown);
        assert_eq!(take().capacity(), BUFFER_SIZE);
    }
}
