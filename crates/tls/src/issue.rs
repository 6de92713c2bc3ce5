//! Certificates made here: a temporary one until the real one has come, and certificates of a local authority, which
//! somebody trusts on his own machine.
//!
//! All keys are EC P-256. Times are in seconds since 1970. Keeping anything in files is the caller's matter.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::load::{CertificateKey, CertifiedKey, Chain, LoadError};
use crate::verify::{CertificatePurpose, DEFAULT_LEVEL, PeerCertificate, TrustBuilder, VerifyResult, VerifyRules};
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// For how long before it is made a certificate is valid already, as clocks differ: an hour.
const BEFORE: i64 = 3600;

/// Lifetime of a local authority: ten years.
pub const AUTHORITY_LIFE: i64 = 10 * 365 * 24 * 3600;

/// Domains of machines that are nobody's but their owner's: no public authority signs for a name in them. They are
/// reserved by RFC 6761, RFC 6762 and RFC 8375, and `internal` is reserved for private use.
const LOCAL_DOMAINS: [&str; 5] = ["localhost", "local", "test", "internal", "home.arpa"];

/// Networks of one machine, of one link and of one house, and the number of bits of an address that belong to each. RFC
/// 1122, RFC 1918, RFC 3927, RFC 4193 and RFC 4291 define them.
const LOCAL_NETWORKS: [(IpAddr, u8); 8] = [
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
];

/// The longest common name in bytes (RFC 5280, appendix A.1).
const MAX_COMMON_NAME: usize = 64;

/// Reason for which a certificate cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The library refuses it, for example because a name is not ASCII.
    #[error("a certificate cannot be made: {0}")]
    Refused(#[from] rcgen::Error),
    /// The certificate of an authority cannot be read, or it was not made here.
    #[error("the certificate of the authority cannot be used")]
    Authority,
    /// The time is none that a certificate can have.
    #[error("the clock is wrong")]
    Clock,
    /// The new certificate cannot be loaded.
    #[error("a certificate that was made cannot be loaded: {0:?}")]
    Load(LoadError),
}

/// A certificate, with what else belongs into its chain, and its key, in PEM.
#[derive(Clone)]
pub struct IssuedCertificate {
    /// The chain without the authority's own certificate.
    pub chain: String,
    /// The key, which is overwritten when it is dropped.
    pub key: Zeroizing<String>,
    /// The moment at which it expires.
    pub expires: i64,
}

impl std::fmt::Debug for IssuedCertificate {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Issued(until {})", self.expires)
    }
}

impl IssuedCertificate {
    /// The certificate with its key, ready to serve clients.
    ///
    /// # Errors
    /// It cannot be loaded, which does not happen with what was made here.
    pub fn certified(&self) -> Result<CertifiedKey, IssueError> {
        let none: &[&[u8]] = &[];
        let chain = Chain::from_pem(self.chain.as_bytes()).map_err(IssueError::Load)?;
        let key = CertificateKey::from_pem(self.key.as_bytes(), none).map_err(IssueError::Load)?;
        CertifiedKey::new(&chain, &key).map_err(IssueError::Load)
    }
}

/// A certificate for these DNS names and IP addresses that is signed by itself, for a client that has nothing better to
/// verify until a real one is there. It is valid for `life` seconds from `now` on.
///
/// # Errors
/// A name is not ASCII.
pub fn temporary(names: &[String], now: i64, life: i64) -> Result<IssuedCertificate, IssueError> {
    let (params, expires) = for_server(names, "freerun temporary certificate", now, life)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = params.self_signed(&key)?;
    Ok(IssuedCertificate { chain: certificate.pem(), key: key.serialize_pem().into(), expires })
}

/// A local authority: it signs certificates for those who have been told to trust it.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    expires: i64,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "Authority(until {})", self.expires)
    }
}

