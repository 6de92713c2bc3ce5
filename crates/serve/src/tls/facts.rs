//! Facts that a server's certificates state, for figures and for the log.

use freerun_tls::load::CertifiedKey;

use super::handshake::figures::kind_of_key;

/// Facts that a certificate states, for figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file that it is in, or the name of a pair that no file has.
    pub file: String,
    /// Whose it is.
    pub subject: String,
    /// The DNS names and IP addresses that it is for.
    pub names: Vec<String>,
    /// The kind of its key: one of [`KEYS`](super::handshake::figures::KEYS), or `other`.
    pub key: &'static str,
    /// The CA that has signed the certificate.
    pub issuer: String,
    /// End of its validity, in seconds since 1970.
    pub expires: i64,
    /// The same as OpenSSL prints it.
    pub expires_text: String,
}

impl CertificateFacts {
    /// Reads the first certificate of a chain; `file` is where it comes from. `None` if it cannot be read.
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
