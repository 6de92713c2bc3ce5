//! Refusals of a ClientHello before the server's library sees it. OpenSSL's order is: the version, the mark of a
//! client that has fallen back, and in TLS 1.3 the cipher suites. The library looks at other parts first, and so would give
//! another reason for refusing such clients.

use super::server::ServerConfig;
use super::{FailureKind, SessionFailure, TlsVersion};
use freerun_proto::tls::{ClientHello, TLS_1_2, TLS_1_3};

/// Looks at what a client offers to a server with these settings.
///
/// # Errors
/// The client is to be refused by the alert of the failure.
pub(super) fn check(config: &ServerConfig, hello: &ClientHello, message: &[u8]) -> Result<(), SessionFailure> {
    let is_common = |version: TlsVersion| {
        let number = match version {
            TlsVersion::Tls12 => TLS_1_2,
            TlsVersion::Tls13 => TLS_1_3,
        };
        config.speaks(version) && hello.offers_version(message, number)
    };
    let Some(version) = TlsVersion::ALL.into_iter().rfind(|version| is_common(*version)) else {
        return Err(refused(FailureKind::NoSharedVersion));
    };
    let is_highest = !TlsVersion::ALL.into_iter().any(|other| other > version && config.speaks(other));
    if !is_highest && hello.is_fallback(message) {
        return Err(refused(FailureKind::InappropriateFallback));
    }
    let has_suite = || hello.cipher_suites(message).any(|suite| config.has_suite(version, suite));
    if version == TlsVersion::Tls13 && !has_suite() {
        return Err(refused(FailureKind::NoSharedCipher));
    }
    Ok(())
}

fn refused(kind: FailureKind) -> SessionFailure {
    SessionFailure { alert: kind.alert(), ..SessionFailure::new(kind, "the ClientHello is refused") }
}
