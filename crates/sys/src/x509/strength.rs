//! Strength of keys and signatures, as OpenSSL's security levels measure it.

use super::{Certificate, Errors, lc};
use std::ffi::c_int;
use std::ptr::null_mut;

/// The bits of security that each level asks for.
const NEEDED: [u32; 6] = [0, 80, 112, 128, 192, 256];

/// The fewest bits of an RSA or DSA key that has so much security, by the formula of FIPS 140-2 IG 7.5 which OpenSSL 3
/// uses, rounded as it does.
const RSA: [(u32, u32); 5] = [(256, 13_911), (192, 6944), (128, 2670), (112, 1962), (80, 919)];

/// The remaining strength of MD5.
pub(super) const MD5: u32 = 39;

/// The bits of security that a level asks for.
pub(super) fn needed(level: u8) -> u32 {
    let [.., most] = NEEDED;
    NEEDED.get(usize::from(level)).copied().unwrap_or(most)
}

impl Certificate {
    /// The bits of security of its key, no more than is asked for; 0 for keys that cannot be read.
    pub(super) fn key_strength(&self) -> u32 {
        // SAFETY: the certificate is alive; the key is borrowed from it.
        let key = unsafe { lc::X509_get0_pubkey(self.as_ptr()) };
        if key.is_null() {
            drop(Errors::take());
            return 0;
        }
        // SAFETY: the key is alive and only read.
        let (kind, bits) = unsafe { (lc::EVP_PKEY_id(key), lc::EVP_PKEY_bits(key)) };
        let bits = u32::try_from(bits).unwrap_or(0);
        match kind {
            lc::EVP_PKEY_RSA | lc::EVP_PKEY_RSA_PSS | lc::EVP_PKEY_DSA => {
                RSA.iter().find(|(_, least)| bits >= *least).map_or(0, |(strength, _)| *strength)
            }
            lc::EVP_PKEY_EC => bits / 2,
            lc::EVP_PKEY_ED25519 => 128,
            _ => 0,
        }
    }

    /// The bits of security of its signature's hash.
    pub(super) fn signature_strength(&self) -> u32 {
        let (mut hash, mut bits): (c_int, c_int) = (0, 0);
        // SAFETY: the certificate is alive; what is found out about it is kept in it, under its lock.
        let known =
            unsafe { lc::X509_get_signature_info(self.as_ptr(), &mut hash, null_mut(), &mut bits, null_mut()) } == 1;
        drop(Errors::take());
        match hash {
            _ if !known => 0,
            // What is known of attacks on them, not half of their length.
            lc::NID_md5 => MD5,
            lc::NID_sha1 => 63,
            // The algorithm says what it hashes with: Ed25519, or RSA-PSS, for which the library has SHA-256 and
            // longer.
            lc::NID_undef => 128,
            _ => u32::try_from(bits).unwrap_or(0),
        }
    }
}
