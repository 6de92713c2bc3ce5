//! What an object is found by.

use md5::{Digest, Md5};

/// The MD5 sum of a key's text (nginx's `proxy_cache_key`), which also names the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The key of a text.
    pub fn of(text: &[u8]) -> Key {
        Key(Md5::digest(text).into())
    }

    /// Its 32 hexadecimal digits, as the file is named.
    pub fn hex(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 32];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_md5_sum_of_its_text() {
        assert_eq!(Key::of(b"").hex(), *b"d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(format!("{:?}", Key::of(b"httpexample.com/")).len(), 32);
    }
}
