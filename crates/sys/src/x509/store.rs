//! Certificates that are trusted, and lists of those that have been revoked.

use super::{Certificate, Errors, PemReader, key, lc};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Trusted certificates and revocation lists.
pub struct CertificateStore {
    store: NonNull<lc::X509_STORE>,
    /// Certificates whose key usage does not allow to sign certificates. The library does not take them for issuers,
    /// not even of themselves.
    unsigning: Vec<Certificate>,
}

// SAFETY: the objects are owned, and the library does not tie them to a thread.
unsafe impl Send for CertificateStore {}
// SAFETY: certificates and lists are added through `&mut self` only. Verifications may use a store at the same time
// (the library's documentation of `X509_STORE`), and certificates that nobody changes may be read at the same time.
// What is computed from them and kept is computed under a lock.
unsafe impl Sync for CertificateStore {}

/// Counts of what a PEM text had in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddedCounts {
    /// The number of certificates.
    pub certificates: usize,
    /// The number of revocation lists.
    pub lists: usize,
}

/// Blocks that have been read of a PEM text.
struct Blocks(NonNull<lc::OPENSSL_STACK>);

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: the list and what is in it are ours and are freed once, each by the function that is for its kind.
        unsafe { lc::OPENSSL_sk_pop_free_ex(self.0.as_ptr(), Some(call_free), Some(free_block)) };
    }
}

/// Frees one element. The library passes the second function of `OPENSSL_sk_pop_free_ex` through this one.
unsafe extern "C" fn call_free(free: lc::OPENSSL_sk_free_func, block: *mut c_void) {
    if let Some(free) = free {
        // SAFETY: the library gives an element of the list and the function that was given with it.
        unsafe { free(block) };
    }
}

unsafe extern "C" fn free_block(block: *mut c_void) {
    // SAFETY: the elements of the list are of this type (see `Blocks`).
    unsafe { lc::X509_INFO_free(block.cast()) };
}

impl CertificateStore {
    /// A store without certificates; `None` if there is no memory for it.
    pub fn new() -> Option<Self> {
        // SAFETY: the function has no preconditions; what it gives is ours.
        let store = NonNull::new(unsafe { lc::X509_STORE_new() })?;
        Some(Self { store, unsigning: Vec::new() })
    }

    /// Adds all certificates and revocation lists of a PEM text, as OpenSSL's `X509_load_cert_crl_file` does. Other
    /// text and blocks of other kinds are skipped, `TRUSTED CERTIFICATE` blocks keep what they are trusted for. A block
    /// that cannot be parsed is an error, and then nothing has been added. If the library cannot add what it has
    /// parsed, which only a lack of memory makes it do, what stands before that in the text stays added.
    pub fn add_pem(&mut self, pem: &[u8]) -> Result<AddedCounts, Errors> {
        drop(Errors::take());
        let reader = PemReader::new(pem)?;
        // SAFETY: the BIO is alive, and the callback serves blocks that are encrypted: it has no password.
        let blocks =
            unsafe { lc::PEM_X509_INFO_read_bio(reader.as_ptr(), null_mut(), Some(key::no_password), null_mut()) };
        let errors = Errors::take();
        let blocks = Blocks(NonNull::new(blocks.cast()).ok_or(errors)?);
        // SAFETY: the list is alive.
        let count = unsafe { lc::OPENSSL_sk_num(blocks.0.as_ptr()) };
        let mut added = AddedCounts::default();
        for at in 0..count {
            // SAFETY: the list has more elements than `at`; they are of this type, alive, and nobody else uses them.
            let block = unsafe { &*lc::OPENSSL_sk_value(blocks.0.as_ptr(), at).cast::<lc::X509_INFO>() };
            if let Some(certificate) = NonNull::new(block.x509) {
                // SAFETY: the certificate is alive, and nobody else has seen it.
                let certificate = unsafe {
                    let certificate = Certificate::share(certificate);
                    certificate.settle_trust();
                    certificate
                };
                // SAFETY: both objects are alive; the store keeps a reference of its own.
                if unsafe { lc::X509_STORE_add_cert(self.store.as_ptr(), certificate.as_ptr()) } != 1 {
                    return Err(Errors::take());
                }
                if !certificate.may_sign_certificates() {
                    self.unsigning.push(certificate);
                }
                added.certificates += 1;
            }
            if !block.crl.is_null() {
                // SAFETY: as above.
                if unsafe { lc::X509_STORE_add_crl(self.store.as_ptr(), block.crl) } != 1 {
                    return Err(Errors::take());
                }
                added.lists += 1;
            }
        }
        drop(Errors::take());
        Ok(added)
    }

    /// A store in which one certificate is trusted, whoever has issued it, for verifications at this time. The time is
    /// in seconds since 1970.
    pub(super) fn of_issuer(issuer: &Certificate, now: i64) -> Option<Self> {
        let store = Self::new()?;
        // SAFETY: both objects are alive; the store keeps a reference of its own, and nobody else uses it yet.
        let ready = unsafe {
            let parameters = lc::X509_STORE_get0_param(store.as_ptr());
            lc::X509_VERIFY_PARAM_set_flags(parameters, lc::X509_V_FLAG_PARTIAL_CHAIN as _);
            lc::X509_VERIFY_PARAM_set_time_posix(parameters, now);
            lc::X509_STORE_add_cert(store.as_ptr(), issuer.as_ptr()) == 1
        };
        ready.then_some(store)
    }

    pub(super) fn as_ptr(&self) -> *mut lc::X509_STORE {
        self.store.as_ptr()
    }

    pub(super) fn unsigning(&self) -> &[Certificate] {
        &self.unsigning
    }
}

impl Drop for CertificateStore {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { lc::X509_STORE_free(self.store.as_ptr()) };
    }
}

impl std::fmt::Debug for CertificateStore {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Store").finish_non_exhaustive()
    }
}
