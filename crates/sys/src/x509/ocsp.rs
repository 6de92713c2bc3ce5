//! OCSP (RFC 6960): asking whether a certificate has been revoked, and what is answered.

use super::stack::CertificateStack;
use super::{Certificate, CertificateStore, Errors, lc, take_buffer};
use std::ffi::{c_int, c_ulong};
use std::ptr::{NonNull, null_mut};

/// Status of a certificate in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OcspStatus {
    /// The certificate has not been revoked.
    Good,
    /// The certificate has been revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// An answer about a certificate, with the times between which it holds, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OcspAnswer {
    /// The status.
    pub status: OcspStatus,
    /// The moment for which the status holds.
    pub this_update: i64,
    /// The moment of the next answer, if it is given.
    pub next_update: Option<i64>,
}

/// Reason for which a response is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OcspError {
    /// The bytes are no response; with the library's errors.
    Malformed(Errors),
    /// The responder does not answer; with the number that says why (RFC 6960 section 4.2.1, `OCSPResponseStatus`).
    NotSuccessful(i32),
    /// There is no answer in it of the kind that everybody uses; with what the library says.
    NoAnswer(Errors),
    /// The response is not signed by somebody who may do so; with the library's errors.
    NotVerified(Errors),
    /// There is no answer about this certificate in it.
    NotFound,
    /// Its time has not come.
    NotYetValid,
    /// Its time is over.
    Expired,
    /// Its times cannot be read, or the second is before the first.
    BadTime,
}

/// The tolerance for the clocks of responders, in seconds; nginx has the same.
const TOLERANCE: i64 = 300;

/// A value of the library that a function frees.
struct OwnedPointer<T>(NonNull<T>, unsafe extern "C" fn(*mut T));

impl<T> OwnedPointer<T> {
    /// Takes a value that the library has given; `None` if it has given none.
    ///
    /// # Safety
    /// The value is null, or it is the caller's and `free` is the function that frees it.
    unsafe fn new(value: *mut T, free: unsafe extern "C" fn(*mut T)) -> Option<Self> {
        NonNull::new(value).map(|value| Self(value, free))
    }

    fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Drop for OwnedPointer<T> {
    fn drop(&mut self) {
        // SAFETY: the value is ours and is freed once, by the function that is for its kind (see `new`).
        unsafe { (self.1)(self.0.as_ptr()) };
    }
}

/// The identifier of a certificate in requests and answers.
fn identifier(certificate: &Certificate, issuer: &Certificate) -> Option<OwnedPointer<lc::OCSP_CERTID>> {
    // SAFETY: the certificates are alive and only read; what the library gives is ours.
    unsafe {
        let identifier = lc::OCSP_cert_to_id(lc::EVP_sha1(), certificate.as_ptr(), issuer.as_ptr());
        OwnedPointer::new(identifier, lc::OCSP_CERTID_free)
    }
}

/// A request for one certificate in DER. Like nginx's, it has SHA-1 hashes of the issuer's name and key and no nonce.
/// `None`: there is no memory for it.
pub fn ocsp_request(certificate: &Certificate, issuer: &Certificate) -> Option<Vec<u8>> {
    let identifier = identifier(certificate, issuer)?;
    // SAFETY: the function has no preconditions; what it gives is ours.
    let request = unsafe { OwnedPointer::new(lc::OCSP_REQUEST_new(), lc::OCSP_REQUEST_free) }?;
    // SAFETY: both are alive; the request takes the identifier if it says so.
    if unsafe { lc::OCSP_request_add0_id(request.as_ptr(), identifier.as_ptr()) }.is_null() {
        return None;
    }
    std::mem::forget(identifier);
    let mut der = null_mut();
    // SAFETY: the request is alive; the library allocates the buffer and says how long it is.
    let length = unsafe { lc::i2d_OCSP_REQUEST(request.as_ptr(), &mut der) };
    // SAFETY: `der` is null or what the library has just allocated.
    let der = unsafe { take_buffer(der, usize::try_from(length).unwrap_or(0)) };
    drop(Errors::take());
    (!der.is_empty()).then_some(der)
}

/// Reads a response in DER.
fn read(response: &[u8]) -> Option<OwnedPointer<lc::OCSP_RESPONSE>> {
    let mut at = response.as_ptr();
    let length = response.len().try_into().ok()?;
    // SAFETY: `at` and the length describe the response, which is only read; what the library gives is ours.
    unsafe { OwnedPointer::new(lc::d2i_OCSP_RESPONSE(null_mut(), &mut at, length), lc::OCSP_RESPONSE_free) }
}

/// Checks that these bytes begin with a response in DER, whatever it says. The error is what the library says.
pub fn check_ocsp_response(response: &[u8]) -> Result<(), Errors> {
    drop(Errors::take());
    let read = read(response);
    let errors = Errors::take();
    if read.is_some() { Ok(()) } else { Err(errors) }
}

/// The answer of a response in DER about a certificate. It has to be signed by the issuer, or by somebody whose
/// certificate is from the issuer and for this use. If `any_signer`, the holder of any certificate in it may have
/// signed it. `now` is in seconds since 1970.
///
/// The issuer is taken for trusted: whether it is, has been found out when the certificate was verified.
pub fn ocsp_answer(
    response: &[u8],
    certificate: &Certificate,
    issuer: &Certificate,
    any_signer: bool,
    now: i64,
) -> Result<OcspAnswer, OcspError> {
    drop(Errors::take());
    let answer = answer(response, certificate, issuer, any_signer, now);
    drop(Errors::take());
    answer
}

fn answer(
    response: &[u8],
    certificate: &Certificate,
    issuer: &Certificate,
    any_signer: bool,
    now: i64,
) -> Result<OcspAnswer, OcspError> {
    let read = read(response).ok_or_else(|| OcspError::Malformed(Errors::take()))?;
    // SAFETY: the response is alive.
    let status = unsafe { lc::OCSP_response_status(read.as_ptr()) };
    if status != lc::OCSP_RESPONSE_STATUS_SUCCESSFUL {
        return Err(OcspError::NotSuccessful(status));
    }
    // SAFETY: the response is alive; what the library gives is ours.
    let basic = unsafe { OwnedPointer::new(lc::OCSP_response_get1_basic(read.as_ptr()), lc::OCSP_BASICRESP_free) };
    let basic = basic.ok_or_else(|| OcspError::NoAnswer(Errors::take()))?;

    let verified = || {
        let store = CertificateStore::of_issuer(issuer, now)?;
        let issuers = CertificateStack::new(std::slice::from_ref(issuer))?;
        let flags = if any_signer { lc::OCSP_TRUSTOTHER | lc::OCSP_NOVERIFY } else { lc::OCSP_TRUSTOTHER };
        // SAFETY: all are alive; the store and the list are only read.
        let result =
            unsafe { lc::OCSP_basic_verify(basic.as_ptr(), issuers.as_ptr(), store.as_ptr(), flags as c_ulong) };
        (result == 1).then_some(())
    };
    verified().ok_or_else(|| OcspError::NotVerified(Errors::take()))?;

    let identifier = identifier(certificate, issuer).ok_or(OcspError::NotFound)?;
    let (mut status, mut this_update, mut next_update): (c_int, _, _) = (-1, null_mut(), null_mut());
    // SAFETY: both are alive; the times are borrowed from the answer.
    let found = unsafe {
        lc::OCSP_resp_find_status(
            basic.as_ptr(),
            identifier.as_ptr(),
            &mut status,
            null_mut(),
            null_mut(),
            &mut this_update,
            &mut next_update,
        )
    };
    if found != 1 {
        return Err(OcspError::NotFound);
    }
    let status = match status {
        lc::V_OCSP_CERTSTATUS_GOOD => OcspStatus::Good,
        lc::V_OCSP_CERTSTATUS_REVOKED => OcspStatus::Revoked,
        _ => OcspStatus::Unknown,
    };
    // SAFETY: the times are null or alive.
    let (this_update, next) = unsafe { (super::facts::seconds(this_update), super::facts::seconds(next_update)) };
    let this_update = this_update.ok_or(OcspError::BadTime)?;
    let next_update = if next_update.is_null() { None } else { Some(next.ok_or(OcspError::BadTime)?) };
    if this_update > now.saturating_add(TOLERANCE) {
        return Err(OcspError::NotYetValid);
    }
    match next_update {
        Some(next) if next < now.saturating_sub(TOLERANCE) => Err(OcspError::Expired),
        Some(next) if next < this_update => Err(OcspError::BadTime),
        _ => Ok(OcspAnswer { status, this_update, next_update }),
    }
}
