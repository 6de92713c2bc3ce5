//! Which of its certificates a server shows.

use super::{Schemes, ShownCertificate, step};
use crate::load::{CertifiedKey, KeyKind};
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::{CipherSuite, NamedGroup, SignatureScheme, SupportedCipherSuite};
use std::sync::Arc;

/// The certificates without those that a later one with a key of the same type replaces, as OpenSSL has room for one of
/// each type.
pub(super) fn last_of_each_type(keys: Vec<CertifiedKey>) -> Vec<CertifiedKey> {
    let is_same = |one: &CertifiedKey, other: &CertifiedKey| type_of(one.kind()) == type_of(other.kind());
    let is_last = |index: usize| !keys[index + 1..].iter().any(|later| is_same(later, &keys[index]));
    keys.iter().enumerate().filter(|(index, _)| is_last(*index)).map(|(_, key)| key.clone()).collect()
}

/// A number for the type of a key.
fn type_of(kind: KeyKind) -> u8 {
    match kind {
        KeyKind::Rsa(_) => 0,
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => 1,
        KeyKind::Ed25519 => 2,
        KeyKind::Other => 3,
    }
}

/// The certificates of a server, and the suites that decide between them.
#[derive(Debug)]
pub(super) struct Certificates {
    keys: Vec<CertifiedKey>,
    /// The schemes that the keys sign by.
    schemes: Schemes,
    /// The suites in the order of preference, as all servers with equal settings share them.
    provider: Arc<CryptoProvider>,
    /// Whether the server's order of suites counts, not the client's.
    server_order: bool,
}

impl Certificates {
    /// The provider has the suites of the versions that are enabled.
    pub(super) fn new(
        keys: Vec<CertifiedKey>,
        schemes: Schemes,
        provider: Arc<CryptoProvider>,
        server_order: bool,
    ) -> Self {
        Self { keys, schemes, provider, server_order }
    }

    /// The suites of TLS 1.2 in the order of preference, with the schemes that their certificates sign by.
    fn tls12(&self) -> impl Iterator<Item = (CipherSuite, &'static [SignatureScheme])> {
        self.provider.cipher_suites.iter().filter_map(|suite| match suite {
            SupportedCipherSuite::Tls12(tls12) => Some((suite.suite(), tls12.sign)),
            SupportedCipherSuite::Tls13(_) => None,
        })
    }

    fn signs(&self, key: &CertifiedKey, scheme: SignatureScheme) -> bool {
        self.schemes.allow(scheme) && key.signs(scheme)
    }

    /// In TLS 1.3 the client's signature schemes say which certificates it can use, and their order.
    fn for_tls13(&self, hello: &ClientHello<'_>) -> Option<&CertifiedKey> {
        hello.signature_schemes().iter().find_map(|scheme| self.keys.iter().find(|key| self.signs(key, *scheme)))
    }

    /// In TLS 1.2 a suite says what kind of certificate belongs to it, so the first suite that both sides have decides.
    fn for_tls12(&self, hello: &ClientHello<'_>) -> Option<&CertifiedKey> {
        let offered = hello.cipher_suites();
        let of_suite = |schemes: &[SignatureScheme]| {
            let common = || hello.signature_schemes().iter().filter(|scheme| schemes.contains(scheme));
            self.keys
                .iter()
                .find(|key| knows_curve(hello, key.kind()) && common().any(|scheme| self.signs(key, *scheme)))
        };
        if self.server_order {
            let mut common = self.tls12().filter(|(suite, _)| offered.contains(suite));
            return common.find_map(|(_, schemes)| of_suite(schemes));
        }
        let known = |suite: &CipherSuite| self.tls12().find(|(own, _)| own == suite);
        offered.iter().filter_map(known).find_map(|(_, schemes)| of_suite(schemes))
    }
}

impl ResolvesServerCert for Certificates {
    /// A client that can use none of the certificates gets the first one, with which the handshake fails.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        step::asked_for(hello.server_name());
        // The versions that the client offers are not told here, but nobody offers suites of TLS 1.3 without that version.
        let tls13 = self.provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some());
        let is_tls13 = tls13.map(SupportedCipherSuite::suite).any(|suite| hello.cipher_suites().contains(&suite));
        let fits = if is_tls13 { self.for_tls13(&hello) } else { self.for_tls12(&hello) };
        if fits.is_none() {
            step::has_no_certificate();
        }
        let key = fits.or(self.keys.first())?;
        step::shows(ShownCertificate { key: key.kind(), signature: key.signature_algorithm() });
        Some(self.schemes.restrict(key.shared()))
    }
}

/// Whether the client can use a certificate's curve. In TLS 1.2 its groups are also the curves of certificates that it takes.
fn knows_curve(hello: &ClientHello<'_>, kind: KeyKind) -> bool {
    let curve = match kind {
        KeyKind::P256 => NamedGroup::secp256r1,
        KeyKind::P384 => NamedGroup::secp384r1,
        KeyKind::P521 => NamedGroup::secp521r1,
        KeyKind::Rsa(_) | KeyKind::Ed25519 | KeyKind::Other => return true,
    };
    hello.named_groups().is_none_or(|groups| groups.contains(&curve))
}
