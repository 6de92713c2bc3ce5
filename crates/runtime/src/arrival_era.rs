//! Eras: a loop may use what it keeps of files if it has looked for their changes in the present era.
//!
//! A response must not be older than a change that was complete before its request was sent. The kernel has noted such
//! a change before the request's first byte arrives. So whoever looks for changes *after* a byte of a request was
//! there, and before the response is made, sees it. A new era begins whenever bytes may have come that were not there
//! at the last look. This is each time that the kernel was asked for events, and where a request is found in another
//! way than by an event. A look in the present era need not be repeated.

use std::cell::Cell;

thread_local! {
    static ERA: Cell<u64> = const { Cell::new(1) };
}

/// Begins an era: a request may have come since the last look for changes.
#[inline]
pub fn begin() {
    ERA.set(ERA.get() + 1);
}

/// The number of the present era of this thread, from 1.
#[inline]
pub fn now() -> u64 {
    ERA.get()
}