impl Authority {
    /// A new authority of this common name; only letters, digits, spaces, dots and hyphens of the name are kept. It is
    /// valid for [`AUTHORITY_LIFE`], for names and addresses of local machines and for these (RFC 5280 section
    /// 4.2.1.10). A user that trusts it need not fear that a thief of its key stands in for another site.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn new(common_name: &str, names: &[String], now: i64) -> Result<Authority, IssueError> {
        let plain = |kept: &char| kept.is_ascii_alphanumeric() || " .-".contains(*kept);
        let name: String = common_name.chars().filter(plain).take(MAX_COMMON_NAME).collect();
        let mut params = authority(name.trim())?;
        params.name_constraints = Some(local_and(names));
        let expires = between(&mut params, now, AUTHORITY_LIFE)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key), expires })
    }

    /// The authority that was made earlier, from its certificate and its key in PEM.
    ///
    /// # Errors
    /// One of them cannot be read, or they do not belong together.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Authority, IssueError> {
        let none: &[&[u8]] = &[];
        let chain = Chain::from_pem(certificate.as_bytes()).map_err(IssueError::Load)?;
        let loaded = CertificateKey::from_pem(key.as_bytes(), none).map_err(IssueError::Load)?;
        CertifiedKey::new(&chain, &loaded).map_err(IssueError::Load)?;
        let own = chain.to_der().into_iter().next().and_then(|der| PeerCertificate::from_der(&der));
        let own = own.ok_or(IssueError::Authority)?;
        // A name that was made here has one part, in which nothing is written in another way.
        let subject = own.subject();
        let name = subject.strip_prefix("CN=").filter(|name| !name.contains(['\\', ',', '+']));
        let params = authority(name.ok_or(IssueError::Authority)?)?;
        let expires = own.end().ok_or(IssueError::Authority)?;
        let certificate = own.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, KeyPair::from_pem(key)?), expires })
    }

    /// The certificate in PEM, which clients have to trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key in PEM, which nobody else must have.
    pub fn key(&self) -> Zeroizing<String> {
        self.issuer.key().serialize_pem().into()
    }

    /// The moment at which it expires.
    pub fn expires(&self) -> i64 {
        self.expires
    }

    /// Whether clients believe a certificate of the authority for this DNS name or IP address.
    pub fn may_sign_for(&self, name: &str, now: i64) -> bool {
        let mut trust = TrustBuilder::default();
        let Ok(issued) = self.issue(&[name.to_owned()], now, BEFORE) else { return false };
        let Ok(chain) = Chain::from_pem(issued.chain.as_bytes()) else { return false };
        let rules = VerifyRules { purpose: CertificatePurpose::Server, depth: 1, level: DEFAULT_LEVEL, now };
        trust.add_trusted_certificates(self.certificate.as_bytes()).is_ok()
            && trust.build().verify(chain.to_der().iter().map(Vec::as_slice), &rules) == VerifyResult::Success
    }

    /// A certificate for these DNS names and IP addresses, with a key of its own. It is valid for `life` seconds from `now`
    /// on, but not longer than the authority.
    ///
    /// # Errors
    /// A name is not ASCII.
    pub fn issue(&self, names: &[String], now: i64, life: i64) -> Result<IssuedCertificate, IssueError> {
        let life = life.min(self.expires.saturating_sub(now));
        // Some clients take a common name that looks like a domain for one, and an address looks like that.
        let common_name = names.iter().find(|name| name.parse::<IpAddr>().is_err()).map_or("freerun", String::as_str);
        let (mut params, expires) = for_server(names, common_name, now, life)?;
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(IssuedCertificate { chain: certificate.pem(), key: key.serialize_pem().into(), expires })
    }
}

/// Contents of an authority's certificate.
fn authority(common_name: &str) -> Result<CertificateParams, IssueError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = called(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// The names of local machines and these.
fn local_and(names: &[String]) -> NameConstraints {
    let domains = LOCAL_DOMAINS.iter().map(|domain| GeneralSubtree::DnsName((*domain).to_owned()));
    let network =
        |&(address, bits): &(IpAddr, u8)| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits));
    let own = names.iter().filter(|name| name.is_ascii()).map(|name| match name.parse::<IpAddr>() {
        Ok(address) => network(&(address, if address.is_ipv4() { 32 } else { 128 })),
        Err(_) => GeneralSubtree::DnsName(name.clone()),
    });
    let permitted_subtrees = domains.chain(LOCAL_NETWORKS.iter().map(network)).chain(own).collect();
    NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() }
}

/// Contents of a server's certificate, and the moment at which it expires.
fn for_server(
    names: &[String],
    common_name: &str,
    now: i64,
    life: i64,
) -> Result<(CertificateParams, i64), IssueError> {
    let mut params = CertificateParams::new(names)?;
    let end = common_name.char_indices().map(|(at, _)| at).take_while(|at| *at < MAX_COMMON_NAME).last();
    params.distinguished_name =
        called(if common_name.len() > MAX_COMMON_NAME { &common_name[..end.unwrap_or(0)] } else { common_name });
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let expires = between(&mut params, now, life)?;
    Ok((params, expires))
}

