//! Private keys.

use super::{Errors, PemReader, lc, pbes2, take_buffer};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

/// A private key that has been parsed. The library overwrites its memory when it is dropped.
pub struct PrivateKey(NonNull<lc::EVP_PKEY>);

// SAFETY: the object is owned, and the library does not tie it to a thread.
unsafe impl Send for PrivateKey {}

/// Kind of a key, and so its uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, with this number of bits.
    Rsa(u32),
    /// ECDSA with the curve P-256.
    P256,
    /// ECDSA with the curve P-384.
    P384,
    /// ECDSA with the curve P-521.
    P521,
    /// Ed25519.
    Ed25519,
    /// Anything else, and what cannot be read.
    Other,
}

/// Reason for which a key cannot be read.
#[derive(Debug)]
pub struct PrivateKeyError {
    /// The key is encrypted, so another password may help.
    pub asked: bool,
    /// The library's errors.
    pub errors: Errors,
}

/// Answer to the library when it asks for a password.
struct Password<'a> {
    text: Option<&'a [u8]>,
    asked: bool,
}

impl PrivateKey {
    /// Reads the first private key of a PEM text: PKCS#8 (encrypted or not), or a form of its own (PKCS#1, SEC1). For
    /// the latter, `DEK-Info` says how it is encrypted. Other text and other blocks are skipped.
    pub fn from_pem(pem: &[u8], password: Option<&[u8]>) -> Result<Self, PrivateKeyError> {
        drop(Errors::take());
        let reader = PemReader::new(pem).map_err(|errors| PrivateKeyError { asked: false, errors })?;
        let mut password = Password { text: password, asked: false };
        // SAFETY: the BIO is alive; the callback gets the pointer to `password`, which outlives the call, and nothing else
        // uses it in the meantime.
        let key = unsafe {
            let userdata = (&raw mut password).cast::<c_void>();
            lc::PEM_read_bio_PrivateKey(reader.as_ptr(), null_mut(), Some(give_password), userdata)
        };
        let errors = Errors::take();
        let failed = |errors| PrivateKeyError { asked: password.asked, errors };
        match (NonNull::new(key), password.text) {
            (Some(key), _) => Ok(Self(key)),
            (None, Some(text)) if password.asked && errors.unsupported_encryption() => {
                pbes2::read(pem, text).unwrap_or(Err(errors)).map_err(failed)
            }
            (None, _) => Err(failed(errors)),
        }
    }

    pub(super) fn of(key: NonNull<lc::EVP_PKEY>) -> Self {
        Self(key)
    }

    pub(super) fn as_ptr(&self) -> *mut lc::EVP_PKEY {
        self.0.as_ptr()
    }

    /// The kind of key.
    pub fn kind(&self) -> KeyKind {
        // SAFETY: the key is alive.
        let kind = unsafe { kind(self.0.as_ptr()) };
        drop(Errors::take());
        kind
    }

    /// The key in PKCS#8, not encrypted. Whoever asks for it overwrites it after use.
    pub fn to_pkcs8(&self) -> Option<Vec<u8>> {
        let mut builder = MaybeUninit::<lc::CBB>::uninit();
        let (mut data, mut length) = (null_mut(), 0);
        // SAFETY: `CBB_init` makes the builder; `CBB_finish` or `CBB_cleanup` takes it down, and the buffer that `CBB_finish`
        // gives is ours.
        unsafe {
            if lc::CBB_init(builder.as_mut_ptr(), 2048) != 1 {
                return None;
            }
            let written = lc::EVP_marshal_private_key(builder.as_mut_ptr(), self.0.as_ptr()) == 1
                && lc::CBB_finish(builder.as_mut_ptr(), &mut data, &mut length) == 1;
            drop(Errors::take());
            if !written {
                lc::CBB_cleanup(builder.as_mut_ptr());
                return None;
            }
            Some(take_buffer(data, length))
        }
    }
}

impl Drop for PrivateKey {
    fn drop(&mut self) {
        // SAFETY: the reference is ours and is given back once.
        unsafe { lc::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("PrivateKey").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

/// The kind of the key `key`.
///
/// # Safety
/// `key` is null or a key that is alive.
pub(super) unsafe fn kind(key: *const lc::EVP_PKEY) -> KeyKind {
    if key.is_null() {
        return KeyKind::Other;
    }
    // SAFETY: the caller vouches for the key.
    let (id, bits) = unsafe { (lc::EVP_PKEY_id(key), lc::EVP_PKEY_bits(key)) };
    match id {
        lc::EVP_PKEY_RSA => KeyKind::Rsa(u32::try_from(bits).unwrap_or(0)),
        lc::EVP_PKEY_ED25519 => KeyKind::Ed25519,
        lc::EVP_PKEY_EC => {
            // SAFETY: it is an EC key; the group is borrowed from it, and may be null.
            let curve = unsafe {
                let group = lc::EC_KEY_get0_group(lc::EVP_PKEY_get0_EC_KEY(key));
                if group.is_null() { 0 } else { lc::EC_GROUP_get_curve_name(group) }
            };
            match curve {
                lc::NID_X9_62_prime256v1 => KeyKind::P256,
                lc::NID_secp384r1 => KeyKind::P384,
                lc::NID_secp521r1 => KeyKind::P521,
                _ => KeyKind::Other,
            }
        }
        _ => KeyKind::Other,
    }
}

/// Gives the library the password, cut at the size of its buffer as nginx does.
unsafe extern "C" fn give_password(buffer: *mut c_char, size: c_int, _: c_int, userdata: *mut c_void) -> c_int {
    // SAFETY: `from_pem` passes a `Password` that nothing else uses during the call.
    let password = unsafe { &mut *userdata.cast::<Password<'_>>() };
    password.asked = true;
    let (Some(text), Ok(room)) = (password.text, usize::try_from(size)) else { return -1 };
    let length = text.len().min(room);
    // SAFETY: the library's buffer has `size` bytes, and `length` is no more than that and than the password's.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), length) };
    c_int::try_from(length).unwrap_or(-1)
}

/// Gives no password; the library would ask at the terminal otherwise.
pub(super) unsafe extern "C" fn no_password(_: *mut c_char, _: c_int, _: c_int, _: *mut c_void) -> c_int {
    -1
}
