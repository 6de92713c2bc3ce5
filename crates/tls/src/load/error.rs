//! Faults of a certificate or a key, in nginx's words.

use freerun_sys::x509::{Errors, Mismatch};
use std::io;

/// Reason for which a certificate or a key of a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The first certificate of a chain cannot be read.
    Certificate(Problem),
    /// A further certificate of a chain cannot be read.
    FurtherCertificate(Problem),
    /// The key cannot be read.
    Key(Problem),
    /// The key does not belong to the certificate. nginx refuses only other *values* at load; with a key of another *type*
    /// it starts, and no handshake succeeds.
    Mismatch(Mismatch),
    /// The key has fewer bits than anybody accepts (RSA with fewer than 2048).
    KeyTooSmall,
    /// Nothing here can sign with a key of this kind.
    UnsupportedKey,
}

/// Fault of a PEM text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The text is larger than anything of its kind.
    TooLarge,
    /// The text has no block of the kind.
    NoStartLine,
    /// The block's end is missing, or belongs to another block.
    BadEndLine,
    /// The block is not base64.
    BadBase64,
    /// The block is encrypted, and there is no password.
    NoPassword,
    /// The block is encrypted, and no password fits.
    BadDecrypt,
    /// The block is encrypted in a way that is not supported here.
    UnsupportedEncryption,
    /// The contents of the block do not fit its label; with the library's message.
    Malformed(String),
}

impl Problem {
    pub(crate) fn of(errors: &Errors) -> Self {
        if errors.no_start_line() {
            Self::NoStartLine
        } else if errors.bad_end_line() {
            Self::BadEndLine
        } else if errors.bad_base64() {
            Self::BadBase64
        } else if errors.bad_decrypt() {
            Self::BadDecrypt
        } else {
            Self::Malformed(errors.to_string())
        }
    }

    /// OpenSSL 3's words for it, in the form in which nginx adds them to its own line. `no_block` is OpenSSL's message
    /// when there is no block; it depends on the kind of block that was looked for.
    pub(crate) fn openssl<'a>(&'a self, no_block: &'a str) -> &'a str {
        match self {
            Self::TooLarge => "error:04800000:PEM routines::too large",
            Self::NoStartLine => no_block,
            Self::BadEndLine => "error:04800066:PEM routines::bad end line",
            Self::BadBase64 => "error:04800064:PEM routines::bad base64 decode",
            Self::NoPassword => "error:04800068:PEM routines::bad password read",
            Self::BadDecrypt => "error:1C800064:Provider routines::bad decrypt",
            Self::UnsupportedEncryption => {
                "error:0308010C:digital envelope routines::unsupported:the encryption of the key is not supported"
            }
            Self::Malformed(said) => said,
        }
    }
}

impl LoadError {
    /// The line that nginx logs, without its level and without what configuration it is about. `certificate` and `key` are
    /// the values of the directives, as full paths where they name files; of `data:` values only the beginning is shown.
    pub fn words(&self, certificate: &str, key: &str) -> String {
        let (certificate, key) = (shown(certificate), shown(key));
        match self {
            Self::Certificate(problem) => {
                let said = problem.openssl("error:0480006C:PEM routines::no start line:Expecting: TRUSTED CERTIFICATE");
                format!("cannot load certificate \"{certificate}\": PEM_read_bio_X509_AUX() failed (SSL: {said})")
            }
            Self::FurtherCertificate(problem) => {
                let said = problem.openssl("error:0480006C:PEM routines::no start line:Expecting: CERTIFICATE");
                format!("cannot load certificate \"{certificate}\": PEM_read_bio_X509() failed (SSL: {said})")
            }
            Self::Key(problem) => {
                let said = problem.openssl(
                    "error:1E08010C:DECODER routines::unsupported:No supported data to decode. Input type: PEM",
                );
                format!("cannot load certificate key \"{key}\": PEM_read_bio_PrivateKey() failed (SSL: {said})")
            }
            Self::Mismatch(mismatch) => {
                let said = match mismatch {
                    Mismatch::Values => "error:05800074:x509 certificate routines::key values mismatch",
                    Mismatch::Type => "error:05800073:x509 certificate routines::key type mismatch",
                };
                format!("SSL_CTX_use_PrivateKey(\"{key}\") failed (SSL: {said})")
            }
            Self::KeyTooSmall => {
                let said = "error:0A00018F:SSL routines::ee key too small";
                format!("SSL_CTX_use_certificate(\"{certificate}\") failed (SSL: {said})")
            }
            Self::UnsupportedKey => {
                let said = "error:0A0000F7:SSL routines::unknown certificate type";
                format!("SSL_CTX_use_certificate(\"{certificate}\") failed (SSL: {said})")
            }
        }
    }
}

/// A directive's value as it may stand in a log: a key that is written into the configuration may not.
fn shown(value: &str) -> &str {
    if value.starts_with("data:") { "data:" } else { value }
}

/// OpenSSL's message for a file that cannot be opened, as nginx has it in `(SSL: …)`.
pub fn unopened(file: &str, error: &io::Error) -> String {
    let number = 0x8000_0000 | error.raw_os_error().unwrap_or(0).unsigned_abs();
    let mut said = error.to_string();
    if let Some(end) = said.find(" (os error ") {
        said.truncate(end);
    }
    let second = match error.kind() {
        io::ErrorKind::NotFound => "error:10000080:BIO routines::no such file",
        _ => "error:10080002:BIO routines::system lib",
    };
    format!("error:{number:08X}:system library::{said}:calling fopen({file}, r) {second}")
}
