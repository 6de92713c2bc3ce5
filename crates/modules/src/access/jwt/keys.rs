//! Sets of keys (JWKS, RFC 7517), and the signatures that they verify (RFC 7518, RFC 8037). What they decrypt is in `decrypt`.
//!
//! The signatures themselves are AWS-LC's, by way of `aws-lc-rs`. Crates for the whole of JSON Web Tokens lack some of nginx's
//! algorithms, or bring another library for cryptography.

use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::{KeyPair, KeyPairComponents, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

/// The most keys of one set.
const MAX_KEYS: usize = 1000;

/// A set of keys that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKeys {
    /// The text is not JSON, or has no keys.
    #[error("the key set is no JSON Web Key Set")]
    Format,
    /// A key lacks a member, or has a wrong one.
    #[error("the key set has an invalid key")]
    Key,
    /// There are too many.
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
}

/// A key that signatures are verified with, or that decrypts.
#[derive(Debug)]
pub struct VerificationKey {
    id: Option<String>,
    algorithm: Option<String>,
    /// The purpose of the key (`use`); a key without one serves every purpose.
    purpose: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Shared(Box<[u8]>),
    Rsa {
        modulus: Box<[u8]>,
        exponent: Box<[u8]>,
        private: Option<Box<Private>>,
    },
    /// A point of a curve, uncompressed.
    Elliptic(Curve, Box<[u8]>),
    Ed25519(Box<[u8]>),
}

/// The private part of an RSA key.
struct Private {
    /// `d`, `p`, `q`, `dp`, `dq` and `qi`.
    numbers: [Vec<u8>; 6],
    /// The key, which is made from the numbers when it is first used; `None` if they are no key.
    key: OnceLock<Option<OaepPrivateDecryptingKey>>,
}

