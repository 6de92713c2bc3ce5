//! Faults of a file of trusted certificates or revocation lists, in nginx's words.

use crate::load::{Problem, unopened};
use std::io;

/// Which directive a text is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustSource {
    /// `ssl_client_certificate`, `ssl_trusted_certificate` or the like for upstreams: certificates that are trusted.
    Certificates,
    /// `ssl_client_certificate`, read once more for the names that are sent to clients.
    Names,
    /// `ssl_crl` or the like for upstreams: revocation lists.
    Lists,
}

/// Reason for which a text cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustError {
    /// There is neither a certificate nor a list in it.
    Nothing(TrustSource),
    /// Something in it cannot be read.
    Unreadable(TrustSource, Problem),
}

/// OpenSSL's addition to a mistake in PEM.
const PEM_LIB: &str = "error:05880009:x509 certificate routines::PEM lib";

impl TrustSource {
    fn call(self) -> &'static str {
        match self {
            Self::Certificates => "SSL_CTX_load_verify_locations",
            Self::Names => "SSL_load_client_CA_file",
            Self::Lists => "X509_LOOKUP_load_file",
        }
    }

    /// The line that nginx logs when a file cannot be opened.
    pub fn unopened(self, file: &str, error: &io::Error) -> String {
        let said = unopened(file, error);
        format!("{}(\"{file}\") failed (SSL: {said} error:05880002:x509 certificate routines::system lib)", self.call())
    }
}

impl TrustError {
    /// The line that nginx logs, without its level and without what configuration it is about. `file` is the full path.
    pub fn words(&self, file: &str) -> String {
        match self {
            Self::Nothing(TrustSource::Names) => {
                let said = "error:0480006C:PEM routines::no start line:Expecting: CERTIFICATE";
                format!("{}(\"{file}\") failed (SSL: {said})", TrustSource::Names.call())
            }
            Self::Nothing(source) => {
                let said = "error:05800088:x509 certificate routines::no certificate or crl found";
                format!("{}(\"{file}\") failed (SSL: {said})", source.call())
            }
            Self::Unreadable(source, problem) => {
                format!("{}(\"{file}\") failed (SSL: {} {PEM_LIB})", source.call(), problem.openssl(""))
            }
        }
    }
}
