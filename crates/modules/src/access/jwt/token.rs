//! A JSON Web Token: what it says (RFC 7519), and whether a key has signed it (RFC 7515). How it is decrypted is in `decrypt`.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value};

use super::decrypt::DecryptedToken;
use super::keys::VerificationKey;

/// The largest number of keys that a token is tried with. A token that names its key fits few; a token without a name
/// must not hold up a loop with each key of a large set.
pub(super) const MAX_TRIES: usize = 32;

/// A token that has not been checked.
#[derive(Debug)]
pub struct Token {
    /// `None` if it came encrypted, without a signature.
    proof: Option<Proof>,
    pub(super) claims: Map<String, Value>,
    /// The token that this one came in, if that was encrypted.
    pub(super) envelope: Option<DecryptedToken>,
}

#[derive(Debug)]
struct Proof {
    /// The header and the claims as they were signed.
    signed: Box<[u8]>,
    signature: Box<[u8]>,
    header: Map<String, Value>,
}

/// The reason why a token is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// The text is not a token of the configured kind.
    #[error("JWT validation failed: the token is malformed")]
    Malformed,
    /// None of the keys has signed it, or its algorithm is not supported.
    #[error("JWT validation failed: no key has signed the token")]
    Signature,
    /// None of the keys decrypts it, or its algorithms are not supported.
    #[error("JWT validation failed: no key decrypts the token")]
    Encryption,
    /// The token has expired (`exp`).
    #[error("JWT validation failed: the token has expired")]
    Expired,
    /// The token is not valid yet (`nbf`).
    #[error("JWT validation failed: the token is not valid yet")]
    Early,
}

impl Token {
    /// Reads a token in compact form; `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<Token> {
        let mut parts = text.split(|byte| *byte == b'.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let proof = Proof {
            signed: text[..header.len() + 1 + claims.len()].into(),
            signature: BASE64URL_NOPAD.decode(signature).ok()?.into(),
            header: object(header)?,
        };
        Some(Token { proof: Some(proof), claims: object(claims)?, envelope: None })
    }

    /// The signed token that was encrypted in another one; `None` if there is none.
    pub fn nested(envelope: DecryptedToken) -> Option<Token> {
        let token = Token::parse(&envelope.text)?;
        Some(Token { envelope: Some(envelope), ..token })
    }

    /// The claims that were encrypted in a token; `None` if there are none.
    pub fn encrypted(envelope: DecryptedToken) -> Option<Token> {
        let claims = serde_json::from_slice(&envelope.text).ok()?;
        Some(Token { proof: None, claims, envelope: Some(envelope) })
    }

    /// The header of the token, or of the encrypted token around it.
    pub(super) fn header(&self) -> Option<&Map<String, Value>> {
        let outer = self.envelope.as_ref().map(|envelope| &envelope.header);
        outer.or_else(|| self.proof.as_ref().map(|proof| &proof.header))
    }

    /// Checks the signature, if there has to be one, and the times; `now` is the time since 1970.
    ///
    /// # Errors
    /// [`TokenRefusal`].
    pub fn check<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k VerificationKey>,
        now: Duration,
        leeway: Duration,
    ) -> Result<(), TokenRefusal> {
        if let Some(proof) = &self.proof {
            proof.check(keys)?;
        }
        let (now, leeway) = (now.as_secs_f64(), leeway.as_secs_f64());
        let time = |name: &str| match self.claims.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(TokenRefusal::Malformed),
        };
        if time("exp")?.is_some_and(|end| now >= end + leeway) {
            return Err(TokenRefusal::Expired);
        }
        if time("nbf")?.is_some_and(|begin| now + leeway < begin) {
            return Err(TokenRefusal::Early);
        }
        Ok(())
    }
}

impl Proof {
    fn check<'k>(&self, keys: impl IntoIterator<Item = &'k VerificationKey>) -> Result<(), TokenRefusal> {
        let text = |name: &str| self.header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").ok_or(TokenRefusal::Malformed)?;
        // Extensions that have to be understood (RFC 7515 section 4.1.11): none is.
        if self.header.contains_key("crit") {
            return Err(TokenRefusal::Malformed);
        }
        let id = text("kid");
        let mut fitting = keys.into_iter().filter(|key| key.may_have_signed(id, algorithm)).take(MAX_TRIES);
        if !fitting.any(|key| key.verify(algorithm, &self.signed, &self.signature)) {
            return Err(TokenRefusal::Signature);
        }
        Ok(())
    }
}

/// A part of a token that is an object.
pub(super) fn object(part: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(&BASE64URL_NOPAD.decode(part).ok()?).ok()
}

/// The text of a value as a variable has it; `None` if there is none.
pub(super) fn text(value: &Value) -> Option<Vec<u8>> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => text.clone().into_bytes(),
        Value::Array(values) => values.iter().filter_map(text).collect::<Vec<_>>().join(&b','),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string().into_bytes(),
    })
}

