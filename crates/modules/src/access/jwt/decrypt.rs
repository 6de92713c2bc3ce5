//! Encrypted tokens (RFC 7516), by the algorithms of RFC 7518 that nginx has.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, DecryptingKey, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::{self, OaepAlgorithm};
use data_encoding::BASE64URL_NOPAD;
use freerun_tls::random;
use serde_json::{Map, Value};

use super::keys::VerificationKey;
use super::token::{MAX_TRIES, object};

/// A token that has not been decrypted.
#[derive(Debug)]
pub struct EncryptedToken {
    header: Map<String, Value>,
    /// The header as it was sent, which is authenticated.
    sent_header: Box<[u8]>,
    key: Box<[u8]>,
    vector: Box<[u8]>,
    text: Box<[u8]>,
    tag: Box<[u8]>,
}

/// Content of an encrypted token: its plain text and what its header says.
#[derive(Debug)]
pub struct DecryptedToken {
    /// The header of the encrypted token.
    pub header: Map<String, Value>,
    /// The text.
    pub text: Vec<u8>,
}

impl EncryptedToken {
    /// Reads an encrypted token in compact form; `None` if it is none, or has extensions that have to be understood.
    pub fn parse(text: &[u8]) -> Option<EncryptedToken> {
        let mut parts = text.split(|byte| *byte == b'.');
        let sent_header = parts.next()?;
        let mut decoded = || Some(BASE64URL_NOPAD.decode(parts.next()?).ok()?.into_boxed_slice());
        let (key, vector, text, tag) = (decoded()?, decoded()?, decoded()?, decoded()?);
        let header = object(sent_header)?;
        let extended = ["crit", "zip"].iter().any(|name| header.contains_key(*name));
        let whole = parts.next().is_none() && !extended;
        whole.then(|| EncryptedToken { header, sent_header: sent_header.into(), key, vector, text, tag })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.header.get(name).and_then(Value::as_str)
    }

    /// Whether decrypting takes long: it does with RSA.
    pub fn is_slow(&self) -> bool {
        self.parameter("alg").is_some_and(|algorithm| algorithm.starts_with("RSA"))
    }

    /// Decrypts the token; `None` if none of the keys does.
    pub fn open<'k>(self, keys: impl IntoIterator<Item = &'k VerificationKey>) -> Option<DecryptedToken> {
        let algorithm = self.parameter("alg")?;
        let content = Content::named(self.parameter("enc")?)?;
        let id = self.parameter("kid");
        let mut fitting = keys.into_iter().filter(|key| key.may_decrypt(id, algorithm)).take(MAX_TRIES);
        let text = fitting.find_map(|key| {
            let key = self.content_key(key, algorithm, content.key_len())?;
            content.decrypt(&key, &self.vector, &self.sent_header, &self.text, &self.tag)
        })?;
        Some(DecryptedToken { header: self.header, text })
    }

    /// The key of the content.
    fn content_key(&self, key: &VerificationKey, algorithm: &str, len: usize) -> Option<Vec<u8>> {
        if let Some(algorithm) = oaep(algorithm) {
            let key = key.decrypting()?;
            let mut out = vec![0; key.min_output_size()];
            let decrypted = key.decrypt(algorithm, &self.key, &mut out, None).ok();
            let decrypted = decrypted.filter(|key| key.len() == len).map(|key| key.to_vec());
            // The time of a refusal does not tell what was wrong with the key (RFC 7516 section 11.5).
            return decrypted.or_else(|| {
                let mut other = vec![0; len];
                random::fill(&mut other).ok().map(|()| other)
            });
        }
        let secret = key.secret()?;
        match algorithm {
            "dir" => self.key.is_empty().then(|| secret.to_vec()),
            "A128KW" | "A192KW" | "A256KW" => {
                (secret.len() == bits(algorithm)? / 8).then(|| unwrap(secret, &self.key)).flatten()
            }
            "A128GCMKW" | "A192GCMKW" | "A256GCMKW" => {
                let decoded = |name| BASE64URL_NOPAD.decode(self.parameter(name)?.as_bytes()).ok();
                let wrapping = Content::Gcm(bits(algorithm)?);
                wrapping.decrypt(secret, &decoded("iv")?, b"", &self.key, &decoded("tag")?)
            }
            _ => None,
        }
    }
}

