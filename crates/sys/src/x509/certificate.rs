//! X.509 certificates.

use super::{Errors, KeyKind, PemReader, PrivateKey, key, lc};
use std::ffi::{CStr, c_int};
use std::ptr::{NonNull, null_mut};

/// A certificate that has been parsed.
pub struct Certificate(NonNull<lc::X509>);

// SAFETY: the object is owned, and the library does not tie it to a thread.
unsafe impl Send for Certificate {}

/// Mismatch between a key and a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The key is another one of the same kind.
    Values,
    /// The certificate is for another kind of key.
    Type,
}

/// An algorithm for signing certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureAlgorithm(c_int);

impl SignatureAlgorithm {
    /// OpenSSL's short name of it, `RSA-SHA256` or `ecdsa-with-SHA256` for example; `None` if it is not known.
    pub fn name(self) -> Option<&'static str> {
        if self.0 == lc::NID_undef {
            return None;
        }
        // SAFETY: the function has no preconditions. The number belongs to a built-in object, whose name is a constant.
        let name = unsafe { lc::OBJ_nid2sn(self.0) };
        drop(Errors::take());
        // SAFETY: a name that is not null is a text that ends with a NUL, and is never freed.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
    }
}

/// Whether one certificate can have issued another one, by what is written in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuerCheck {
    Yes,
    /// The name and identifiers are the issuer's, but its key usage does not allow it.
    NotAllowed,
    No,
}

/// The certificates of a PEM text, the server's own first.
pub type Chain = Vec<Certificate>;

/// Reason for which a chain cannot be read.
#[derive(Debug)]
pub struct ChainError {
    /// The number of certificates that were read before.
    pub read: usize,
    /// The library's errors.
    pub errors: Errors,
}