/// The value at the end of a path of names. Each name is looked up in the object before it.
pub(super) fn find<'v>(object: &'v Map<String, Value>, path: &[String]) -> Option<&'v Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(object.get(first)?, |value, name| value.as_object()?.get(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::jwt::keys::parse;

    /// The examples of RFC 7515, appendix A.1 (HS256) and A.2 (RS256), and RFC 8037, appendix A (Ed25519).
    const HS256: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt\
                         cGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const HS256_KEY: &str = r#"{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}]}"#;

    const LONG_AGO: Duration = Duration::from_secs(1_300_000_000);

    #[test]
    fn an_example_of_the_rfc_is_taken_until_it_expires() {
        let token = Token::parse(HS256.as_bytes()).unwrap();
        let keys = parse(HS256_KEY.as_bytes()).unwrap();
        assert_eq!(token.check(&keys, LONG_AGO, Duration::ZERO), Ok(()));
        let end = Duration::from_secs(1_300_819_380);
        assert_eq!(token.check(&keys, end, Duration::ZERO), Err(TokenRefusal::Expired));
        assert_eq!(token.check(&keys, end, Duration::from_secs(1)), Ok(()));
        assert_eq!(text(&token.claims["http://example.com/is_root"]).unwrap(), b"true");
        assert_eq!(token.check([], LONG_AGO, Duration::ZERO), Err(TokenRefusal::Signature));
    }

    #[test]
    fn a_token_without_a_name_is_tried_with_some_keys() {
        let token = Token::parse(HS256.as_bytes()).unwrap();
        let check = |others| {
            let other = r#"{"kty":"oct","k":"AA"},"#.repeat(others);
            let keys = parse(HS256_KEY.replace('[', &format!("[{other}")).as_bytes()).unwrap();
            token.check(&keys, LONG_AGO, Duration::ZERO)
        };
        assert_eq!(check(MAX_TRIES - 1), Ok(()));
        assert_eq!(check(MAX_TRIES), Err(TokenRefusal::Signature));
    }

    #[test]
    fn a_changed_token_or_another_algorithm_is_refused() {
        let keys = parse(HS256_KEY.as_bytes()).unwrap();
        let parts: Vec<&str> = HS256.split('.').collect();
        let with = |header: &str, claims: &str| {
            let encode = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
            format!("{}.{}.{}", encode(header), encode(claims), parts[2])
        };
        for (header, claims, why) in [
            (r#"{"alg":"HS256"}"#, "{}", TokenRefusal::Signature),
            (r#"{"alg":"none"}"#, "{}", TokenRefusal::Signature),
            (r#"{"alg":"RS256"}"#, "{}", TokenRefusal::Signature),
            (r#"{"typ":"JWT"}"#, "{}", TokenRefusal::Malformed),
            (r#"{"alg":"HS256","crit":["b64"]}"#, "{}", TokenRefusal::Malformed),
        ] {
            let token = Token::parse(with(header, claims).as_bytes()).unwrap();
            assert_eq!(token.check(&keys, LONG_AGO, Duration::ZERO), Err(why), "{header}");
        }
        for wrong in ["", ".", "..", "a.b.c", "a.b.c.d", "e30.e30", "e30.W10.x", "e30.e30.!"] {
            assert!(Token::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn no_damaged_token_is_taken() {
        let keys = parse(HS256_KEY.as_bytes()).unwrap();
        for place in 0..HS256.len() {
            for byte in [0, b'.', b'A', b'_', b'=', 0xff, HS256.as_bytes()[place] ^ 1] {
                let mut text = HS256.as_bytes().to_vec();
                let before = std::mem::replace(&mut text[place], byte);
                let taken =
                    Token::parse(&text).is_some_and(|token| token.check(&keys, LONG_AGO, Duration::ZERO).is_ok());
                assert_eq!(taken, before == byte, "{place} {byte}");
            }
            assert!(
                Token::parse(&HS256.as_bytes()[..place])
                    .is_none_or(|token| { token.check(&keys, LONG_AGO, Duration::ZERO).is_err() })
            );
        }
    }

    #[test]
    fn nested_values_are_found_and_written() {
        let Value::Object(claims) = serde_json::json!({
            "info": {"e-mail": "a@b", "roles": ["x", 1, true, null, {"y": 2}]}, "n": 1.5, "none": null,
        }) else {
            unreachable!("it is an object")
        };
        let shown = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|name| (*name).to_owned()).collect();
            find(&claims, &path).and_then(text).map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(shown(&["info", "e-mail"]).as_deref(), Some("a@b"));
        assert_eq!(shown(&["info", "roles"]).as_deref(), Some(r#"x,1,true,{"y":2}"#));
        assert_eq!(shown(&["n"]).as_deref(), Some("1.5"));
        assert_eq!((shown(&["none"]), shown(&["info", "x"]), shown(&["n", "x"])), (None, None, None));
    }
}
