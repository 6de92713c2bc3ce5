//! Texts that the library writes.

use super::{Errors, lc};
use std::ffi::c_int;
use std::ptr::{NonNull, null};

/// A buffer that the library writes to.
pub(super) struct Writer(NonNull<lc::BIO>);

impl Writer {
    /// `None`: there is no memory for it.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: the functions have no preconditions; what they give is ours.
        NonNull::new(unsafe { lc::BIO_new(lc::BIO_s_mem()) }).map(Self)
    }

    pub(super) fn as_ptr(&self) -> *mut lc::BIO {
        self.0.as_ptr()
    }

    /// The text that has been written. The library writes ASCII to it; anything else is replaced.
    pub(super) fn text(&self) -> String {
        let (mut data, mut length) = (null(), 0);
        // SAFETY: the BIO is alive; what it gives is borrowed until it is written to or freed.
        unsafe {
            if lc::BIO_mem_contents(self.0.as_ptr(), &mut data, &mut length) != 1 || data.is_null() {
                return String::new();
            }
            String::from_utf8_lossy(std::slice::from_raw_parts(data, length)).into_owned()
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: the BIO was made by `new` and is freed once.
        unsafe { lc::BIO_free(self.0.as_ptr()) };
    }
}

/// The text that a function of the library writes; it gives less than 1 if it cannot.
pub(super) fn written(write: impl FnOnce(*mut lc::BIO) -> c_int) -> String {
    let text = Writer::new().map(|to| (write(to.as_ptr()), to.text()));
    drop(Errors::take());
    text.map(|(_, text)| text).unwrap_or_default()
}
