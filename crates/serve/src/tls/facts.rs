//! What a server's certificates say, for figures and for the log.

use freerun_tls::load::CertifiedKey;

use super::figures::kind_of_key;

/// What a certificate says, for figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file that it is in, or the name of a pair that no file has.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// The DNS names and IP addresses that it is for.
    pub names: Vec<String>,
    /// The kind of its key: one of [`KEYS`](super::figures::KEYS), or `other`.
    pub key: &'static str,
    /// Who vouches for that.
    pub issuer: String,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
    /// The same as OpenSSL prints it.
    pub expires_text: String,
}

impl CertificateFacts {
    /// What the first certificate of a chain says; `file` is where it comes from. `None` if it cannot be read.
    pub(super) fn of(key: &CertifiedKey, file: &str) -> Option<CertificateFacts> {
        Some(CertificateFacts {
            file: file.to_owned(),
            subject: key.subject().to_owned(),
            names: key.names().to_vec(),
            key: kind_of_key(key.kind()),
            issuer: key.issuer().to_owned(),
            expires: key.end()?,
            expires_text: key.end_text().to_owned(),
        })
    }
}
