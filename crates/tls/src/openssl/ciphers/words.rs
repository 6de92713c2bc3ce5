//! The words of a cipher string, and what they select.

use super::suites::{Authentication, Encryption, KeyExchange, Mac, SUITES, Since, Suite};

/// OpenSSL's grade of a suite's strength: bits. A suite has one of them, and perhaps [`FIPS`].
const NO_GRADE: u8 = 1;
/// None of the suites have this grade any more.
const LOW: u8 = 2;
/// None of the suites have this grade any more.
const MEDIUM: u8 = 4;
/// All suites that encrypt.
const HIGH: u8 = 8;
/// The suites that OpenSSL's `FIPS` names.
const FIPS: u8 = 16;

/// Which suites a word, or several words with `+` between them, select. Each number is a set of bits, and 0 means any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Selector {
    key_exchange: u32,
    authentication: u32,
    encryption: u32,
    mac: u32,
    grade: u8,
    not_default: bool,
    since: Option<Since>,
    id: Option<u16>,
}

const ANY: Selector = Selector {
    key_exchange: 0,
    authentication: 0,
    encryption: 0,
    mac: 0,
    grade: 0,
    not_default: false,
    since: None,
    id: None,
};

impl Selector {
    /// The suites that a word selects: a suite's name, OpenSSL's or IANA's, or an alias. `None`: it means nothing.
    /// IANA's names mean nothing to OpenSSL 3.0, but to later versions; a configuration with such a name wants these
    /// suites.
    pub(super) fn of(word: &str) -> Option<Selector> {
        let suite = SUITES.iter().find(|suite| suite.name == word || suite.standard_name == word);
        suite.map(Selector::of_suite).or_else(|| alias(word))
    }

    /// A suite's name selects by all of the suite's properties, because those count when another word follows after `+`.
    fn of_suite(suite: &'static Suite) -> Selector {
        Selector {
            key_exchange: kx(&[suite.key_exchange]),
            authentication: auth(&[suite.authentication]),
            encryption: enc(&[suite.encryption]),
            mac: mac(suite.mac),
            grade: grade(suite),
            not_default: suite.not_default,
            since: None,
            id: Some(suite.id),
        }
    }

    /// Narrows this to what `next` selects as well. `None` when no suite can be both. As in OpenSSL, the identity of a suite
    /// that is named counts only where it is the last word.
    pub(super) fn and(self, next: Selector) -> Option<Selector> {
        let since = match (self.since, next.since) {
            (Some(one), Some(other)) if one != other => return None,
            (one, other) => one.or(other),
        };
        // OpenSSL forgets the first word's `COMPLEMENTOFDEFAULT` when the second one is the first with a grade.
        let forgotten = self.grade == 0 && next.grade != 0;
        Some(Selector {
            key_exchange: both(self.key_exchange, next.key_exchange)?,
            authentication: both(self.authentication, next.authentication)?,
            encryption: both(self.encryption, next.encryption)?,
            mac: both(self.mac, next.mac)?,
            grade: u8::try_from(both(self.grade.into(), next.grade.into())?).ok()?,
            not_default: next.not_default || (self.not_default && !forgotten),
            since,
            id: next.id,
        })
    }

    /// Whether it selects this suite.
    pub(super) fn selects(&self, suite: &Suite) -> bool {
        let within = |set: u32, own: u32| set == 0 || set & own != 0;
        self.id.is_none_or(|id| id == suite.id)
            && within(self.key_exchange, kx(&[suite.key_exchange]))
            && within(self.authentication, auth(&[suite.authentication]))
            && within(self.encryption, enc(&[suite.encryption]))
            && within(self.mac, mac(suite.mac))
            && within(self.grade.into(), grade(suite).into())
            && (!self.not_default || suite.not_default)
            && self.since.is_none_or(|since| since == suite.since)
    }
}

/// The intersection of two sets. An empty set stands for everything.
fn both(one: u32, other: u32) -> Option<u32> {
    match (one, other) {
        (0, set) | (set, 0) => Some(set),
        (one, other) if one & other == 0 => None,
        (one, other) => Some(one & other),
    }
}

fn grade(suite: &Suite) -> u8 {
    let strength = if suite.encryption == Encryption::Null { NO_GRADE } else { HIGH };
    if suite.fips { strength | FIPS } else { strength }
}

const fn mac(mac: Mac) -> u32 {
    1 << mac as u8
}

const fn kx(set: &[KeyExchange]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < set.len() {
        bits |= 1 << set[at] as u8;
        at += 1;
    }
    bits
}

const fn auth(set: &[Authentication]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < set.len() {
        bits |= 1 << set[at] as u8;
        at += 1;
    }
    bits
}

const fn enc(set: &[Encryption]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < set.len() {
        bits |= 1 << set[at] as u8;
        at += 1;
    }
    bits
}

fn by_kx(set: &[KeyExchange]) -> Selector {
    Selector { key_exchange: kx(set), ..ANY }
}

fn by_auth(set: &[Authentication]) -> Selector {
    Selector { authentication: auth(set), ..ANY }
}

fn by_enc(set: &[Encryption]) -> Selector {
    Selector { encryption: enc(set), ..ANY }
}

