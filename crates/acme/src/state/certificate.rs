//! The text of a certificate's file.
//!
//! It is PEM that other programs read too, the key first and then the chain, below a few lines that say what it is:
//!
//! ```text
//! freerun-acme 1
//! uri https://acme.example/directory
//! identifiers www.example.com example.com
//! key ecdsa:256
//! sha256 <of all that follows this line>
//! -----BEGIN PRIVATE KEY-----
//! ```

use freerun_tls::digest::sha256;
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain};
use zeroize::Zeroizing;

use crate::host::Pair;
use crate::identifier::Identifier;
use crate::settings::CertificateSettings;

/// The largest file that is read, in bytes.
pub(crate) const MAX_FILE: usize = 256 << 10;

/// The first line.
const MAGIC: &str = "freerun-acme 1";
const END_OF_KEY: &str = "-----END PRIVATE KEY-----\n";

/// A certificate's file in the folder of [`IssuerSettings::state_path`](crate::IssuerSettings::state_path), in parts.
/// Nothing says yet that the certificate fits its key: see [`check`](CertificateFile::check).
#[derive(Debug, PartialEq, Eq)]
pub struct CertificateFile {
    /// The URL of the CA's directory.
    pub uri: String,
    /// Subjects of the certificate, with a space between two.
    pub identifiers: String,
    /// The kind of the private key, as [`KeyKind::name`](crate::KeyKind::name) gives it.
    pub key_kind: String,
    /// The certificate and its key.
    pub pair: Pair,
}

/// Reason for which a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file is too long.
    #[error("the file is too large")]
    TooLarge,
    /// A line is missing, or is not what it should be.
    #[error("the file is not one of this program, or of another version")]
    Malformed,
    /// The contents are not what was written.
    #[error("the file is damaged")]
    Digest,
    /// The file is about another certificate.
    #[error("the file is about another certificate")]
    Other,
    /// The certificate cannot be used with the key.
    #[error("the certificate and its key cannot be used together")]
    Mismatch,
    /// The certificate is for other names.
    #[error("the certificate is not for all of the names and addresses that it was ordered for")]
    Names,
}

impl CertificateFile {
    /// The file of a certificate.
    pub(crate) fn new(uri: &str, certificate: &CertificateSettings, pair: Pair) -> CertificateFile {
        let identifiers: Vec<_> = certificate.identifiers.iter().map(ToString::to_string).collect();
        let key_kind = certificate.key.name().to_owned();
        CertificateFile { uri: uri.to_owned(), identifiers: identifiers.join(" "), key_kind, pair }
    }

    /// Whether the file is about the same certificate as another.
    pub(crate) fn is_about(&self, uri: &str, certificate: &CertificateSettings) -> bool {
        let identifiers = certificate.identifiers.iter().map(ToString::to_string);
        self.uri == uri && self.key_kind == certificate.key.name() && self.identifiers.split(' ').eq(identifiers)
    }

    /// The text of the file. It holds a private key, and is overwritten when it is dropped.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let CertificateFile { uri, identifiers, key_kind, pair } = self;
        let digest = digest(&pair.key, &pair.chain);
        Zeroizing::new(format!(
            "{MAGIC}\nuri {uri}\nidentifiers {identifiers}\nkey {key_kind}\nsha256 {digest}\n{}{}",
            *pair.key, pair.chain
        ))
    }

    /// Reads the text of a file, of at most 256 KiB.
    ///
    /// # Errors
    ///
    /// The file was not written by [`to_text`](CertificateFile::to_text), or not all of it is there.
    pub fn parse(bytes: &[u8]) -> Result<CertificateFile, Damage> {
        if bytes.len() > MAX_FILE {
            return Err(Damage::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Damage::Malformed)?;
        let mut rest = text;
        let mut line = |word: &str| -> Result<&str, Damage> {
            let (line, after) = rest.split_once('\n').ok_or(Damage::Malformed)?;
            rest = after;
            line.strip_prefix(word).ok_or(Damage::Malformed)
        };
        if !line(MAGIC)?.is_empty() {
            return Err(Damage::Malformed);
        }
        let (uri, identifiers) = (line("uri ")?.to_owned(), line("identifiers ")?.to_owned());
        let (key_kind, written) = (line("key ")?.to_owned(), line("sha256 ")?);
        let end = rest.find(END_OF_KEY).ok_or(Damage::Malformed)? + END_OF_KEY.len();
        let (key, chain) = rest.split_at(end);
        if digest(key, chain) != written {
            return Err(Damage::Digest);
        }
        let pair = Pair { chain: chain.to_owned(), key: Zeroizing::new(key.to_owned()) };
        Ok(CertificateFile { uri, identifiers, key_kind, pair })
    }

    /// Checks that the certificate and the key can be used together by what serves clients.
    ///
    /// # Errors
    ///
    /// One of them cannot be read, or they do not belong together.
    pub fn check(&self) -> Result<(), Damage> {
        certified(&self.pair).map(drop)
    }
}

