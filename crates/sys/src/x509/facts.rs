//! Contents of a certificate.

use super::names::{one_line, rfc2253};
use super::writer::written;
use super::{Certificate, Errors, lc, take_buffer};
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

/// A function that encodes something in DER, to a buffer of the library.
type Encode<T> = unsafe extern "C" fn(T, *mut *mut u8) -> c_int;

impl Certificate {
    /// The subject in the form of RFC 2253, as nginx has it in `$ssl_client_s_dn`: `CN=a,O=b`.
    pub fn subject(&self) -> String {
        // SAFETY: the certificate is alive, and the name is borrowed from it.
        unsafe { rfc2253(lc::X509_get_subject_name(self.as_ptr())) }
    }

    /// The issuer in the form of RFC 2253, as nginx has it in `$ssl_client_i_dn`.
    pub fn issuer(&self) -> String {
        // SAFETY: the certificate is alive, and the name is borrowed from it.
        unsafe { rfc2253(lc::X509_get_issuer_name(self.as_ptr())) }
    }

    /// The subject as nginx has it in `$ssl_client_s_dn_legacy`: `/O=b/CN=a`.
    pub fn subject_legacy(&self) -> String {
        // SAFETY: the certificate is alive, and the name is borrowed from it.
        unsafe { one_line(lc::X509_get_subject_name(self.as_ptr())) }
    }

    /// The issuer as nginx has it in `$ssl_client_i_dn_legacy`.
    pub fn issuer_legacy(&self) -> String {
        // SAFETY: the certificate is alive, and the name is borrowed from it.
        unsafe { one_line(lc::X509_get_issuer_name(self.as_ptr())) }
    }

    /// The serial number in hexadecimal, as nginx has it in `$ssl_client_serial`: `0A1B`. Numbers that are longer than
    /// 35 bytes, for which OpenSSL begins new lines, are in one line here.
    pub fn serial(&self) -> String {
        let lines = written(|to| {
            // SAFETY: the certificate is alive, and the number is borrowed from it.
            unsafe { lc::i2a_ASN1_INTEGER(to, lc::X509_get0_serialNumber(self.as_ptr())) }
        });
        lines.replace("\\\n", "")
    }

    /// The begin of its validity, as nginx has it in `$ssl_client_v_start`: `Jan 1 00:00:00 2021 GMT`.
    pub fn begin_text(&self) -> String {
        written(|to| {
            // SAFETY: the certificate is alive, and the time is borrowed from it.
            unsafe { lc::ASN1_TIME_print(to, lc::X509_get0_notBefore(self.as_ptr())) }
        })
    }

    /// The end of its validity, as nginx has it in `$ssl_client_v_end`.
    pub fn end_text(&self) -> String {
        written(|to| {
            // SAFETY: the certificate is alive, and the time is borrowed from it.
            unsafe { lc::ASN1_TIME_print(to, lc::X509_get0_notAfter(self.as_ptr())) }
        })
    }

    /// The begin of its validity, in seconds since 1970. `None`: the time cannot be read.
    pub fn begin(&self) -> Option<i64> {
        // SAFETY: the certificate is alive, and the time is borrowed from it.
        unsafe { seconds(lc::X509_get0_notBefore(self.as_ptr())) }
    }

    /// The end of its validity, in seconds since 1970. `None`: the time cannot be read.
    pub fn end(&self) -> Option<i64> {
        // SAFETY: the certificate is alive, and the time is borrowed from it.
        unsafe { seconds(lc::X509_get0_notAfter(self.as_ptr())) }
    }

    /// The SHA-1 hash of the certificate, which nginx has in `$ssl_client_fingerprint`.
    pub fn sha1(&self) -> [u8; 20] {
        let mut hash = [0; 20];
        let mut length = 20;
        // SAFETY: the certificate is alive, and the buffer is as long as this hash.
        unsafe { lc::X509_digest(self.as_ptr(), lc::EVP_sha1(), hash.as_mut_ptr(), &mut length) };
        drop(Errors::take());
        hash
    }

    /// The certificate as a PEM block, without settings of trust.
    pub fn to_pem(&self) -> String {
        written(|to| {
            // SAFETY: the certificate is alive and only read.
            unsafe { lc::PEM_write_bio_X509(to, self.as_ptr()) }
        })
    }

    /// The certificate in DER, without settings of trust.
    pub fn to_der(&self) -> Vec<u8> {
        // SAFETY: the certificate is alive.
        unsafe { encoded(lc::i2d_X509, self.as_ptr()) }
    }

    /// The subject in DER: what a server sends as the name of an authority whose certificates it takes.
    pub fn subject_der(&self) -> Vec<u8> {
        // SAFETY: the certificate is alive, and the name is borrowed from it.
        unsafe { encoded(lc::i2d_X509_NAME, lc::X509_get_subject_name(self.as_ptr())) }
    }

    /// The public key in DER (`SubjectPublicKeyInfo`, RFC 5280 section 4.1.2.7).
    pub fn public_key_der(&self) -> Vec<u8> {
        // SAFETY: the certificate is alive, and the key is borrowed from it.
        unsafe { encoded(lc::i2d_X509_PUBKEY, lc::X509_get_X509_PUBKEY(self.as_ptr()).cast_const()) }
    }

    /// Addresses to ask whether the certificate has been revoked: the locations of OCSP responders (RFC 5280 section
    /// 4.2.2.1) as they are written in the certificate. They are anybody's bytes.
    pub fn ocsp_responders(&self) -> Vec<Vec<u8>> {
        // SAFETY: the certificate is alive; what the library gives is ours, or null.
        let list = unsafe { lc::X509_get1_ocsp(self.as_ptr()) };
        drop(Errors::take());
        if list.is_null() {
            return Vec::new();
        }
        let elements: *const lc::OPENSSL_STACK = list.cast_const().cast();
        // SAFETY: the list is alive, and its elements are texts that end with a NUL; the library frees both.
        unsafe {
            let texts = (0..lc::OPENSSL_sk_num(elements)).map(|at| lc::OPENSSL_sk_value(elements, at));
            let texts = texts.map(|text| CStr::from_ptr(text.cast_const().cast()).to_bytes().to_vec()).collect();
            lc::X509_email_free(list);
            texts
        }
    }
}

/// # Safety
/// `time` is null or a time that is alive.
pub(super) unsafe fn seconds(time: *const lc::ASN1_TIME) -> Option<i64> {
    let mut seconds = 0;
    // SAFETY: the caller vouches for the time.
    let read = !time.is_null() && unsafe { lc::ASN1_TIME_to_posix(time, &mut seconds) } == 1;
    drop(Errors::take());
    read.then_some(seconds)
}

/// # Safety
/// `value` is alive, and of the kind that `encode` takes.
unsafe fn encoded<T>(encode: Encode<T>, value: T) -> Vec<u8> {
    let mut der = null_mut();
    // SAFETY: the caller vouches for the value; the library allocates the buffer and says how long it is.
    let length = unsafe { encode(value, &mut der) };
    // SAFETY: `der` is null or what the library has just allocated.
    let der = unsafe { take_buffer(der, usize::try_from(length).unwrap_or(0)) };
    drop(Errors::take());
    der
}