/// The aliases, as `man ciphers` lists them. Those that select suites which OpenSSL 3 is built without (RC4, 3DES, GOST, …)
/// are left out: what is unknown selects nothing, too.
fn alias(word: &str) -> Option<Selector> {
    use Authentication as Auth;
    use Encryption as Enc;
    use KeyExchange as Kx;
    let null = enc(&[Enc::Null]);
    let known = auth(&[Auth::Rsa, Auth::Dss, Auth::Ecdsa, Auth::Psk, Auth::Srp]);
    Some(match word {
        "ALL" => Selector { encryption: !null, ..ANY },
        "COMPLEMENTOFALL" | "eNULL" | "NULL" => Selector { encryption: null, ..ANY },
        "COMPLEMENTOFDEFAULT" => Selector { not_default: true, ..ANY },

        "kRSA" => by_kx(&[Kx::Rsa]),
        "kDHE" | "kEDH" | "DH" => by_kx(&[Kx::Dhe]),
        "kECDHE" | "kEECDH" | "ECDH" => by_kx(&[Kx::Ecdhe]),
        "kPSK" => by_kx(&[Kx::Psk]),
        "kRSAPSK" => by_kx(&[Kx::RsaPsk]),
        "kDHEPSK" => by_kx(&[Kx::DhePsk]),
        "kECDHEPSK" => by_kx(&[Kx::EcdhePsk]),
        "kSRP" | "SRP" => by_kx(&[Kx::Srp]),
        "PSK" => by_kx(&[Kx::Psk, Kx::RsaPsk, Kx::DhePsk, Kx::EcdhePsk]),

        "aRSA" => by_auth(&[Auth::Rsa]),
        "aDSS" | "DSS" => by_auth(&[Auth::Dss]),
        "aECDSA" | "ECDSA" => by_auth(&[Auth::Ecdsa]),
        "aNULL" => by_auth(&[Auth::Anonymous]),
        "aPSK" => by_auth(&[Auth::Psk]),
        "aSRP" => by_auth(&[Auth::Srp]),

        "RSA" => Selector { authentication: auth(&[Auth::Rsa]), ..by_kx(&[Kx::Rsa]) },
        "DHE" | "EDH" => Selector { authentication: known, ..by_kx(&[Kx::Dhe]) },
        "ECDHE" | "EECDH" => Selector { authentication: known, ..by_kx(&[Kx::Ecdhe]) },
        "ADH" => Selector { authentication: auth(&[Auth::Anonymous]), ..by_kx(&[Kx::Dhe]) },
        "AECDH" => Selector { authentication: auth(&[Auth::Anonymous]), ..by_kx(&[Kx::Ecdhe]) },

        "AES128" => by_enc(&[Enc::Aes128, Enc::Aes128Gcm, Enc::Aes128Ccm, Enc::Aes128Ccm8]),
        "AES256" => by_enc(&[Enc::Aes256, Enc::Aes256Gcm, Enc::Aes256Ccm, Enc::Aes256Ccm8]),
        "AES" => by_enc(&[
            Enc::Aes128,
            Enc::Aes256,
            Enc::Aes128Gcm,
            Enc::Aes256Gcm,
            Enc::Aes128Ccm,
            Enc::Aes256Ccm,
            Enc::Aes128Ccm8,
            Enc::Aes256Ccm8,
        ]),
        "AESGCM" => by_enc(&[Enc::Aes128Gcm, Enc::Aes256Gcm]),
        "AESCCM" => by_enc(&[Enc::Aes128Ccm, Enc::Aes256Ccm, Enc::Aes128Ccm8, Enc::Aes256Ccm8]),
        "AESCCM8" => by_enc(&[Enc::Aes128Ccm8, Enc::Aes256Ccm8]),
        "CHACHA20" => by_enc(&[Enc::Chacha20]),
        "ARIA" | "ARIAGCM" => by_enc(&[Enc::Aria128Gcm, Enc::Aria256Gcm]),
        "ARIA128" => by_enc(&[Enc::Aria128Gcm]),
        "ARIA256" => by_enc(&[Enc::Aria256Gcm]),
        "CAMELLIA" => by_enc(&[Enc::Camellia128, Enc::Camellia256]),
        "CAMELLIA128" => by_enc(&[Enc::Camellia128]),
        "CAMELLIA256" => by_enc(&[Enc::Camellia256]),
        "CBC" => by_enc(&[Enc::Aes128, Enc::Aes256, Enc::Camellia128, Enc::Camellia256]),

        "MD5" => Selector { mac: mac(Mac::Md5), ..ANY },
        "SHA1" | "SHA" => Selector { mac: mac(Mac::Sha1), ..ANY },
        "SHA256" => Selector { mac: mac(Mac::Sha256), ..ANY },
        "SHA384" => Selector { mac: mac(Mac::Sha384), ..ANY },

        "SSLv3" => Selector { since: Some(Since::Ssl3), ..ANY },
        "TLSv1" | "TLSv1.0" => Selector { since: Some(Since::Tls1), ..ANY },
        "TLSv1.2" => Selector { since: Some(Since::Tls12), ..ANY },

        "LOW" => Selector { grade: LOW, ..ANY },
        "MEDIUM" => Selector { grade: MEDIUM, ..ANY },
        "HIGH" => Selector { grade: HIGH, ..ANY },
        "FIPS" => Selector { grade: FIPS, ..ANY },
        _ => return None,
    })
}