fn called(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Has a certificate be valid for so long, and says when it expires.
fn between(params: &mut CertificateParams, now: i64, life: i64) -> Result<i64, IssueError> {
    let expires = now.saturating_add(life);
    let at = |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| IssueError::Clock);
    params.not_before = at(now.saturating_sub(BEFORE))?;
    params.not_after = at(expires)?;
    Ok(expires)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;
    const DAY: i64 = 24 * 3600;

    fn names() -> Vec<String> {
        ["localhost", "127.0.0.1", "::1", "my-host"].map(str::to_owned).into()
    }

    fn own(issued: &IssuedCertificate) -> PeerCertificate {
        let der = Chain::from_pem(issued.chain.as_bytes()).expect("a chain").to_der();
        PeerCertificate::from_der(&der[0]).expect("a certificate")
    }

    /// What comes of verifying a certificate by one that is trusted.
    fn verified(issued: &IssuedCertificate, trusted: &str, now: i64) -> VerifyResult {
        let mut trust = TrustBuilder::default();
        trust.add_trusted_certificates(trusted.as_bytes()).expect("a certificate");
        let rules = VerifyRules { purpose: CertificatePurpose::Server, depth: 1, level: DEFAULT_LEVEL, now };
        let der = Chain::from_pem(issued.chain.as_bytes()).expect("a chain").to_der();
        trust.build().verify(der.iter().map(Vec::as_slice), &rules)
    }

    #[test]
    fn a_temporary_certificate_serves_its_names_for_a_short_time() {
        let issued = temporary(&names(), NOW, DAY).expect("a certificate");
        issued.certified().expect("it can be used");
        let own = own(&issued);
        assert_eq!(own.names(), ["localhost", "my-host", "127.0.0.1", "::1"]);
        assert_eq!((own.end(), issued.expires), (Some(NOW + DAY), NOW + DAY));
        assert_eq!(own.subject(), own.issuer());
        assert!(temporary(&["ä".to_owned()], NOW, DAY).is_err());
        assert!(matches!(temporary(&[], i64::MAX, DAY), Err(IssueError::Clock)));
    }

    #[test]
    fn an_authority_signs_what_verifies_by_it_before_and_after_it_was_kept() {
        let authority = Authority::new("freerun on, \"my\" host_", &names(), NOW).expect("an authority");
        let kept = Authority::from_pem(authority.certificate(), &authority.key()).expect("the same one");
        assert_eq!((kept.certificate(), kept.expires()), (authority.certificate(), NOW + AUTHORITY_LIFE));
        let other = Authority::new("freerun on my host", &names(), NOW).expect("an authority");
        for from in [&authority, &kept] {
            let issued = from.issue(&names(), NOW, 7 * DAY).expect("a certificate");
            issued.certified().expect("it can be used");
            assert_eq!(own(&issued).issuer(), "CN=freerun on my host");
            assert_eq!(verified(&issued, authority.certificate(), NOW), VerifyResult::Success);
            assert_ne!(verified(&issued, authority.certificate(), NOW + 8 * DAY), VerifyResult::Success);
            assert_ne!(verified(&issued, other.certificate(), NOW), VerifyResult::Success);
        }
        let last = kept.issue(&names(), NOW + AUTHORITY_LIFE - DAY, 7 * DAY).expect("a certificate");
        assert_eq!(last.expires, kept.expires(), "not longer than its issuer");
    }

    #[test]
    fn an_authority_signs_for_local_names_and_those_it_was_made_for() {
        let authority = Authority::new("a", &["box".to_owned(), "203.0.113.7".to_owned()], NOW).expect("an authority");
        let may = [
            "localhost",
            "a.localhost",
            "box",
            "nas.local",
            "a.test",
            "127.0.0.9",
            "192.168.7.7",
            "::1",
            "203.0.113.7",
        ];
        for name in may {
            assert!(authority.may_sign_for(name, NOW), "{name}");
        }
        for name in ["example.com", "xbox", "local.example", "203.0.113.8", "2001:db8::1", "8.8.8.8"] {
            assert!(!authority.may_sign_for(name, NOW), "{name}");
        }
    }

    #[test]
    fn what_is_no_authority_is_refused() {
        let (one, other) =
            (Authority::new("a", &[], NOW).expect("one"), Authority::new("a", &[], NOW).expect("another"));
        assert!(Authority::from_pem(one.certificate(), &other.key()).is_err());
        assert!(Authority::from_pem("", &one.key()).is_err() && Authority::from_pem(one.certificate(), "").is_err());
    }
}
