//! Names of what was agreed on, in OpenSSL's words.

use crate::openssl::protocols::SslProtocol;
use freerun_proto::tls::names;
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    /// Both versions.
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// Its name in OpenSSL, which `$ssl_protocol` has.
    pub fn name(self) -> &'static str {
        self.openssl().name()
    }

    /// The version as configurations name it.
    pub(super) fn openssl(self) -> SslProtocol {
        match self {
            Self::Tls12 => SslProtocol::Tls12,
            Self::Tls13 => SslProtocol::Tls13,
        }
    }

    pub(super) fn protocol(self) -> ProtocolVersion {
        match self {
            Self::Tls12 => ProtocolVersion::TLSv1_2,
            Self::Tls13 => ProtocolVersion::TLSv1_3,
        }
    }
}

/// The name of a cipher suite in OpenSSL, which `$ssl_cipher` has.
pub(super) fn suite(suite: CipherSuite) -> &'static str {
    names::cipher(u16::from(suite)).unwrap_or_default()
}

/// The name of a group in OpenSSL, which `$ssl_curve` has.
pub(super) fn group(group: NamedGroup) -> &'static str {
    names::group(u16::from(group)).unwrap_or_default()
}