impl std::fmt::Debug for Private {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Private").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

/// Reads a set of keys, or a single one. Keys of other types are left out.
///
/// # Errors
/// [`BadKeys`].
pub fn parse(text: &[u8]) -> Result<Vec<VerificationKey>, BadKeys> {
    let Ok(Value::Object(set)) = serde_json::from_slice(text) else { return Err(BadKeys::Format) };
    let keys = match set.get("keys") {
        Some(Value::Array(keys)) => &keys[..],
        None if set.contains_key("kty") => return Ok(VerificationKey::parse(&set)?.into_iter().collect()),
        _ => return Err(BadKeys::Format),
    };
    if keys.len() > MAX_KEYS {
        return Err(BadKeys::TooMany);
    }
    let parsed = keys.iter().map(|key| VerificationKey::parse(key.as_object().ok_or(BadKeys::Key)?));
    parsed.filter_map(Result::transpose).collect()
}

impl VerificationKey {
    fn parse(key: &Map<String, Value>) -> Result<Option<VerificationKey>, BadKeys> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let decoded = text(name).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
            decoded.filter(|bytes| !bytes.is_empty()).ok_or(BadKeys::Key)
        };
        let material = match (text("kty").ok_or(BadKeys::Key)?, text("crv")) {
            ("oct", _) => Material::Shared(bytes("k")?.into()),
            ("RSA", _) => {
                // Keys of more than two primes are for signatures only, and so are those without the primes.
                let numbers = ["d", "p", "q", "dp", "dq", "qi"].map(|name| bytes(name).unwrap_or_default());
                let whole = numbers.iter().all(|number| !number.is_empty()) && !key.contains_key("oth");
                let private = whole.then(|| Box::new(Private { numbers, key: OnceLock::new() }));
                Material::Rsa { modulus: bytes("n")?.into(), exponent: bytes("e")?.into(), private }
            }
            ("EC", Some(curve)) => {
                let (curve, length) = match curve {
                    "P-256" => (Curve::P256, 32),
                    "P-384" => (Curve::P384, 48),
                    "P-521" => (Curve::P521, 66),
                    _ => return Ok(None),
                };
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != length || y.len() != length {
                    return Err(BadKeys::Key);
                }
                Material::Elliptic(curve, [&[4], &x[..], &y].concat().into())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?.into()),
            _ => return Ok(None),
        };
        let owned = |name: &str| text(name).map(str::to_owned);
        Ok(Some(VerificationKey { id: owned("kid"), algorithm: owned("alg"), purpose: owned("use"), material }))
    }

    /// Whether a token with this key's name and this algorithm may be of the key.
    pub(super) fn may_have_signed(&self, id: Option<&str>, algorithm: &str) -> bool {
        self.fits("sig", id, algorithm)
    }

    /// Whether it may decrypt a token with this key's name and this algorithm.
    pub(super) fn may_decrypt(&self, id: Option<&str>, algorithm: &str) -> bool {
        self.fits("enc", id, algorithm)
    }

    fn fits(&self, purpose: &str, id: Option<&str>, algorithm: &str) -> bool {
        if self.purpose.as_deref().is_some_and(|own| own != purpose) {
            return false;
        }
        let same_id = id.zip(self.id.as_deref()).is_none_or(|(wanted, own)| wanted == own);
        same_id && self.algorithm.as_deref().is_none_or(|own| own == algorithm)
    }

    /// The key of a symmetric algorithm.
    pub(super) fn secret(&self) -> Option<&[u8]> {
        match &self.material {
            Material::Shared(key) => Some(key),
            _ => None,
        }
    }

    /// The private key that RSA decrypts with.
    pub(super) fn decrypting(&self) -> Option<&OaepPrivateDecryptingKey> {
        let Material::Rsa { modulus, exponent, private: Some(private) } = &self.material else { return None };
        let key = || {
            let [d, p, q, dp, dq, qi] = private.numbers.each_ref().map(|number| &number[..]);
            let public_key = RsaPublicKeyComponents { n: &**modulus, e: &**exponent };
            let pair = KeyPair::from_components(&KeyPairComponents { public_key, d, p, q, dP: dp, dQ: dq, qInv: qi });
            let der: Pkcs8V1Der = pair.ok()?.as_der().ok()?;
            OaepPrivateDecryptingKey::new(PrivateDecryptingKey::from_pkcs8(der.as_ref()).ok()?).ok()
        };
        private.key.get_or_init(key).as_ref()
    }

    /// Whether this is the key's signature of a message. The key's own type has to fit the algorithm.
    pub(super) fn verify(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Shared(key) => {
                let algorithm = match algorithm {
                    "HS256" => hmac::HMAC_SHA256,
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => return false,
                };
                hmac::verify(&hmac::Key::new(algorithm, key), message, signature).is_ok()
            }
            Material::Rsa { modulus, exponent, .. } => {
                let algorithm: &RsaParameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                RsaPublicKeyComponents { n: &**modulus, e: &**exponent }.verify(algorithm, message, signature).is_ok()
            }
            Material::Elliptic(curve, point) => {
                let algorithm: &'static dyn VerificationAlgorithm = match (algorithm, curve) {
                    ("ES256", Curve::P256) => &signature::ECDSA_P256_SHA256_FIXED,
                    ("ES384", Curve::P384) => &signature::ECDSA_P384_SHA384_FIXED,
                    ("ES512", Curve::P521) => &signature::ECDSA_P521_SHA512_FIXED,
                    _ => return false,
                };
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            Material::Ed25519(key) => {
                matches!(algorithm, "EdDSA" | "Ed25519")
                    && UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_cannot_be_used_is_refused() {
        for (text, wanted) in [
            ("", Err(BadKeys::Format)),
            ("[]", Err(BadKeys::Format)),
            ("{}", Err(BadKeys::Format)),
            (r#"{"keys":{}}"#, Err(BadKeys::Format)),
            (r#"{"keys":[]}"#, Ok(0)),
            (r#"{"keys":[{}]}"#, Err(BadKeys::Key)),
            (r#"{"keys":[{"kty":"oct"}]}"#, Err(BadKeys::Key)),
            (r#"{"keys":[{"kty":"oct","k":"!"}]}"#, Err(BadKeys::Key)),
            (r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}"#, Err(BadKeys::Key)),
            (r#"{"keys":[{"kty":"new"},{"kty":"oct","k":"AA"},{"kty":"oct","k":"AA","use":"enc"}]}"#, Ok(2)),
            (r#"{"kty":"oct","k":"AA"}"#, Ok(1)),
        ] {
            assert_eq!(parse(text.as_bytes()).map(|keys| keys.len()), wanted, "{text}");
        }
    }

    #[test]
    fn a_name_and_an_algorithm_restrict_a_key() {
        let keys = parse(br#"{"kty":"oct","k":"AA","kid":"a","alg":"HS256"}"#).unwrap();
        assert!(keys[0].may_have_signed(None, "HS256") && keys[0].may_have_signed(Some("a"), "HS256"));
        assert!(!keys[0].may_have_signed(Some("b"), "HS256") && !keys[0].may_have_signed(Some("a"), "HS512"));
        assert!(keys[0].may_decrypt(None, "HS256") && !keys[0].may_decrypt(None, "dir"));
        for (purpose, wanted) in [("sig", (true, false)), ("enc", (false, true)), ("other", (false, false))] {
            let keys = parse(format!(r#"{{"kty":"oct","k":"AA","use":"{purpose}"}}"#).as_bytes()).unwrap();
            assert_eq!((keys[0].may_have_signed(None, "HS256"), keys[0].may_decrypt(None, "dir")), wanted, "{purpose}");
        }
    }
}
