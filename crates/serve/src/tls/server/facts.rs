//! What a server's certificates say, for figures.

use freerun_tls::load::CertifiedKey;

use crate::tls::values::FileName;

/// What a certificate says, for figures.
#[derive(Debug, Clone)]
pub struct CertificateFacts {
    /// The file that it is in.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// Who vouches for that.
    pub issuer: String,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
}

impl CertificateFacts {
    /// What the first certificate of a chain says.
    pub(super) fn of(key: &CertifiedKey, file: &FileName) -> Option<CertificateFacts> {
        let (subject, issuer, expires) = (key.subject().to_owned(), key.issuer().to_owned(), key.end()?);
        Some(CertificateFacts { file: file.shown().to_owned(), subject, issuer, expires })
    }
}
