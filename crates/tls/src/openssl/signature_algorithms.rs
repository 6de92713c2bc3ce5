//! `ssl_conf_command SignatureAlgorithms` and `ClientSignatureAlgorithms`: how handshakes are signed.

use super::Remark;
use freerun_proto::tls::names;

/// A way to sign.
#[derive(Debug, PartialEq, Eq)]
pub struct SignatureAlgorithm {
    /// The number that stands for it in a handshake.
    pub id: u16,
    /// Its name in TLS 1.3. The oldest have none.
    pub name: &'static str,
    /// The key's kind and the hash, as they are written with `+` between them: `RSA`, `SHA256`.
    pub pair: (&'static str, &'static str),
    /// Whether freerun has it.
    pub usable: bool,
}

/// The name of a scheme, which the compiler looks for.
const fn scheme(id: u16) -> &'static str {
    match names::signature(id) {
        Some(name) => name,
        None => panic!("a scheme without a name"),
    }
}

const fn ours(id: u16, pair: (&'static str, &'static str)) -> SignatureAlgorithm {
    SignatureAlgorithm { id, name: scheme(id), pair, usable: true }
}

const fn theirs(id: u16, pair: (&'static str, &'static str)) -> SignatureAlgorithm {
    SignatureAlgorithm { id, name: scheme(id), pair, usable: false }
}

/// An algorithm that OpenSSL has no name for in a configuration.
const fn unnamed(id: u16, pair: (&'static str, &'static str)) -> SignatureAlgorithm {
    SignatureAlgorithm { id, name: "", pair, usable: false }
}

/// Algorithms that OpenSSL 3 knows. Where a pair means several, the first one counts.
pub static SIGNATURE_ALGORITHMS: &[SignatureAlgorithm] = &[
    ours(0x0403, ("ECDSA", "SHA256")),
    ours(0x0503, ("ECDSA", "SHA384")),
    ours(0x0603, ("ECDSA", "SHA512")),
    // Ed25519 and Ed448 have no pair.
    ours(0x0807, ("", "")),
    theirs(0x0808, ("", "")),
    unnamed(0x0303, ("ECDSA", "SHA224")),
    unnamed(0x0203, ("ECDSA", "SHA1")),
    ours(0x0804, ("RSA-PSS", "SHA256")),
    ours(0x0805, ("RSA-PSS", "SHA384")),
    ours(0x0806, ("RSA-PSS", "SHA512")),
    theirs(0x0809, ("RSA-PSS", "SHA256")),
    theirs(0x080a, ("RSA-PSS", "SHA384")),
    theirs(0x080b, ("RSA-PSS", "SHA512")),
    ours(0x0401, ("RSA", "SHA256")),
    ours(0x0501, ("RSA", "SHA384")),
    ours(0x0601, ("RSA", "SHA512")),
    theirs(0x0301, ("RSA", "SHA224")),
    theirs(0x0201, ("RSA", "SHA1")),
    unnamed(0x0402, ("DSA", "SHA256")),
    unnamed(0x0502, ("DSA", "SHA384")),
    unnamed(0x0602, ("DSA", "SHA512")),
    unnamed(0x0302, ("DSA", "SHA224")),
    unnamed(0x0202, ("DSA", "SHA1")),
];

impl SignatureAlgorithm {
    /// The algorithm with this name of TLS 1.3, or of this pair. The kind of key counts with its case, the hash without.
    pub fn named(name: &str) -> Option<&'static SignatureAlgorithm> {
        let Some((key, hash)) = name.split_once('+') else {
            return SIGNATURE_ALGORITHMS.iter().find(|own| !own.name.is_empty() && own.name == name);
        };
        let key = if key == "PSS" { "RSA-PSS" } else { key };
        let hash = hash.to_ascii_uppercase();
        SIGNATURE_ALGORITHMS.iter().find(|own| !key.is_empty() && own.pair == (key, hash.as_str()))
    }

    /// The name for messages.
    fn shown(&self) -> String {
        if self.name.is_empty() { format!("{}+{}", self.pair.0, self.pair.1) } else { self.name.to_owned() }
    }
}

