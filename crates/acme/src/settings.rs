//! Settings of a configuration: the CAs, and the certificates to order from them.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::account_key::account_key;
use crate::identifier::Identifier;

/// A CA and the account there: one `acme_issuer` block. Two that are equal share their account and its orders, so a
/// reload which leaves a block as it was disturbs nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The name for [`CertificateSettings::issuer`].
    pub name: String,
    /// The URL of the CA's directory (RFC 8555, section 7.1.1): https, or http for tests.
    pub uri: String,
    /// The key of the account.
    pub account_key: AccountKey,
    /// The way of showing control over a name.
    pub challenge: ChallengeKind,
    /// URLs where the CA reaches the account's owner, like `mailto:admin@example.com`.
    pub contacts: Vec<String>,
    /// The account elsewhere that the ACME account belongs to (RFC 8555, section 7.3.4).
    pub external_account: Option<ExternalAccount>,
    /// Of several chains that the CA offers, the one is taken whose topmost certificate was issued by this common name.
    pub preferred_chain: Option<String>,
    /// The certificate profile that orders ask for (draft-ietf-acme-profiles).
    pub profile: Option<Profile>,
    /// Trusted certificates as PEM: one of them must have issued the certificate of the CA's own server. Without them
    /// the system's are used.
    pub trusted: Option<Vec<u8>>,
    /// Whether the certificate of the CA's own server is verified.
    pub verify: bool,
    /// The folder of the account and the certificates; nothing is kept over a restart without it.
    pub state_path: Option<PathBuf>,
    /// Whether the administrator has accepted the CA's terms of service.
    pub accepts_terms: bool,
    /// Whether a CSR names its first identifier as the common name too, which old CAs want.
    pub common_name_in_csr: bool,
}

impl IssuerSettings {
    /// A CA of this name, whose directory has this URL, with the settings of a block `acme_issuer` without other
    /// directives. The account's key is made here, control is shown by pages, nothing is kept on disk, and the terms of
    /// service are not accepted.
    #[must_use]
    pub fn new(name: &str, uri: &str) -> IssuerSettings {
        IssuerSettings {
            name: name.to_owned(),
            uri: uri.to_owned(),
            account_key: AccountKey::Generate(KeyKind::default()),
            challenge: ChallengeKind::default(),
            contacts: Vec::new(),
            external_account: None,
            preferred_chain: None,
            profile: None,
            trusted: None,
            verify: true,
            state_path: None,
            accepts_terms: false,
            common_name_in_csr: false,
        }
    }

    /// Whether the client can do what the settings say. The texts are complete sentences without their subject, the
    /// directive.
    ///
    /// # Errors
    ///
    /// The name of the directive, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let uri = self.uri.parse::<http::Uri>().ok();
        if !uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some()) {
            return Err(("uri", "needs an https URL"));
        }
        match &self.account_key {
            AccountKey::Generate(KeyKind::EcdsaP256) => {}
            AccountKey::Generate(_) => return Err(("account_key", "supports no other algorithm than \"ecdsa:256\"")),
            AccountKey::Pem(pem) => {
                if account_key(pem).is_none() {
                    return Err(("account_key", "needs a private key of the curve P-256 that is not encrypted"));
                }
                if self.external_account.is_some() {
                    return Err(("external_account_key", "cannot be used with an \"account_key\" from a file"));
                }
            }
        }
        Ok(())
    }

    /// Whether both keep their accounts in the same file though these are not the same account, so that each would replace
    /// the other's key.
    #[must_use]
    pub fn replaces_account_of(&self, other: &IssuerSettings) -> bool {
        // It is what an account's file says of an account elsewhere.
        let kid = |settings: &IssuerSettings| settings.external_account.as_ref().map(|external| external.kid.clone());
        let same_file = self.state_path.is_some() && self.state_path == other.state_path && self.uri == other.uri;
        same_file && (self.account_key != other.account_key || kid(self) != kid(other))
    }
}

impl fmt::Debug for IssuerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerSettings")
            .field("name", &self.name)
            .field("uri", &self.uri)
            .field("account_key", &self.account_key)
            .field("challenge", &self.challenge)
            .field("contacts", &self.contacts)
            .field("external_account", &self.external_account)
            .field("preferred_chain", &self.preferred_chain)
            .field("profile", &self.profile)
            .field("trusted", &self.trusted.as_ref().map(Vec::len))
            .field("verify", &self.verify)
            .field("state_path", &self.state_path)
            .field("accepts_terms", &self.accepts_terms)
            .field("common_name_in_csr", &self.common_name_in_csr)
            .finish()
    }
}

/// Source of an account's key.
#[derive(Clone, PartialEq, Eq)]
pub enum AccountKey {
    /// The key is made here, and kept in [`IssuerSettings::state_path`].
    Generate(KeyKind),
    /// The administrator's own key: a private key as PEM, not encrypted.
    Pem(Zeroizing<Vec<u8>>),
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccountKey::Generate(kind) => f.debug_tuple("Generate").field(kind).finish(),
            AccountKey::Pem(_) => f.write_str("Pem(..)"),
        }
    }
}

/// The kind and length of a private key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// ECDSA with the curve P-256.
    #[default]
    EcdsaP256,
    /// ECDSA with the curve P-384.
    EcdsaP384,
    /// ECDSA with the curve P-521.
    EcdsaP521,
    /// RSA with 2048 bits.
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
}