/// The number after the first letter of an algorithm's name.
fn bits(algorithm: &str) -> Option<usize> {
    algorithm.get(1..4)?.parse().ok()
}

fn oaep(algorithm: &str) -> Option<&'static OaepAlgorithm> {
    Some(match algorithm {
        "RSA-OAEP" => &rsa::OAEP_SHA1_MGF1SHA1,
        "RSA-OAEP-256" => &rsa::OAEP_SHA256_MGF1SHA256,
        "RSA-OAEP-384" => &rsa::OAEP_SHA384_MGF1SHA384,
        "RSA-OAEP-512" => &rsa::OAEP_SHA512_MGF1SHA512,
        _ => return None,
    })
}

fn aes(key: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match key.len() {
        16 => &cipher::AES_128,
        24 => &cipher::AES_192,
        32 => &cipher::AES_256,
        _ => return None,
    };
    UnboundCipherKey::new(algorithm, key).ok()
}

/// Takes a key out of its wrapping (RFC 3394 section 2.2.2). AWS-LC's own form of it in Rust lacks keys of 192 bits.
fn unwrap(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    const HALF: usize = 8;
    if !wrapped.len().is_multiple_of(HALF) || wrapped.len() < 3 * HALF {
        return None;
    }
    let cipher = DecryptingKey::ecb(aes(key)?).ok()?;
    let mut check: [u8; HALF] = wrapped[..HALF].try_into().ok()?;
    let mut out = wrapped[HALF..].to_vec();
    let count = out.len() / HALF;
    for step in (1..=6 * count).rev() {
        let part = (step - 1) % count * HALF;
        let mut block = [0; 2 * HALF];
        block[..HALF].copy_from_slice(&(u64::from_be_bytes(check) ^ step as u64).to_be_bytes());
        block[HALF..].copy_from_slice(&out[part..part + HALF]);
        cipher.decrypt(&mut block, DecryptionContext::None).ok()?;
        check.copy_from_slice(&block[..HALF]);
        out[part..part + HALF].copy_from_slice(&block[HALF..]);
    }
    verify_slices_are_equal(&check, &[0xa6; HALF]).ok().map(|()| out)
}

/// Encryption of the content: AES, with the number of bits of its key.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// In CBC mode, with an HMAC whose hash has twice as many bits.
    Cbc(usize),
    Gcm(usize),
}

impl Content {
    fn named(name: &str) -> Option<Content> {
        Some(match name {
            "A128CBC-HS256" | "A192CBC-HS384" | "A256CBC-HS512" => Content::Cbc(bits(name)?),
            "A128GCM" | "A192GCM" | "A256GCM" => Content::Gcm(bits(name)?),
            _ => return None,
        })
    }

    /// The size of its keys in bytes; those for CBC have a key for the HMAC first.
    fn key_len(self) -> usize {
        match self {
            Content::Cbc(bits) => bits / 8 * 2,
            Content::Gcm(bits) => bits / 8,
        }
    }

