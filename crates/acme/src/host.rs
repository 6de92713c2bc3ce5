//! Interface that the client needs of its server: a log, names, HTTP, answers to challenges, a place for certificates.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use freerun_serve::http_client::RemoteClient;
use zeroize::Zeroizing;

use crate::identifier::Identifier;
use crate::resolve::{Addresses, resolve_by_system};
use crate::settings::CertificateSettings;

/// Importance of a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Progress, step by step.
    Debug,
    /// A certificate was issued, or an account made.
    Info,
    /// Something is unusual but needs nobody.
    Notice,
    /// An attempt failed and will be repeated.
    Warn,
    /// Somebody has to act.
    Error,
}

/// The server that the client runs in. All of its methods are called by the client's own thread.
pub trait Host: Send + Sync + 'static {
    /// Takes a line for the error log.
    fn log(&self, level: Level, line: &str);

    /// Looks up the addresses of a host name: of the CA's server. Without an own method the system is asked, by a thread
    /// for each question; an answer that takes too long is no longer waited for.
    fn resolve(&self, host: &str) -> Addresses {
        resolve_by_system(host)
    }

    /// The HTTP client that sends requests to the CA, on a loop of the server. `None`: there are no loops.
    fn http_client(&self) -> Option<RemoteClient>;

    /// The present time. Tests have another one.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Makes an answer to a challenge known. The CA asks as soon as this returns, so from then on every thread that
    /// answers requests must know it.
    ///
    /// # Errors
    ///
    /// Why it cannot be answered, in words for the log. The CA is not asked to look then, and nothing is withdrawn.
    fn publish(&self, challenge: &Challenge) -> Result<(), String>;

    /// Takes back what [`publish`](Host::publish) was called with.
    fn withdraw(&self, challenge: &Challenge);

    /// Takes a certificate that was issued, or that replaces the one before, or that an earlier run has left on disk.
    fn issued(&self, certificate: &CertificateSettings, pair: &Pair);

    /// The certificate that the server uses, if it has come. The client asks for it where a reload has changed
    /// something about the issuer and there is nothing on disk. Without an own method the certificate is ordered anew
    /// then.
    fn held(&self, _certificate: &CertificateSettings) -> Option<Pair> {
        None
    }
}

/// An answer to a challenge of the CA.
#[derive(Clone, PartialEq, Eq)]
pub enum Challenge {
    /// The answer with status 200 to `GET /.well-known/acme-challenge/<token>` (RFC 8555, section 8.3).
    Http01 {
        /// The last part of the path: letters, digits, `-` and `_`.
        token: String,
        /// The body of the response.
        key_authorization: String,
    },
    /// The certificate that a client gets which asks for the protocol `acme-tls/1` and nothing else (RFC 8737).
    TlsAlpn01 {
        /// The identifier that the CA asks for by SNI; for an address it is
        /// [`tls_alpn_name`](Challenge::tls_alpn_name).
        identifier: Identifier,
        /// The certificate as DER.
        certificate: Vec<u8>,
        /// Its private key: PKCS #8 as DER.
        key: Zeroizing<Vec<u8>>,
    },
}

impl Challenge {
    /// The name that the CA sends by SNI when it looks at a challenge of tls-alpn-01. It is the host name, or for an
    /// address the name below `in-addr.arpa` or `ip6.arpa` (RFC 8738, section 6).
    #[must_use]
    pub fn tls_alpn_name(identifier: &Identifier) -> String {
        match identifier {
            Identifier::Dns(name) => name.clone(),
            Identifier::Ip(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Identifier::Ip(IpAddr::V6(address)) => {
                let mut name = String::with_capacity(72);
                for byte in address.octets().iter().rev() {
                    name.push_str(&format!("{:x}.{:x}.", byte & 15, byte >> 4));
                }
                name + "ip6.arpa"
            }
        }
    }
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Challenge::Http01 { token, .. } => f.debug_struct("Http01").field("token", token).finish_non_exhaustive(),
            Challenge::TlsAlpn01 { identifier, .. } => {
                f.debug_struct("TlsAlpn01").field("identifier", identifier).finish_non_exhaustive()
            }
        }
    }
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate and those that issued it, as PEM, in the CA's order.
    pub chain: String,
    /// The private key: PKCS #8 as PEM.
    pub key: Zeroizing<String>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("chain", &self.chain).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_names_for_sni() {
        let name = |text: &str| Challenge::tls_alpn_name(&Identifier::parse(text).expect("an identifier"));
        assert_eq!(name("example.com"), "example.com");
        // The examples of RFC 8738, section 6.
        assert_eq!(name("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        let six = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        assert_eq!(name("2001:db8::1"), six);
    }
}