impl KeyKind {
    /// Reads what the directives `account_key` and `acme_certificate … key=` take: `ecdsa[:256|384|521]` and
    /// `rsa[:2048|3072|4096]`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<KeyKind> {
        Some(match text {
            "ecdsa" | "ecdsa:256" => KeyKind::EcdsaP256,
            "ecdsa:384" => KeyKind::EcdsaP384,
            "ecdsa:521" => KeyKind::EcdsaP521,
            "rsa" | "rsa:2048" => KeyKind::Rsa2048,
            "rsa:3072" => KeyKind::Rsa3072,
            "rsa:4096" => KeyKind::Rsa4096,
            _ => return None,
        })
    }

    /// The name of the key in directives, with its size.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::EcdsaP256 => "ecdsa:256",
            KeyKind::EcdsaP384 => "ecdsa:384",
            KeyKind::EcdsaP521 => "ecdsa:521",
            KeyKind::Rsa2048 => "rsa:2048",
            KeyKind::Rsa3072 => "rsa:3072",
            KeyKind::Rsa4096 => "rsa:4096",
        }
    }
}

/// Way of showing control over a name to the CA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// By a page under `/.well-known/acme-challenge/` on port 80 (RFC 8555, section 8.3).
    #[default]
    Http01,
    /// By a certificate shown for the protocol `acme-tls/1` on port 443 (RFC 8737).
    TlsAlpn01,
}

/// An account elsewhere that an ACME account is bound to (RFC 8555, section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    /// The identifier of the key, as the CA gave it.
    pub kid: String,
    /// The MAC key itself: the bytes, decoded from the base64url that CAs show.
    pub key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// A certificate profile of the CA (draft-ietf-acme-profiles).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Whether an order fails where the CA does not offer it; otherwise it is ordered without a profile.
    pub required: bool,
}

/// A certificate that is wanted. It is the identity of the certificate too: over a reload and on disk, another key kind
/// or another list of names is another certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateSettings {
    /// The [`IssuerSettings::name`] of who issues it.
    pub issuer: String,
    /// Subjects of the certificate, in the order in which they were written; the first is the common name where a CSR
    /// has one.
    pub identifiers: Vec<Identifier>,
    /// The kind of its private key.
    pub key: KeyKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> IssuerSettings {
        IssuerSettings::new("ca", "https://ca.example/directory")
    }

    #[test]
    fn what_the_client_cannot_do_is_said() {
        let directive = |settings: IssuerSettings| settings.check().err().map(|(directive, _)| directive);
        assert_eq!(directive(settings()), None);
        for uri in ["", "ca.example", "ftp://ca.example/", "https://", "/directory", "https://ca example/"] {
            assert_eq!(directive(IssuerSettings { uri: uri.to_owned(), ..settings() }), Some("uri"), "{uri}");
        }
        let key = AccountKey::Generate(KeyKind::Rsa2048);
        assert_eq!(directive(IssuerSettings { account_key: key, ..settings() }), Some("account_key"));
        let key = AccountKey::Pem(b"none".to_vec().into());
        assert_eq!(directive(IssuerSettings { account_key: key, ..settings() }), Some("account_key"));
        let key = rcgen::KeyPair::generate().expect("a key").serialize_pem().into_bytes();
        let own = IssuerSettings { account_key: AccountKey::Pem(key.into()), ..settings() };
        assert_eq!(directive(own.clone()), None);
        let external = Some(ExternalAccount { kid: "k".to_owned(), key: vec![1].into() });
        assert_eq!(directive(IssuerSettings { external_account: external, ..own }), Some("external_account_key"));
    }

    #[test]
    fn two_accounts_need_two_files() {
        let settings = || IssuerSettings { state_path: Some("/state".into()), ..settings() };
        let external = |kid: &str| Some(ExternalAccount { kid: kid.to_owned(), key: vec![1].into() });
        let other = || IssuerSettings { name: "b".to_owned(), external_account: external("k"), ..settings() };
        let own = || AccountKey::Pem(b"a".to_vec().into());
        assert!(settings().replaces_account_of(&other()) && other().replaces_account_of(&settings()));
        assert!(IssuerSettings { account_key: own(), ..settings() }.replaces_account_of(&settings()));
        assert!(IssuerSettings { external_account: external("l"), ..settings() }.replaces_account_of(&other()));
        for apart in [
            IssuerSettings { uri: "https://cb.example/directory".to_owned(), ..settings() },
            IssuerSettings { state_path: Some("/other".into()), ..settings() },
            other(),
        ] {
            assert!(!apart.replaces_account_of(&other()), "{apart:?}");
        }
        let nothing_kept = |settings| IssuerSettings { state_path: None, ..settings };
        assert!(!nothing_kept(settings()).replaces_account_of(&nothing_kept(other())));
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = || Zeroizing::new(b"s3cret".to_vec());
        let settings = IssuerSettings {
            account_key: AccountKey::Pem(secret()),
            external_account: Some(ExternalAccount { kid: "k".to_owned(), key: secret() }),
            ..settings()
        };
        let shown = format!("{settings:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("115, 51"), "{shown}");
    }

    #[test]
    fn kinds_of_keys_have_names() {
        for text in ["ecdsa:256", "ecdsa:384", "ecdsa:521", "rsa:2048", "rsa:3072", "rsa:4096"] {
            assert_eq!(KeyKind::parse(text).map(KeyKind::name), Some(text));
        }
        assert_eq!(KeyKind::parse("ecdsa"), Some(KeyKind::EcdsaP256));
        assert_eq!(KeyKind::parse("rsa"), Some(KeyKind::Rsa2048));
        assert_eq!(KeyKind::parse("rsa:1024"), None);
    }
}