    fn decrypt(self, key: &[u8], vector: &[u8], header: &[u8], text: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
        if key.len() != self.key_len() {
            return None;
        }
        match self {
            Content::Cbc(bits) => {
                let hash = match bits {
                    128 => hmac::HMAC_SHA256,
                    192 => hmac::HMAC_SHA384,
                    _ => hmac::HMAC_SHA512,
                };
                let (authenticating, encrypting) = key.split_at(key.len() / 2);
                let header_bits = (header.len() as u64 * 8).to_be_bytes();
                let all = [header, vector, text, &header_bits].concat();
                let own = hmac::sign(&hmac::Key::new(hash, authenticating), &all);
                verify_slices_are_equal(&own.as_ref()[..bits / 8], tag).ok()?;
                let context = DecryptionContext::Iv128(vector.try_into().ok()?);
                let mut text = text.to_vec();
                let cipher = PaddedBlockDecryptingKey::cbc_pkcs7(aes(encrypting)?).ok()?;
                let len = cipher.decrypt(&mut text, context).ok()?.len();
                text.truncate(len);
                Some(text)
            }
            Content::Gcm(bits) => {
                let algorithm = match bits {
                    128 => &aead::AES_128_GCM,
                    192 => &aead::AES_192_GCM,
                    _ => &aead::AES_256_GCM,
                };
                let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
                let nonce = Nonce::try_assume_unique_for_key(vector).ok()?;
                // A tag of another length would move the end of the text.
                if tag.len() != algorithm.tag_len() {
                    return None;
                }
                let mut text = [text, tag].concat();
                let len = key.open_in_place(nonce, Aad::from(header), &mut text).ok()?.len();
                text.truncate(len);
                Some(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::jwt::keys::parse;

    /// The example of RFC 7516, appendix A.3 (key wrapping, AES-CBC with an HMAC).
    const WRAPPED: &str = "eyJhbGciOiJBMTI4S1ciLCJlbmMiOiJBMTI4Q0JDLUhTMjU2In0.6KB707dM9YTIgHtLvtgWQ8mKwboJW3of9locizkDTHzBC2IlrT1oOQ.\
                           AxY8DCtDaGlsbGljb3RoZQ.KDlTtXchhZTGufMYmOYGS4HffxPSUrfmqCHXaI9wOGY.U0m_YmjN04DJvceFICbCVQ";
    const WRAPPING: &str = r#"{"kty":"oct","k":"GawgguFyGrWKav7AX4VKUg"}"#;

    #[test]
    fn an_example_of_the_rfc_is_decrypted_and_no_damaged_one() {
        let keys = parse(WRAPPING.as_bytes()).unwrap();
        let open =
            |text: &[u8]| EncryptedToken::parse(text).and_then(|sealed| sealed.open(&keys)).map(|opened| opened.text);
        assert_eq!(open(WRAPPED.as_bytes()).unwrap(), b"Live long and prosper.");
        for place in 0..WRAPPED.len() {
            for byte in [0, b'.', b'A', b'_', b'=', 0xff, WRAPPED.as_bytes()[place] ^ 1] {
                let mut text = WRAPPED.as_bytes().to_vec();
                let before = std::mem::replace(&mut text[place], byte);
                assert_eq!(open(&text).is_some(), before == byte, "{place} {byte}");
            }
            assert!(open(&WRAPPED.as_bytes()[..place]).is_none(), "{place}");
        }
    }

    #[test]
    fn a_token_without_a_name_is_tried_with_some_keys() {
        let open = |others| {
            let other = r#"{"kty":"oct","k":"AA"},"#.repeat(others);
            let keys = parse(format!(r#"{{"keys":[{other}{WRAPPING}]}}"#).as_bytes()).unwrap();
            EncryptedToken::parse(WRAPPED.as_bytes()).unwrap().open(&keys).is_some()
        };
        assert!(open(MAX_TRIES - 1) && !open(MAX_TRIES));
    }

    #[test]
    fn keys_are_unwrapped_as_the_rfc_says() {
        let hex = |text: &str| data_encoding::HEXUPPER.decode(text.as_bytes()).unwrap();
        // RFC 3394, sections 4.1, 4.2 and 4.6.
        for (key, wrapped, wanted) in [
            (
                "000102030405060708090A0B0C0D0E0F",
                "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5",
                "00112233445566778899AABBCCDDEEFF",
            ),
            (
                "000102030405060708090A0B0C0D0E0F1011121314151617",
                "96778B25AE6CA435F92B5B97C050AED2468AB8A17AD84E5D",
                "00112233445566778899AABBCCDDEEFF",
            ),
            (
                "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
                "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
                "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
            ),
        ] {
            let (key, mut wrapped) = (hex(key), hex(wrapped));
            assert_eq!(unwrap(&key, &wrapped).unwrap(), hex(wanted));
            assert!(unwrap(&key, &wrapped[1..]).is_none() && unwrap(&key, b"").is_none());
            wrapped[0] ^= 1;
            assert!(unwrap(&key, &wrapped).is_none());
        }
    }
}
