//! Read buffers of a loop, kept for the next connection that needs one.

use std::cell::RefCell;

/// Size of a pooled buffer: a request head with its cookies nearly always fits.
pub const BUFFER_SIZE: usize = 4096;

/// Number of unused buffers of each of the two kinds that a loop keeps, 1 MiB; further ones are freed.
const KEPT: usize = 256;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static FREE_TO_SEND: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_SIZE`] bytes.
#[inline]
pub fn take() -> Vec<u8> {
    FREE.with_borrow_mut(taken)
}

/// An empty buffer for bytes that are sent as soon as they are written, with room for at least [`BUFFER_SIZE`] bytes.
/// These buffers are kept apart: nearly always one of them, which stays in the processor's cache, serves all
/// connections, while a request that waits keeps the buffer of its head.
#[inline]
pub fn take_to_send() -> Vec<u8> {
    FREE_TO_SEND.with_borrow_mut(taken)
}

/// Gives a buffer of [`take`] back. A buffer that has grown is not kept, so that a burst of large heads does not hold
/// memory for good.
#[inline]
pub fn give_back(buffer: Vec<u8>) {
    FREE.with_borrow_mut(|free| keep(free, buffer));
}

/// Gives a buffer of [`take_to_send`] back.
#[inline]
pub fn give_back_sent(buffer: Vec<u8>) {
    FREE_TO_SEND.with_borrow_mut(|free| keep(free, buffer));
}

#[inline]
fn taken(free: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let buffer = free.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_SIZE));
    debug_assert!(buffer.is_empty() && buffer.capacity() >= BUFFER_SIZE, "a buffer has another request's bytes");
    buffer
}

#[inline]
fn keep(free: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if buffer.capacity() == BUFFER_SIZE && free.len() < KEPT {
        buffer.clear();
        free.push(buffer);
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

    #[test]
    fn what_is_sent_goes_through_one_buffer_while_heads_keep_theirs() {
        let mut places: Vec<_> = (0..10)
            .map(|_| {
                let head = take();
                let out = take_to_send();
                let place = out.as_ptr();
                give_back_sent(out);
                give_back(head);
                place
            })
            .collect();
        places.dedup();
        assert_eq!(places.len(), 1);
        give_back(take());
        let (head, out) = (take(), take_to_send());
        assert_ne!(head.as_ptr(), out.as_ptr());
        assert_eq!(out.as_ptr(), places[0]);
    }
}
