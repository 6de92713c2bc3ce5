//! Rules for verifying a chain, and the error of a verification.

use super::words::verify_words;

/// Use of the peer's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificatePurpose {
    /// The peer is a client of TLS.
    Client,
    /// The peer is a server of TLS.
    Server,
}

/// Rules for verifying a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRules {
    /// The use of the certificate.
    pub purpose: CertificatePurpose,
    /// The most certificates between the peer's own and the trusted one at the end.
    pub depth: u32,
    /// Whether there has to be a revocation list for each certificate of the chain.
    pub lists: bool,
    /// OpenSSL's security level, 0 to 5, which says how weak keys and hashes may be.
    pub level: u8,
    /// The present time, in seconds since 1970.
    pub now: i64,
}

/// Reason for which a chain is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyError {
    /// OpenSSL's number for it.
    pub code: i32,
    /// Which certificate of the chain it is about; 0 is the peer's own.
    pub depth: u32,
}

impl VerifyError {
    /// OpenSSL's words for it.
    pub fn text(&self) -> &'static str {
        verify_words(self.code)
    }
}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(self.text())
    }
}

impl std::error::Error for VerifyError {}
