//! Facts that a certificate says of itself, as far as its renewal and the choice of its chain depend on them.

use std::time::{Duration, SystemTime};

use freerun_tls::digest::sha256;
use freerun_tls::load::Chain;
use instant_acme::CertificateIdentifier;
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

use crate::schedule::Validity;

/// Facts about a chain.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) validity: Validity,
    /// The CA's name for the certificate where it says when to renew it (RFC 9773, section 4.1). Some certificates lack
    /// the parts of such a name.
    pub(crate) identifier: Option<CertificateIdentifier<'static>>,
    /// The common name of who issued the topmost certificate of the chain.
    pub(crate) topmost_issuer: Option<String>,
}

/// Reads a chain in PEM; `None` if it has no certificate, or has a certificate that cannot be read.
pub(crate) fn of_chain(pem: &str) -> Option<Facts> {
    let chain = Chain::from_pem(pem.as_bytes()).ok()?.to_der();
    let own = chain.first()?;
    let (_, certificate) = parse_x509_certificate(own).ok()?;
    let (_, topmost) = parse_x509_certificate(chain.last()?).ok()?;
    let common_name = topmost.issuer().iter_common_name().next().and_then(|name| name.as_str().ok());
    let validity = certificate.validity();
    Some(Facts {
        validity: Validity {
            from: time(validity.not_before.timestamp()),
            to: time(validity.not_after.timestamp()),
            share: share(own),
        },
        identifier: CertificateIdentifier::try_from(&CertificateDer::from(own.as_slice()))
            .ok()
            .map(CertificateIdentifier::into_owned),
        topmost_issuer: common_name.map(str::to_owned),
    })
}

/// A number of 0 to 1 that is the certificate's own.
fn share(der: &[u8]) -> f64 {
    let digest = sha256(der);
    f64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])) / f64::from(u32::MAX)
}

/// A time in seconds since 1970; one before that is 1970.
fn time(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.clamp(0, 1 << 40).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, Issuer, KeyPair};

    #[test]
    fn a_chain_tells_its_times_and_who_issued_it() {
        let key = |_| KeyPair::generate().expect("a key");
        let mut root = CertificateParams::new(Vec::new()).expect("no names");
        root.distinguished_name.push(DnType::CommonName, "The Root");
        let root = Issuer::new(root, key(0));
        let mut middle = CertificateParams::new(Vec::new()).expect("no names");
        middle.distinguished_name.push(DnType::CommonName, "The Middle");
        let middle_key = key(1);
        let middle_certificate = middle.signed_by(&middle_key, &root).expect("a certificate");
        let middle = Issuer::new(middle, middle_key);
        let mut own = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        own.not_before = rcgen::date_time_ymd(2026, 1, 1);
        own.not_after = rcgen::date_time_ymd(2026, 4, 1);
        own.use_authority_key_identifier_extension = true;
        let own = own.signed_by(&key(2), &middle).expect("a certificate");
        let facts = of_chain(&(own.pem() + &middle_certificate.pem())).expect("a chain");
        assert_eq!(facts.topmost_issuer.as_deref(), Some("The Root"));
        assert_eq!(facts.validity.to.duration_since(facts.validity.from).expect("later").as_secs(), 90 * 86400);
        assert!((0.0..=1.0).contains(&facts.validity.share));
        assert!(facts.identifier.is_some());
        assert_eq!(of_chain(&own.pem()).expect("a chain").topmost_issuer.as_deref(), Some("The Middle"));
        assert!(of_chain("").is_none());
    }
}