/// A list that OpenSSL refuses: an unknown or empty name, or an algorithm that is named twice. OpenSSL gives no reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("")]
pub struct SignatureAlgorithmsError;

/// Reads a list of algorithms with `:` between them, the most preferred first. As in OpenSSL 3.4 and later, a name with `?`
/// before it may be unknown.
pub fn parse(text: &str) -> Result<Vec<&'static SignatureAlgorithm>, SignatureAlgorithmsError> {
    let mut algorithms: Vec<&'static SignatureAlgorithm> = Vec::new();
    for element in text.split(':').map(str::trim) {
        let (name, may_be_unknown) = element.strip_prefix('?').map_or((element, false), |name| (name, true));
        match SignatureAlgorithm::named(name) {
            Some(algorithm) if !algorithms.contains(&algorithm) => algorithms.push(algorithm),
            None if may_be_unknown => {}
            _ => return Err(SignatureAlgorithmsError),
        }
    }
    if algorithms.is_empty() { Err(SignatureAlgorithmsError) } else { Ok(algorithms) }
}

/// Takes the algorithms that freerun has. `None`: there are none.
pub fn usable(
    algorithms: &[&'static SignatureAlgorithm],
) -> Option<(Vec<&'static SignatureAlgorithm>, Option<Remark>)> {
    let (usable, others): (Vec<_>, Vec<_>) = algorithms.iter().copied().partition(|algorithm| algorithm.usable);
    let names = others.into_iter().map(SignatureAlgorithm::shown).collect::<Vec<_>>().join(" ");
    let remark = (!names.is_empty()).then(|| Remark::warn(format!("{names} not supported, ignored")));
    (!usable.is_empty()).then_some((usable, remark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let cases: &[(&str, Result<&[u16], SignatureAlgorithmsError>)] = &[
            ("RSA+SHA256", Ok(&[0x0401])),
            ("RSA+sha256", Ok(&[0x0401])),
            ("rsa_pss_rsae_sha256:ECDSA+SHA256:ed25519", Ok(&[0x0804, 0x0403, 0x0807])),
            ("PSS+SHA512", Ok(&[0x0806])),
            ("RSA-PSS+SHA256 : ECDSA+SHA224", Ok(&[0x0804, 0x0303])),
            ("DSA+SHA256", Ok(&[0x0402])),
            ("?foo:ecdsa_secp384r1_sha384", Ok(&[0x0503])),
            ("rsa+SHA256", Err(SignatureAlgorithmsError)),
            ("RSA+MD5", Err(SignatureAlgorithmsError)),
            ("RSA+SHA256:RSA+SHA256", Err(SignatureAlgorithmsError)),
            ("RSA+SHA256:rsa_pkcs1_sha256", Err(SignatureAlgorithmsError)),
            ("RSA+SHA256:foo", Err(SignatureAlgorithmsError)),
            ("RSA", Err(SignatureAlgorithmsError)),
            ("SHA256", Err(SignatureAlgorithmsError)),
            ("+", Err(SignatureAlgorithmsError)),
            ("?foo", Err(SignatureAlgorithmsError)),
            ("RSA+SHA256::ECDSA+SHA256", Err(SignatureAlgorithmsError)),
            ("", Err(SignatureAlgorithmsError)),
        ];
        for (text, expected) in cases {
            let ids = parse(text).map(|list| list.iter().map(|algorithm| algorithm.id).collect::<Vec<_>>());
            assert_eq!(ids, expected.map(<[_]>::to_vec), "{text}");
        }
    }

    #[test]
    fn verdicts() {
        let said = |text: &str| {
            let (usable, remark) = usable(&parse(text).expect("OpenSSL accepts it"))?;
            Some((usable.len(), remark.map(|remark| remark.text)))
        };
        assert_eq!(said("RSA+SHA256"), Some((1, None)));
        assert_eq!(
            said("RSA+SHA1:ECDSA+SHA256:ECDSA+SHA1"),
            Some((1, Some("rsa_pkcs1_sha1 ECDSA+SHA1 not supported, ignored".to_owned())))
        );
        assert_eq!(said("ed448"), None);
    }
}
