//! Cryptography of a session: the suites, groups and versions that the settings of both sides name.

use super::TlsVersion;
use super::concealment::TranscriptHash;
use super::p521::P521;
use crate::openssl::ciphers::SUITES;
use crate::openssl::ciphersuites::Ciphersuite;
use crate::openssl::groups;
use crate::openssl::protocols::Protocols;
use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, SupportedProtocolVersion, Tls12CipherSuite, Tls13CipherSuite};
use std::sync::{Arc, LazyLock, Weak};
use thiserror::Error;

/// All groups that there are.
pub(super) static GROUPS: &[&dyn SupportedKxGroup] = &[
    kx_group::X25519MLKEM768,
    kx_group::X25519,
    kx_group::SECP256R1,
    kx_group::SECP384R1,
    &P521,
    kx_group::SECP256R1MLKEM768,
    kx_group::MLKEM768,
    kx_group::MLKEM1024,
];

/// All suites that there are, with the hash function that knows what the peers have sent. There is one value of each for the life
/// of the process, as rustls wants it.
static ALL_SUITES: LazyLock<Vec<SupportedCipherSuite>> =
    LazyLock::new(|| ALL_CIPHER_SUITES.iter().map(|suite| with_transcript_hash(*suite)).collect());

fn with_transcript_hash(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: Box::leak(Box::new(TranscriptHash(common.hash_provider))),
        confidentiality_limit: common.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
            common: common(&suite.common),
            prf_provider: suite.prf_provider,
            kx: suite.kx,
            sign: suite.sign,
            aead_alg: suite.aead_alg,
        }))),
        SupportedCipherSuite::Tls13(suite) => SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common: common(&suite.common),
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: suite.quic,
        }))),
    }
}

/// The largest plaintext of a record.
pub(super) const MAX_FRAGMENT: usize = 16 << 10;

/// The smallest plaintext of a record that can be asked for.
const MIN_FRAGMENT: usize = 32;

/// The number of bytes before the plaintext of a record, as rustls counts them in its limit.
const RECORD_HEADER: usize = 5;

/// Reason for which there can be no sessions with some settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// There is no certificate.
    #[error("no certificate")]
    NoCertificate,
    /// No version is enabled for which there are suites and groups.
    #[error("no usable protocol version")]
    NoVersion,
    /// None of the suites exists here.
    #[error("no cipher match")]
    NoSuite,
    /// None of the groups exists here.
    #[error("no usable group")]
    NoGroup,
    /// The names of the authorities whose certificates clients are asked for are too long together.
    #[error("too many names of certificate authorities")]
    TooManyAuthorities,
}

/// The versions of the protocol, and what they need.
pub(super) struct Algorithms {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Algorithms {
    /// Algorithms by their IANA numbers: suites, or all if none is named, and groups, or the usual ones. Numbers that
    /// do not exist here are left out, and so are suites without their version and versions without a suite.
    pub(super) fn new(versions: &[TlsVersion], suites: &[u16], groups: &[u16]) -> Result<Self, SettingsError> {
        let mut suites = named_suites(suites);
        if suites.is_empty() {
            return Err(SettingsError::NoSuite);
        }
        let kx_groups = named_groups(groups);
        if kx_groups.is_empty() {
            return Err(SettingsError::NoGroup);
        }
        let enabled = |known: &SupportedProtocolVersion| {
            versions.iter().any(|version| version.protocol() == known.version)
                && kx_groups.iter().any(|group| group.usable_for_version(known.version))
        };
        suites.retain(|suite| enabled(suite.version()));
        let has_suite =
            |known: &&&'static SupportedProtocolVersion| suites.iter().any(|suite| suite.version() == **known);
        let versions: Vec<_> = [&TLS13, &TLS12].iter().filter(has_suite).copied().collect();
        if versions.is_empty() {
            return Err(SettingsError::NoVersion);
        }
        Ok(Self { provider: SHARED.get(suites, kx_groups), versions })
    }
}

/// The most providers that are remembered.
const MOST_SHARED: usize = 16;

/// The providers that were asked for last and are in use: thousands of servers with the same suites and groups share one.
#[derive(Default)]
struct SharedProviders(ArcSwap<Vec<Weak<CryptoProvider>>>);

/// The providers of all settings.
static SHARED: LazyLock<SharedProviders> = LazyLock::new(SharedProviders::default);

impl SharedProviders {
    /// The provider with these suites and groups.
    fn get(
        &self,
        suites: Vec<SupportedCipherSuite>,
        groups: Vec<&'static dyn SupportedKxGroup>,
    ) -> Arc<CryptoProvider> {
        let name = |group: &&dyn SupportedKxGroup| group.name();
        let is_it = |provider: &Arc<CryptoProvider>| {
            provider.cipher_suites == suites && provider.kx_groups.iter().map(name).eq(groups.iter().map(name))
        };
        if let Some(provider) = self.0.load().iter().filter_map(Weak::upgrade).find(is_it) {
            return provider;
        }
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, kx_groups: groups, ..default_provider() });
        let new = Arc::downgrade(&provider);
        // If two threads add one at the same time, both stay: that costs only memory.
        self.0.rcu(|known| {
            let used = known.iter().filter(|known| known.strong_count() > 0).take(MOST_SHARED - 1);
            std::iter::once(&new).chain(used).cloned().collect::<Vec<_>>()
        });
        provider
    }
}

