//! The library's lists.

use super::{Certificate, lc};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A list of certificates that are borrowed from elsewhere.
pub(super) struct CertificateStack<'a> {
    stack: NonNull<lc::OPENSSL_STACK>,
    certificates: PhantomData<&'a [Certificate]>,
}

impl<'a> CertificateStack<'a> {
    /// `None`: there is no memory for it.
    pub(super) fn new(certificates: &'a [Certificate]) -> Option<Self> {
        // SAFETY: the function has no preconditions; what it gives is ours.
        let stack = NonNull::new(unsafe { lc::OPENSSL_sk_new_null() })?;
        let list = Self { stack, certificates: PhantomData };
        for certificate in certificates {
            // SAFETY: the list is ours; it keeps a pointer to a certificate that outlives it.
            if unsafe { lc::OPENSSL_sk_push(stack.as_ptr(), certificate.as_ptr().cast()) } == 0 {
                return None;
            }
        }
        Some(list)
    }

    pub(super) fn as_ptr(&self) -> *mut lc::stack_st_X509 {
        self.stack.as_ptr().cast()
    }
}

impl Drop for CertificateStack<'_> {
    fn drop(&mut self) {
        // SAFETY: the list was made by `new` and is freed once; what it points to is not.
        unsafe { lc::OPENSSL_sk_free(self.stack.as_ptr()) };
    }
}
