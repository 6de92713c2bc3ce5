//! OCSP (RFC 6960): whether a certificate has been revoked. Here are the bytes; sending them is somebody else's.

use freerun_sys::x509::{self, Certificate, OcspAnswer, OcspStatus};

/// The largest response that is read.
pub const MAX_OCSP_RESPONSE: usize = 64 << 10;

/// Signer that a response may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signer {
    /// The issuer of the certificate, or the holder of a certificate from it for this use.
    Authorised,
    /// Anybody whose certificate is in the response, or the issuer (`ssl_stapling_verify off`).
    Anybody,
}

/// Reason for which there is no answer. The text is the line that nginx logs, without what is said about the
/// connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OcspError {
    /// A certificate of the two cannot be read.
    #[error("OCSP_cert_to_id() failed")]
    Certificate,
    /// The bytes are no response, or more than anybody sends.
    #[error("d2i_OCSP_RESPONSE() failed")]
    Malformed,
    /// The responder does not answer.
    #[error("OCSP response not successful ({0}: {reason})", reason = reason(*.0))]
    NotSuccessful(i32),
    /// There is no answer in it of the kind that everybody uses.
    #[error("OCSP_response_get1_basic() failed (SSL: error:1380006C:OCSP routines::no response data)")]
    NoAnswer,
    /// The response is not signed by somebody who may do so; with the library's message.
    #[error("OCSP_basic_verify() failed (SSL: {0})")]
    NotVerified(String),
    /// There is no answer about this certificate in it.
    #[error("certificate status not found in the OCSP response")]
    NotFound,
    /// Its time has not come.
    #[error("OCSP_check_validity() failed (SSL: error:1380007E:OCSP routines::status not yet valid)")]
    NotYetValid,
    /// Its time is over.
    #[error("OCSP_check_validity() failed (SSL: error:1380007D:OCSP routines::status expired)")]
    Expired,
    /// Its times make no sense.
    #[error("OCSP_check_validity() failed")]
    BadTime,
}

/// OpenSSL's word for a status of a response.
fn reason(status: i32) -> &'static str {
    match status {
        0 => "successful",
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "(UNKNOWN)",
    }
}

/// OpenSSL's word for what is answered about a certificate: `good`, `revoked` or `unknown`.
pub fn status_word(status: OcspStatus) -> &'static str {
    match status {
        OcspStatus::Good => "good",
        OcspStatus::Revoked => "revoked",
        OcspStatus::Unknown => "unknown",
    }
}

/// Checks that a file has a response (`ssl_stapling_file`), whatever that says. The error is what the library says of it,
/// to be written behind `(SSL: `.
pub fn check_ocsp_response(response: &[u8]) -> Result<(), String> {
    if response.len() > MAX_OCSP_RESPONSE {
        return Err("too large".to_owned());
    }
    x509::check_ocsp_response(response).map_err(|errors| errors.to_string())
}

/// A request for a certificate and its issuer; all in DER. `None`: one of them cannot be read.
pub fn ocsp_request(certificate: &[u8], issuer: &[u8]) -> Option<Vec<u8>> {
    x509::ocsp_request(&Certificate::from_der(certificate)?, &Certificate::from_der(issuer)?)
}

/// The answer of a response about a certificate; all in DER. The issuer is taken for trusted. `now` is in seconds since
/// 1970; clocks may differ by five minutes.
pub fn ocsp_answer(
    response: &[u8],
    certificate: &[u8],
    issuer: &[u8],
    signer: Signer,
    now: i64,
) -> Result<OcspAnswer, OcspError> {
    if response.len() > MAX_OCSP_RESPONSE {
        return Err(OcspError::Malformed);
    }
    let (Some(certificate), Some(issuer)) = (Certificate::from_der(certificate), Certificate::from_der(issuer)) else {
        return Err(OcspError::Certificate);
    };
    x509::ocsp_answer(response, &certificate, &issuer, signer == Signer::Anybody, now).map_err(|error| match error {
        x509::OcspError::Malformed(_) => OcspError::Malformed,
        x509::OcspError::NotSuccessful(status) => OcspError::NotSuccessful(status),
        x509::OcspError::NoAnswer(_) => OcspError::NoAnswer,
        x509::OcspError::NotVerified(errors) => OcspError::NotVerified(errors.to_string()),
        x509::OcspError::NotFound => OcspError::NotFound,
        x509::OcspError::NotYetValid => OcspError::NotYetValid,
        x509::OcspError::Expired => OcspError::Expired,
        x509::OcspError::BadTime => OcspError::BadTime,
    })
}