fn digest(key: &str, chain: &str) -> String {
    let all = Zeroizing::new([key, chain].concat());
    sha256(all.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks that a certificate and a key can be used together by what serves clients, and that the certificate is for all of
/// these identifiers. It may be for others too: some CAs add a name.
pub(crate) fn checked_pair(pair: &Pair, identifiers: &[Identifier]) -> Result<(), Damage> {
    let certified = certified(pair)?;
    // A wildcard is no identifier, and none is asked for.
    let named: Vec<_> = certified.names().iter().filter_map(|name| Identifier::parse(name).ok()).collect();
    let has_all = identifiers.iter().all(|identifier| named.contains(identifier));
    if has_all { Ok(()) } else { Err(Damage::Names) }
}

fn certified(pair: &Pair) -> Result<CertifiedKey, Damage> {
    let chain = Chain::from_pem(pair.chain.as_bytes()).map_err(|_| Damage::Mismatch)?;
    let key = CertificateKey::from_pem::<&[u8]>(pair.key.as_bytes(), &[]).map_err(|_| Damage::Mismatch)?;
    CertifiedKey::new(&chain, &key).map_err(|_| Damage::Mismatch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyKind;

    fn settings() -> CertificateSettings {
        let identifiers = vec![Identifier::Dns("a.example".to_owned()), Identifier::Dns("b.example".to_owned())];
        CertificateSettings { issuer: "any".to_owned(), identifiers, key: KeyKind::EcdsaP256 }
    }

    fn pair() -> Pair {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).expect("a certificate");
        Pair {
            chain: made.cert.pem().replace('\r', ""),
            key: made.signing_key.serialize_pem().replace('\r', "").into(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let file = CertificateFile::new("https://ca/dir", &settings(), pair());
        let read = CertificateFile::parse(file.to_text().as_bytes()).expect("a whole file");
        assert_eq!(read, file);
        assert!(read.is_about("https://ca/dir", &settings()));
        assert!(!read.is_about("https://cb/dir", &settings()));
        assert!(!read.is_about("https://ca/dir", &CertificateSettings { key: KeyKind::Rsa2048, ..settings() }));
        let mut fewer = settings();
        fewer.identifiers.pop();
        assert!(!read.is_about("https://ca/dir", &fewer));
        assert_eq!(read.check(), Ok(()));
    }

    #[test]
    fn a_certificate_for_other_names_is_noticed() {
        let names = ["A.example", "b.example", "192.0.2.1", "2001:db8::1"];
        let made = rcgen::generate_simple_self_signed(names.map(str::to_owned)).expect("a certificate");
        let pair = Pair { chain: made.cert.pem(), key: made.signing_key.serialize_pem().into() };
        let checked = |names: &[&str]| {
            let identifiers: Vec<_> = names.iter().map(|name| Identifier::parse(name).expect("a name")).collect();
            checked_pair(&pair, &identifiers)
        };
        assert_eq!(checked(&names), Ok(()));
        assert_eq!(checked(&["192.0.2.1", "a.example"]), Ok(()));
        for other in ["c.example", "www.a.example", "192.0.2.2", "2001:db8::2"] {
            assert_eq!(checked(&["a.example", other]), Err(Damage::Names), "{other}");
        }
    }

    #[test]
    fn a_file_that_is_not_whole_is_not_used() {
        let text = CertificateFile::new("https://ca/dir", &settings(), pair()).to_text();
        for end in 0..text.len() {
            assert!(CertificateFile::parse(&text.as_bytes()[..end]).is_err(), "{end}");
        }
        let body = text.find("-----BEGIN").expect("a key");
        for at in (body..text.len()).step_by(7) {
            let mut damaged = text.as_bytes().to_vec();
            damaged[at] ^= 1;
            assert!(CertificateFile::parse(&damaged).is_err(), "{at}");
        }
        assert_eq!(CertificateFile::parse(&vec![b'a'; MAX_FILE + 1]), Err(Damage::TooLarge));
        assert_eq!(CertificateFile::parse(text.replace("acme 1", "acme 2").as_bytes()), Err(Damage::Malformed));
    }

    #[test]
    fn a_key_of_another_certificate_is_noticed() {
        let pair = Pair { key: pair().key, ..pair() };
        assert_eq!(checked_pair(&pair, &[]), Err(Damage::Mismatch));
    }
}
