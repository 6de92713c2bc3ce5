//! Password hashes by crypt(3), in all forms that the system supports.

use std::ffi::{CStr, c_char};

/// A size that is larger than `struct crypt_data` of every C library: 131,232 bytes in old glibc, 32,768 in libxcrypt,
/// 260 in musl.
const DATA_SIZE: usize = 132 * 1024;

/// A buffer aligned for the fields of `struct crypt_data`.
#[repr(C, align(16))]
struct Data([u8; DATA_SIZE]);

#[link(name = "crypt")]
unsafe extern "C" {
    fn crypt_r(phrase: *const c_char, setting: *const c_char, data: *mut Data) -> *mut c_char;
}

/// crypt_r(3): hashes `password` in the form, and with the salt, of `setting`, which may be a complete hash. `None`:
/// the system does not support the form, or the password is too long for it.
///
/// It uses the processor for as long as the form asks for, up to minutes: never call it on an event loop.
pub fn crypt(password: &CStr, setting: &CStr) -> Option<Vec<u8>> {
    let mut data = Box::<Data>::new_uninit();
    // SAFETY: all bytes are written, and any bytes are a `Data`. Zeroes are what crypt_r(3) asks for at first use.
    let mut data = unsafe {
        data.as_mut_ptr().write_bytes(0, 1);
        data.assume_init()
    };
    // SAFETY: both strings end with NUL and live through the call; `data` is at least as large as the `struct crypt_data`
    // of any C library and aligned for it. The answer is null or points to a string inside `data`.
    let hash = unsafe {
        let hash = crypt_r(password.as_ptr(), setting.as_ptr(), &raw mut *data);
        if hash.is_null() {
            return None;
        }
        CStr::from_ptr(hash).to_bytes().to_vec()
    };
    // libxcrypt reports failures by a string that cannot be a hash.
    (!hash.starts_with(b"*")).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_reproduced_from_itself() {
        let hash =
            c"$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";
        assert_eq!(crypt(c"secret", hash).as_deref(), Some(hash.to_bytes()));
        assert_ne!(crypt(c"other", hash).as_deref(), Some(hash.to_bytes()));
    }

    #[test]
    fn unknown_forms_have_no_hash() {
        for setting in [c"*", c"$unknown$salt", c":", c"$6"] {
            assert_eq!(crypt(c"secret", setting), None, "{setting:?}");
        }
    }
}
