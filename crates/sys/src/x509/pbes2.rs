//! Private keys in PKCS#8 that are encrypted by PBES2 (RFC 8018) in ways that the library does not decrypt by itself.
//! The key is derived from the password with scrypt (RFC 7914), or with PBKDF2 and another pseudorandom function than
//! HMAC with SHA-1 or SHA-256.

use super::{Errors, PrivateKey, lc, pem_block};
use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

/// The tags of ASN.1 that occur.
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// Object identifiers of RFC 8018, RFC 7914 and RFC 3565, as they stand in DER.
const PBES2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d";
const PBKDF2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c";
const SCRYPT: &[u8] = b"\x2b\x06\x01\x04\x01\xda\x47\x04\x0b";
/// Behind this stand the number of a digest for HMAC, or the number of the cipher of three rounds of DES.
const RSADSI: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d";
/// Behind this stands the number of a mode of AES.
const AES: &[u8] = b"\x60\x86\x48\x01\x65\x03\x04\x01";

/// The most rounds of PBKDF2: the most that the library does itself.
const MAX_ITERATIONS: u32 = 100_000_000;

/// The longest key and the longest block of a cipher here.
const MAX_KEY: usize = 32;
const MAX_BLOCK: usize = 16;

/// The rest of a text in DER.
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// Takes the content of a value with this tag off the front.
    fn take(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first().filter(|_| *found == tag)?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long => {
                let (bytes, rest) =
                    rest.split_at_checked(usize::from(long & 0x7f)).filter(|(bytes, _)| bytes.len() <= 3)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(content)
    }

    fn sequence(&mut self) -> Option<Der<'d>> {
        self.take(SEQUENCE).map(Der)
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.take(INTEGER)?;
        if bytes.first()? & 0x80 != 0 || bytes.len() > 8 {
            return None;
        }
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// Derivation of a key from a password.
enum Derivation<'d> {
    Pbkdf2 { salt: &'d [u8], iterations: u32, digest: *const lc::EVP_MD },
    Scrypt { salt: &'d [u8], cost: u64, block_size: u64, parallelism: u64 },
}

/// An encrypted key.
struct EncryptedKey<'d> {
    derivation: Derivation<'d>,
    cipher: *const lc::EVP_CIPHER,
    nonce: &'d [u8],
    data: &'d [u8],
}

impl<'d> EncryptedKey<'d> {
    /// Reads an `EncryptedPrivateKeyInfo` (RFC 5958 section 3). `None`: it is malformed, or encrypted in a way that is not known
    /// here.
    fn of(der: &'d [u8]) -> Option<EncryptedKey<'d>> {
        let mut info = Der(der).sequence()?;
        let mut algorithm = info.sequence()?;
        let data = info.take(OCTET_STRING)?;
        if algorithm.take(OBJECT)? != PBES2 {
            return None;
        }
        let mut parameters = algorithm.sequence()?;
        let (mut derivation, mut encryption) = (parameters.sequence()?, parameters.sequence()?);
        let derivation = match derivation.take(OBJECT)? {
            PBKDF2 => pbkdf2(derivation.sequence()?)?,
            SCRYPT => scrypt(derivation.sequence()?)?,
            _ => return None,
        };
        let cipher = cipher(encryption.take(OBJECT)?)?;
        let nonce = encryption.take(OCTET_STRING)?;
        // SAFETY: the cipher is one of the library's, which live for ever.
        let wanted = unsafe { lc::EVP_CIPHER_iv_length(cipher) } as usize;
        (nonce.len() == wanted).then_some(EncryptedKey { derivation, cipher, nonce, data })
    }

    /// The private key in PKCS#8. `None`: no key can be derived from the password with as much memory as there may be for it.
    fn decrypt(&self, password: &[u8]) -> Option<Result<CleansedBytes, Errors>> {
        drop(Errors::take());
        // SAFETY: the cipher is one of the library's, which live for ever.
        let length = (unsafe { lc::EVP_CIPHER_key_length(self.cipher) } as usize).min(MAX_KEY);
        let mut key = CleansedBytes(vec![0; length]);
        if !self.derivation.derive(password, &mut key.0) {
            drop(Errors::take());
            return None;
        }
        let mut plain = CleansedBytes(vec![0; self.data.len() + MAX_BLOCK]);
        let (mut written, mut last): (c_int, c_int) = (0, 0);
        let length = c_int::try_from(self.data.len()).unwrap_or(0);
        // SAFETY: the context is freed below. The key and the nonce are as long as the cipher wants them, and the
        // output has room for the input and a block more.
        let decrypted = unsafe {
            let context = lc::EVP_CIPHER_CTX_new();
            let decrypted = !context.is_null()
                && lc::EVP_DecryptInit_ex(context, self.cipher, null_mut(), key.0.as_ptr(), self.nonce.as_ptr()) == 1
                && lc::EVP_DecryptUpdate(context, plain.0.as_mut_ptr(), &mut written, self.data.as_ptr(), length) == 1
                && lc::EVP_DecryptFinal_ex(context, plain.0.as_mut_ptr().add(written as usize), &mut last) == 1;
            lc::EVP_CIPHER_CTX_free(context);
            decrypted
        };
        if !decrypted {
            return Some(Err(Errors::take()));
        }
        plain.0.truncate((written + last) as usize);
        Some(Ok(plain))
    }
}

impl Derivation<'_> {
    /// Fills `key`, and says whether that was done.
    fn derive(&self, password: &[u8], key: &mut [u8]) -> bool {
        let text = password.as_ptr().cast();
        match *self {
            // SAFETY: all texts are given with their lengths, and the digest is one of the library's.
            Derivation::Pbkdf2 { salt, iterations, digest } => unsafe {
                let (salt, length) = (salt.as_ptr(), salt.len());
                let (to, room) = (key.as_mut_ptr(), key.len());
                lc::PKCS5_PBKDF2_HMAC(text, password.len(), salt, length, iterations, digest, room, to) == 1
            },
            // SAFETY: all texts are given with their lengths. The library has a limit for the memory, 32 MiB, as OpenSSL has.
            Derivation::Scrypt { salt, cost, block_size, parallelism } => unsafe {
                let (salt, length) = (salt.as_ptr(), salt.len());
                let (to, room) = (key.as_mut_ptr(), key.len());
                lc::EVP_PBE_scrypt(text, password.len(), salt, length, cost, block_size, parallelism, 0, to, room) == 1
            },
        }
    }
}

/// RFC 8018 appendix A.2.
fn pbkdf2(mut parameters: Der<'_>) -> Option<Derivation<'_>> {
    let salt = parameters.take(OCTET_STRING)?;
    let iterations = u32::try_from(parameters.number()?).ok()?;
    if iterations == 0 || iterations > MAX_ITERATIONS {
        return None;
    }
    if parameters.0.first() == Some(&INTEGER) {
        parameters.number()?;
    }
    let number = match parameters.sequence() {
        None => 7,
        Some(mut function) => *function.take(OBJECT)?.strip_prefix(RSADSI)?.strip_prefix(&[2])?.first()?,
    };
    // SAFETY: these functions have no preconditions, and what they give lives for ever.
    let digest = unsafe {
        match number {
            6 => lc::EVP_md5(),
            7 => lc::EVP_sha1(),
            8 => lc::EVP_sha224(),
            9 => lc::EVP_sha256(),
            10 => lc::EVP_sha384(),
            11 => lc::EVP_sha512(),
            12 => lc::EVP_sha512_224(),
            13 => lc::EVP_sha512_256(),
            _ => return None,
        }
    };
    Some(Derivation::Pbkdf2 { salt, iterations, digest })
}

/// RFC 7914 section 7.
fn scrypt(mut parameters: Der<'_>) -> Option<Derivation<'_>> {
    let salt = parameters.take(OCTET_STRING)?;
    let [cost, block_size, parallelism] = [parameters.number()?, parameters.number()?, parameters.number()?];
    Some(Derivation::Scrypt { salt, cost, block_size, parallelism })
}

fn cipher(name: &[u8]) -> Option<*const lc::EVP_CIPHER> {
    // SAFETY: these functions have no preconditions, and what they give lives for ever.
    let cipher = unsafe {
        match (name.strip_prefix(AES), name.strip_prefix(RSADSI)) {
            (Some([2]), _) => lc::EVP_aes_128_cbc(),
            (Some([22]), _) => lc::EVP_aes_192_cbc(),
            (Some([42]), _) => lc::EVP_aes_256_cbc(),
            (_, Some([3, 7])) => lc::EVP_des_ede3_cbc(),
            _ => return None,
        }
    };
    Some(cipher)
}

/// Bytes that are overwritten when they are dropped.
struct CleansedBytes(Vec<u8>);

impl Drop for CleansedBytes {
    fn drop(&mut self) {
        // SAFETY: the whole buffer of the vector is ours.
        unsafe { lc::OPENSSL_cleanse(self.0.as_mut_ptr().cast(), self.0.capacity()) };
    }
}

/// The first encrypted key of a PEM text; `None` if it is encrypted in a way that is not known here either. With a wrong password
/// there are errors.
pub(super) fn read(pem: &[u8], password: &[u8]) -> Option<Result<PrivateKey, Errors>> {
    let der = pem_block(pem, &[c"ENCRYPTED PRIVATE KEY"]).ok()?;
    let encrypted = EncryptedKey::of(&der)?;
    Some(encrypted.decrypt(password)?.and_then(|plain| {
        // SAFETY: `CBS_init` makes the first argument of the bytes, which outlive it.
        let key = unsafe {
            let mut bytes = std::mem::MaybeUninit::<lc::CBS>::uninit();
            lc::CBS_init(bytes.as_mut_ptr(), plain.0.as_ptr(), plain.0.len());
            lc::EVP_parse_private_key(bytes.as_mut_ptr())
        };
        NonNull::new(key).map(PrivateKey::of).ok_or_else(Errors::take)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 2] = [
        include_str!("../../../tls/tests/fixtures/ec-scrypt.key"),
        include_str!("../../../tls/tests/fixtures/ec-sha512.key"),
    ];

    /// Each byte becomes each other one, and each beginning is all there is: it is read, or it is not.
    #[test]
    fn a_damaged_key_is_read_within_its_bounds() {
        for pem in KEYS {
            let der = pem_block(pem.as_bytes(), &[c"ENCRYPTED PRIVATE KEY"]).expect("a block");
            let whole = EncryptedKey::of(&der).expect("it is known").data.len();
            for end in 0..der.len() {
                assert!(EncryptedKey::of(&der[..end]).is_none(), "{end}");
            }
            let mut damaged = der.to_vec();
            for at in 0..der.len() {
                for byte in 0..=u8::MAX {
                    damaged[at] = byte;
                    // A length that is too small leaves less of the data, and one that is too large leaves nothing.
                    assert!(EncryptedKey::of(&damaged).is_none_or(|key| key.data.len() <= whole), "{at} {byte}");
                }
                damaged[at] = der[at];
            }
        }
    }
}
