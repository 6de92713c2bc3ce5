//! The certificates of peers: whether they are trusted, and what they say.
//!
//! | type | is for |
//! |---|---|
//! | [`TrustStore`] | `ssl_client_certificate`, `ssl_trusted_certificate`, `ssl_crl` and their like for upstreams |
//! | [`VerifyResult`] | `$ssl_client_verify`, and whether a client or an upstream server is refused |
//! | [`PeerCertificate`] | `$ssl_client_s_dn` and so on, `proxy_ssl_name` |
//! | [`is_for_host`] | the names of servers that this server itself asks for something |
//! | [`ocsp_request`], [`ocsp_answer`] | `ssl_ocsp`, `ssl_stapling` |
//! | [`Statuses`] | `ssl_ocsp_cache` |
//!
//! Verifying takes up to some milliseconds, so it is not for a loop.

mod error;
mod ocsp;
mod peer;
mod statuses;
mod trust;
mod verify_result;

pub use error::{TrustError, TrustSource};
pub use freerun_sys::x509::{CertificatePurpose, OcspAnswer, OcspStatus, VerifyError};
pub use ocsp::{MAX_OCSP_RESPONSE, OcspError, Signer, check_ocsp_response, ocsp_answer, ocsp_request, status_word};
pub use peer::{PeerCertificate, is_for_host};
pub use statuses::Statuses;
pub use trust::{DEFAULT_LEVEL, MAX_TRUST, TrustBuilder, TrustStore, VerifyRules};
pub use verify_result::{CertificateRequest, NotGood, Refusal, VerifyResult};

#[cfg(test)]
mod tests;
