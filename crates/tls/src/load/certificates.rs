//! Chains of certificates.

use super::{KeyKind, LoadError, Problem};
use freerun_sys::x509::{self, Certificate};

/// The largest PEM text that is read as a chain or a key.
pub const MAX_PEM: usize = 1 << 20;

/// The most bytes of a peer's certificates together.
pub const MAX_PEER_CHAIN: usize = 64 << 10;

/// The certificates that a configuration names, the server's own first.
#[derive(Debug)]
pub struct Chain(x509::Chain);

impl Chain {
    /// Reads a chain: `CERTIFICATE` blocks. The first may be a `TRUSTED CERTIFICATE`.
    pub fn from_pem(pem: &[u8]) -> Result<Self, LoadError> {
        if pem.len() > MAX_PEM {
            return Err(LoadError::Certificate(Problem::TooLarge));
        }
        match Certificate::chain_from_pem(pem) {
            Ok(chain) => Ok(Self(chain)),
            Err(error) if error.read == 0 => Err(LoadError::Certificate(Problem::of(&error.errors))),
            Err(error) => Err(LoadError::FurtherCertificate(Problem::of(&error.errors))),
        }
    }

    /// The certificates in DER.
    pub fn to_der(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(Certificate::to_der).collect()
    }

    /// The kind of key that the server's own certificate is for.
    pub fn key_kind(&self) -> KeyKind {
        self.0.first().map_or(KeyKind::Other, Certificate::key_kind)
    }

    pub(super) fn own(&self) -> Option<&Certificate> {
        self.0.first()
    }
}

/// The DNS names and IP addresses among the alternative names of a certificate's subject.
pub(crate) fn names(certificate: &Certificate) -> Vec<String> {
    let dns = certificate.dns_names().into_iter().filter_map(|name| String::from_utf8(name.to_vec()).ok());
    let addresses = certificate.ip_addresses().into_iter().map(|address| address.to_string());
    dns.chain(addresses).collect()
}

/// Reads the certificates that a peer has sent. None are given if one cannot be read or they are too large together.
pub fn peer_chain<'a>(der: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<Certificate>> {
    let mut room = MAX_PEER_CHAIN;
    der.into_iter()
        .map(|der| {
            room = room.checked_sub(der.len())?;
            Certificate::from_der(der)
        })
        .collect()
}