/// A record's largest plaintext, within the limits of the protocol.
pub(super) fn fragment(wanted: usize) -> usize {
    wanted.clamp(MIN_FRAGMENT, MAX_FRAGMENT)
}

/// The limit that rustls is given for records with so much plaintext; none if it is the protocol's own.
pub(super) fn max_fragment_size(fragment: usize) -> Option<usize> {
    (fragment < MAX_FRAGMENT).then_some(fragment + RECORD_HEADER)
}

/// The versions that are allowed unless the settings say otherwise.
pub(super) fn usual_versions() -> Vec<TlsVersion> {
    TlsVersion::ALL.into_iter().filter(|version| Protocols::DEFAULT.has(version.openssl())).collect()
}

/// The suites with these numbers, or all of OpenSSL's in its order.
fn named_suites(named: &[u16]) -> Vec<SupportedCipherSuite> {
    let known = |number: u16| ALL_SUITES.iter().find(|suite| u16::from(suite.suite()) == number).copied();
    suites_or_all(named).into_iter().filter_map(known).collect()
}

/// The suites with these numbers, or all suites of OpenSSL in its order if there are none.
pub(super) fn suites_or_all(named: &[u16]) -> Vec<u16> {
    if !named.is_empty() {
        return named.to_vec();
    }
    Ciphersuite::DEFAULT.into_iter().map(Ciphersuite::id).chain(SUITES.iter().map(|suite| suite.id)).collect()
}

/// The groups with these numbers, or the groups of `ssl_ecdh_curve auto`.
fn named_groups(named: &[u16]) -> Vec<&'static dyn SupportedKxGroup> {
    let known = |number: u16| GROUPS.iter().find(|group| u16::from(group.name()) == number).copied();
    if named.is_empty() {
        return groups::parse(groups::AUTO).into_iter().flatten().filter_map(|group| known(group.id)).collect();
    }
    named.iter().copied().filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X25519: u16 = 29;
    const P256: u16 = 23;

    #[test]
    fn equal_settings_share_a_provider_as_long_as_it_is_in_use() {
        let shared = SharedProviders::default();
        let with = |suites: &[u16], groups: &[u16]| shared.get(named_suites(suites), named_groups(groups));
        let (aes, chacha) = (0x1301, 0x1303);
        let all = [
            with(&[aes], &[X25519, P256]),
            with(&[aes], &[P256, X25519]),
            with(&[aes, chacha], &[X25519, P256]),
            with(&[chacha, aes], &[X25519, P256]),
        ];
        for (number, one) in all.iter().enumerate() {
            let equal = shared.get(one.cipher_suites.clone(), one.kx_groups.clone());
            let same: Vec<_> = all.iter().map(|other| Arc::ptr_eq(&equal, other)).collect();
            assert!(same.iter().enumerate().all(|(other, same)| *same == (other == number)), "{number}: {same:?}");
        }
        drop(all);
        for number in 0..2 * MOST_SHARED {
            let unused = Arc::downgrade(&with(&[aes], &vec![P256; number + 1]));
            assert!(unused.upgrade().is_none(), "settings that are not used any more are not kept");
        }
        let kept: Vec<_> = (0..2 * MOST_SHARED).map(|number| with(&[aes], &vec![P256; number + 1])).collect();
        assert_eq!(shared.0.load().len(), MOST_SHARED);
        assert!(Arc::ptr_eq(kept.last().expect("one"), &with(&[aes], &vec![P256; kept.len()])));
    }
}
