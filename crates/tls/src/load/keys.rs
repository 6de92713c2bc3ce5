//! Private keys, and the passwords that decrypt them.

use super::{KeyKind, LoadError, MAX_PEM, Problem};
use freerun_sys::x509::PrivateKey;
use zeroize::Zeroizing;

/// A private key that a configuration names. Its memory is overwritten when it is dropped.
#[derive(Debug)]
pub struct CertificateKey(PrivateKey);

impl CertificateKey {
    /// Reads the first private key of a PEM text; if it is encrypted, with the first of the passwords that fits. There is no
    /// way to ask somebody for one.
    pub fn from_pem<P: AsRef<[u8]>>(pem: &[u8], passwords: &[P]) -> Result<Self, LoadError> {
        if pem.len() > MAX_PEM {
            return Err(LoadError::Key(Problem::TooLarge));
        }
        let mut candidates = passwords.iter().map(AsRef::as_ref);
        let mut password = candidates.next();
        loop {
            let error = match PrivateKey::from_pem(pem, password) {
                Ok(key) => return Ok(Self(key)),
                Err(error) => error,
            };
            if !error.asked {
                return Err(LoadError::Key(Problem::of(&error.errors)));
            }
            if password.is_some() && error.errors.unsupported_encryption() {
                return Err(LoadError::Key(Problem::UnsupportedEncryption));
            }
            // A wrong password may also decrypt to bytes that look padded but are no key, so every failure of an encrypted key
            // is one of its password.
            password = match (password, candidates.next()) {
                (None, _) => return Err(LoadError::Key(Problem::NoPassword)),
                (Some(_), None) => return Err(LoadError::Key(Problem::BadDecrypt)),
                (Some(_), next) => next,
            };
        }
    }

    /// The kind of key.
    pub fn kind(&self) -> KeyKind {
        self.0.kind()
    }

    /// The key in PKCS#8, in memory that is overwritten when it is dropped.
    pub(super) fn to_pkcs8(&self) -> Option<Zeroizing<Vec<u8>>> {
        self.0.to_pkcs8().map(Zeroizing::new)
    }

    pub(super) fn inner(&self) -> &PrivateKey {
        &self.0
    }
}

/// The passwords of a password file: one for each line, without the line's end (a carriage return before it included); empty
/// lines are none. They are overwritten when they are dropped; the file's text is the caller's.
pub fn passwords(file: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    file.split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(|line| Zeroizing::new(line.to_vec()))
        .collect()
}
