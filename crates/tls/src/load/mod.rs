//! Certificate chains and private keys of a configuration as PEM texts, and their forms that serve clients.
//!
//! Files are read by others. Reading an encrypted key takes milliseconds to seconds, so nothing here is for a loop.

mod certificates;
mod certified_key;
mod cost;
mod dhparam;
mod error;
mod keys;

pub(crate) use certificates::names;
pub use certificates::{Chain, MAX_PEER_CHAIN, MAX_PEM, peer_chain};
pub use certified_key::CertifiedKey;
pub use dhparam::{DhparamError, check_dhparam};
pub use error::{LoadError, Problem, unopened};
pub use freerun_sys::x509::{KeyKind, Mismatch, SignatureAlgorithm};
pub use keys::{CertificateKey, passwords};

/// The PEM text of a value `data:…`, which stands in the configuration itself instead of a file's name.
pub fn inline(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"data:")
}

#[cfg(test)]
mod tests;
