//! Results of a verification.

use freerun_proto::Status;
use freerun_sys::x509::{OcspStatus, VerifyError};
use std::borrow::Cow;

/// Result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyResult {
    /// The peer's certificate is trusted.
    Success,
    /// The peer has sent none.
    None,
    /// The chain is not trusted; OpenSSL's number and words say the reason.
    Failed(VerifyError),
    /// The chain is trusted, but an OCSP responder has not said that it is good (`ssl_ocsp`).
    NotGood(NotGood),
}

/// Result of asking an OCSP responder, unless a certificate is good. The texts are nginx's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotGood {
    /// The certificate has been revoked.
    #[error("certificate revoked")]
    Revoked,
    /// The responder does not know it.
    #[error("certificate status unknown")]
    Unknown,
    /// There was no answer, or it was of no use.
    #[error("certificate status request failed")]
    Failed,
}

impl VerifyResult {
    /// Whether the peer has shown a certificate that is trusted.
    pub fn is_success(&self) -> bool {
        matches!(self, VerifyResult::Success)
    }

    /// The result of an OCSP answer about a certificate that is trusted; `None` if there is no answer of use.
    pub fn of_answer(status: Option<OcspStatus>) -> Self {
        match status {
            Some(OcspStatus::Good) => Self::Success,
            Some(OcspStatus::Revoked) => Self::NotGood(NotGood::Revoked),
            Some(OcspStatus::Unknown) => Self::NotGood(NotGood::Unknown),
            None => Self::NotGood(NotGood::Failed),
        }
    }
}

/// Request for a client's certificate (`ssl_verify_client`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateRequest {
    /// `on`: the client has to send a trusted certificate.
    Required,
    /// `optional`: if it sends one, that has to be trusted.
    Optional,
    /// `optional_no_ca`: as `optional`, but the authority need not be known.
    OptionalNoAuthority,
}

/// Reason for which a client is refused. The text is the line that nginx logs at level `info`, without what is said
/// about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its certificate is not trusted; nginx answers with 495.
    #[error("client SSL certificate verify error: ({}:{})", .0.code, .0.text())]
    Untrusted(VerifyError),
    /// Its certificate is not good; nginx answers with 495.
    #[error("client SSL certificate verify error: {0}")]
    NotGood(NotGood),
    /// The client has sent no certificate; nginx answers with 496.
    #[error("client sent no required SSL certificate")]
    NoCertificate,
}

impl Refusal {
    /// The status of nginx's own that stands for it in `error_page`. Clients see 400.
    pub fn status(self) -> Status {
        match self {
            Self::Untrusted(_) | Self::NotGood(_) => Status::CERTIFICATE_ERROR,
            Self::NoCertificate => Status::CERTIFICATE_REQUIRED,
        }
    }
}

impl VerifyResult {
    /// The value of `$ssl_client_verify`.
    pub fn variable(&self) -> Cow<'static, str> {
        match self {
            Self::Success => "SUCCESS".into(),
            Self::None => "NONE".into(),
            Self::Failed(error) => format!("FAILED:{}", error.text()).into(),
            Self::NotGood(why) => format!("FAILED:{why}").into(),
        }
    }

    /// The reason for refusing a client after this request for its certificate.
    pub fn refusal(&self, asked: CertificateRequest) -> Option<Refusal> {
        match (*self, asked) {
            (Self::Failed(error), CertificateRequest::OptionalNoAuthority) if is_forgiven(error.code) => None,
            (Self::Failed(error), _) => Some(Refusal::Untrusted(error)),
            (Self::NotGood(why), _) => Some(Refusal::NotGood(why)),
            (Self::None, CertificateRequest::Required) => Some(Refusal::NoCertificate),
            _ => None,
        }
    }

    /// The line that nginx logs when an upstream server is refused (`proxy_ssl_verify`). A server has always sent a
    /// certificate.
    pub fn upstream_error(&self) -> Option<String> {
        let error = match self {
            Self::Success => return None,
            Self::None => VerifyError { code: 1, depth: 0 },
            Self::Failed(error) => *error,
            Self::NotGood(why) => return Some(format!("upstream SSL certificate verify error: {why}")),
        };
        Some(format!("upstream SSL certificate verify error: ({}:{})", error.code, error.text()))
    }
}

/// Whether the number says that the authority is not known, which `optional_no_ca` does not mind.
fn is_forgiven(code: i32) -> bool {
    matches!(code, 18..=21 | 27)
}
