//! The memory that all TLS connections of a loop share: one buffer for bytes that were just received, and one for bytes
//! that are about to be sent.

use std::cell::RefCell;

/// The size of the buffer for received bytes: two records of the largest size, so that one of them is nearly always
/// complete.
pub(super) const INPUT: usize = 2 * RECORD;

/// The largest record: a head, the plaintext, and what a version may add to it (RFC 5246 section 6.2.3, RFC 8446 section
/// 5.2).
pub(super) const RECORD: usize = 5 + (16 << 10) + 256;

/// The most plaintext that is encrypted before it is sent.
pub(super) const BATCH: usize = 64 << 10;

/// The most bytes that a batch has when it is encrypted in records of the usual size. Small records add more to their
/// plaintext; then a batch is only shorter.
const OUTPUT: usize = BATCH + BATCH / 128 + 1024;

const _: () = assert!(OUTPUT >= freerun_tls::session::MIN_OUTPUT, "a record has room");

thread_local! {
    static RECEIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ENCRYPTED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer of [`INPUT`] bytes.
pub(super) fn take_input() -> Vec<u8> {
    let kept = RECEIVED.take();
    if kept.capacity() >= INPUT { kept } else { Vec::with_capacity(INPUT) }
}

/// Gives a buffer of [`take_input`] back.
pub(super) fn give_back_input(mut buffer: Vec<u8>) {
    buffer.clear();
    RECEIVED.replace(buffer);
}

/// Lends the buffer for encrypted bytes.
pub(super) fn with_output<T>(write: impl FnOnce(&mut [u8]) -> T) -> T {
    ENCRYPTED.with_borrow_mut(|buffer| {
        buffer.resize(OUTPUT, 0);
        write(buffer)
    })
}
