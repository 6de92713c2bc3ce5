//! Certificates and private keys as OpenSSL reads them: AWS-LC's X509 and PEM functions, behind safe types.
//!
//! AWS-LC is linked for its cryptography anyway. Its `aws-lc-sys` must be the version that `aws-lc-rs` uses: each
//! version has names of its own, so a second one would be linked beside the first.

mod certificate;
mod facts;
mod findings;
mod hosts;
mod key;
mod names;
mod ocsp;
mod pbes2;
mod pem;
mod rules;
mod run;
mod stack;
mod store;
mod strength;
mod trust;
mod verify;
mod words;
mod writer;

pub use certificate::{Certificate, Chain, ChainError, Mismatch, SignatureAlgorithm};
pub use key::{KeyKind, PrivateKey, PrivateKeyError};
pub use ocsp::{OcspAnswer, OcspError, OcspStatus, check_ocsp_response, ocsp_answer, ocsp_request};
pub use pem::pem_block;
pub use rules::{CertificatePurpose, ChainRules, VerifyError};
pub use store::{AddedCounts, CertificateStore};
pub use words::verify_words;

use aws_lc_sys as lc;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The library's report of one failure: its errors, the first one first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors(Vec<Code>);

/// An error of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Code {
    library: i32,
    reason: i32,
    packed: u32,
}

impl Errors {
    /// Takes all errors of this thread's queue, which is empty then.
    fn take() -> Self {
        let mut codes = Vec::new();
        loop {
            // SAFETY: the function has no preconditions; the queue is the thread's own.
            let packed = unsafe { lc::ERR_get_error() };
            if packed == 0 {
                return Self(codes);
            }
            let (library, reason) = (lc::ERR_GET_LIB(packed), lc::ERR_GET_REASON(packed));
            codes.push(Code { library, reason, packed });
        }
    }

    fn has(&self, library: i32, reason: i32) -> bool {
        self.0.iter().any(|code| code.library == library && code.reason == reason)
    }

    /// No (further) PEM block of the kind that was asked for is in the text.
    pub fn no_start_line(&self) -> bool {
        self.has(lc::ERR_LIB_PEM, lc::PEM_R_NO_START_LINE)
    }

    /// Whether the end of a PEM block is missing or names another kind than its beginning.
    pub fn bad_end_line(&self) -> bool {
        self.has(lc::ERR_LIB_PEM, lc::PEM_R_BAD_END_LINE) || self.has(lc::ERR_LIB_PEM, lc::PEM_R_SHORT_HEADER)
    }

    /// Whether the contents of a PEM block are not base64.
    pub fn bad_base64(&self) -> bool {
        self.has(lc::ERR_LIB_PEM, lc::PEM_R_BAD_BASE64_DECODE)
    }

    /// Whether a key is encrypted in a way that the library does not know.
    pub fn unsupported_encryption(&self) -> bool {
        let reasons = [
            lc::PKCS8_R_UNKNOWN_ALGORITHM,
            lc::PKCS8_R_UNKNOWN_CIPHER,
            lc::PKCS8_R_UNKNOWN_CIPHER_ALGORITHM,
            lc::PKCS8_R_UNSUPPORTED_CIPHER,
            lc::PKCS8_R_UNSUPPORTED_KEY_DERIVATION_FUNCTION,
            lc::PKCS8_R_UNSUPPORTED_PRF,
        ];
        reasons.into_iter().any(|reason| self.has(lc::ERR_LIB_PKCS8, reason))
    }

    /// Whether a password that was given does not decrypt the key.
    pub fn bad_decrypt(&self) -> bool {
        self.has(lc::ERR_LIB_CIPHER, lc::CIPHER_R_BAD_DECRYPT)
            || self.has(lc::ERR_LIB_PEM, lc::PEM_R_BAD_DECRYPT)
            || self.has(lc::ERR_LIB_PKCS8, lc::PKCS8_R_INCORRECT_PASSWORD)
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, code) in self.0.iter().enumerate() {
            // SAFETY: both functions take any number, and return null or a text that lives for ever.
            let texts = unsafe { [lc::ERR_lib_error_string(code.packed), lc::ERR_reason_error_string(code.packed)] };
            let [library, reason] = texts.map(|text| {
                // SAFETY: a text that is not null ends with a NUL and is static (see above).
                if text.is_null() { "unknown".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() }
            });
            let space = if at == 0 { "" } else { " " };
            let reason = reason.to_lowercase().replace('_', " ");
            write!(to, "{space}error:{:08X}:{library}::{reason}", code.packed)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// A byte order mark in UTF-8, which some editors put at the beginning of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text of PEM that the library reads from. A byte order mark at its beginning is passed over, as OpenSSL does.
struct PemReader<'a> {
    bio: NonNull<lc::BIO>,
    text: PhantomData<&'a [u8]>,
}

impl<'a> PemReader<'a> {
    fn new(text: &'a [u8]) -> Result<Self, Errors> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let length = isize::try_from(text.len()).unwrap_or(isize::MAX);
        // SAFETY: the text outlives the reader, which borrows it, and the BIO only reads it.
        let bio = unsafe { lc::BIO_new_mem_buf(text.as_ptr().cast(), length as _) };
        let bio = NonNull::new(bio).ok_or_else(Errors::take)?;
        Ok(Self { bio, text: PhantomData })
    }

    fn as_ptr(&self) -> *mut lc::BIO {
        self.bio.as_ptr()
    }
}

impl Drop for PemReader<'_> {
    fn drop(&mut self) {
        // SAFETY: the BIO was made by `new` and is freed once.
        unsafe { lc::BIO_free(self.bio.as_ptr()) };
    }
}

/// Takes a buffer that the library allocated: a copy, after which the library's own is overwritten and freed.
///
/// # Safety
/// `data` is null, or `length` bytes that the library's allocator gave and nobody else uses.
unsafe fn take_buffer(data: *mut u8, length: usize) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller vouches for the bytes.
    let copy = unsafe { std::slice::from_raw_parts(data, length) }.to_vec();
    // SAFETY: as above; it is not used after this.
    unsafe {
        lc::OPENSSL_cleanse(data.cast(), length);
        lc::OPENSSL_free(data.cast());
    }
    copy
}