impl Certificate {
    /// Reads a certificate in DER; there may be nothing behind it.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let mut at = der.as_ptr();
        // SAFETY: `at` and the length describe `der`, which is only read.
        let certificate = unsafe { lc::d2i_X509(null_mut(), &mut at, der.len().try_into().ok()?) };
        let certificate = NonNull::new(certificate).map(Self);
        drop(Errors::take());
        let read = (at as usize).wrapping_sub(der.as_ptr() as usize);
        certificate.filter(|_| read == der.len())
    }

    /// Reads all certificates of a PEM text; there has to be at least one. The first may carry settings of trust
    /// (`TRUSTED CERTIFICATE`); these are dropped. Other text and other blocks are skipped.
    pub fn chain_from_pem(pem: &[u8]) -> Result<Chain, ChainError> {
        drop(Errors::take());
        let reader = PemReader::new(pem).map_err(|errors| ChainError { read: 0, errors })?;
        let mut chain = Vec::new();
        // SAFETY: the BIO is alive, and the callback serves blocks that are encrypted: it has no password.
        let own = unsafe { lc::PEM_read_bio_X509_AUX(reader.as_ptr(), null_mut(), Some(key::no_password), null_mut()) };
        let errors = Errors::take();
        chain.push(NonNull::new(own).map(Self).ok_or(ChainError { read: 0, errors })?);
        Self::read_plain(&reader, &mut chain).map_err(|errors| ChainError { read: chain.len(), errors })?;
        Ok(chain)
    }

    /// Reads all certificates of a PEM text, those in `TRUSTED CERTIFICATE` blocks included; there may be none.
    pub fn all_from_pem(pem: &[u8]) -> Result<Chain, Errors> {
        drop(Errors::take());
        let reader = PemReader::new(pem)?;
        let mut chain = Vec::new();
        loop {
            // SAFETY: the BIO is alive, and the callback serves blocks that are encrypted: it has no password.
            let certificate =
                unsafe { lc::PEM_read_bio_X509_AUX(reader.as_ptr(), null_mut(), Some(key::no_password), null_mut()) };
            let errors = Errors::take();
            match NonNull::new(certificate) {
                Some(certificate) => chain.push(Self(certificate)),
                None if errors.no_start_line() => return Ok(chain),
                None => return Err(errors),
            }
        }
    }

    /// Reads the certificates that are left, up to the end of the text.
    fn read_plain(reader: &PemReader<'_>, chain: &mut Chain) -> Result<(), Errors> {
        loop {
            // SAFETY: the BIO is alive, and the callback serves blocks that are encrypted: it has no password.
            let certificate =
                unsafe { lc::PEM_read_bio_X509(reader.as_ptr(), null_mut(), Some(key::no_password), null_mut()) };
            let errors = Errors::take();
            match NonNull::new(certificate) {
                Some(certificate) => chain.push(Self(certificate)),
                None if errors.no_start_line() => return Ok(()),
                None => return Err(errors),
            }
        }
    }

    /// Takes a reference to a certificate.
    ///
    /// # Safety
    /// The certificate is alive, and the reference is the caller's.
    pub(super) unsafe fn own(certificate: NonNull<lc::X509>) -> Self {
        Self(certificate)
    }

    /// Another reference to a certificate.
    ///
    /// # Safety
    /// The certificate is alive.
    pub(super) unsafe fn share(certificate: NonNull<lc::X509>) -> Self {
        // SAFETY: the caller vouches for it. Counting a reference cannot fail.
        unsafe { lc::X509_up_ref(certificate.as_ptr()) };
        Self(certificate)
    }

    pub(super) fn as_ptr(&self) -> *mut lc::X509 {
        self.0.as_ptr()
    }

    /// Whether its key usage, if it has one, allows to sign certificates.
    pub(super) fn may_sign_certificates(&self) -> bool {
        // SAFETY: the certificate is alive; what is found out about its extensions is kept in it, under its lock.
        let (flags, usage) =
            unsafe { (lc::X509_get_extension_flags(self.0.as_ptr()), lc::X509_get_key_usage(self.0.as_ptr())) };
        drop(Errors::take());
        flags & lc::EXFLAG_KUSAGE as u32 == 0 || usage & lc::X509v3_KU_KEY_CERT_SIGN as u32 != 0
    }

    /// Whether this certificate can have issued `other`.
    pub(super) fn issued(&self, other: &Certificate) -> IssuerCheck {
        // SAFETY: both certificates are alive; what is found out about them is kept in them, under their locks.
        match unsafe { lc::X509_check_issued(self.as_ptr(), other.as_ptr()) } {
            lc::X509_V_OK => IssuerCheck::Yes,
            lc::X509_V_ERR_KEYUSAGE_NO_CERTSIGN => IssuerCheck::NotAllowed,
            _ => IssuerCheck::No,
        }
    }

    /// Whether both are the same, byte for byte.
    pub(super) fn same(&self, other: &Certificate) -> bool {
        // SAFETY: both certificates are alive; what is found out about them is kept in them, under their locks.
        unsafe { lc::X509_cmp(self.as_ptr(), other.as_ptr()) == 0 }
    }

    /// The kind of key that it is for.
    pub fn key_kind(&self) -> KeyKind {
        // SAFETY: the certificate is alive; the key is borrowed from it for the time of this call.
        let kind = unsafe { key::kind(lc::X509_get0_pubkey(self.0.as_ptr())) };
        drop(Errors::take());
        kind
    }

    /// The algorithm that it is signed with.
    pub fn signature_algorithm(&self) -> SignatureAlgorithm {
        // SAFETY: the certificate is alive and only read.
        SignatureAlgorithm(unsafe { lc::X509_get_signature_nid(self.0.as_ptr()) })
    }

    /// Whether `key` is the private part of the certificate's key.
    pub fn check_key(&self, key: &PrivateKey) -> Result<(), Mismatch> {
        // SAFETY: both objects are alive and only read.
        let fits = unsafe { lc::X509_check_private_key(self.0.as_ptr(), key.as_ptr()) } == 1;
        let errors = Errors::take();
        if fits {
            Ok(())
        } else if errors.has(lc::ERR_LIB_X509, lc::X509_R_KEY_VALUES_MISMATCH) {
            Err(Mismatch::Values)
        } else {
            Err(Mismatch::Type)
        }
    }
}

impl Clone for Certificate {
    fn clone(&self) -> Self {
        // SAFETY: the certificate is alive.
        unsafe { Self::share(self.0) }
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { lc::X509_free(self.0.as_ptr()) };
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Certificate").field("key_kind", &self.key_kind()).finish_non_exhaustive()
    }
}
