//! The keys of objects, and the names of their files.

use md5::{Digest, Md5};

/// The MD5 sum of a key's text (nginx's `proxy_cache_key`), which also names the file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The key of a text.
    pub fn of(text: &[u8]) -> Key {
        Key(Md5::digest(text).into())
    }

    /// The key's 32 hexadecimal digits, as in the name of the file.
    pub fn hex(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = [0; 32];
        for (pair, byte) in out.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out
    }

    /// The key of 32 lower-case hexadecimal digits.
    pub fn from_hex(hex: &[u8]) -> Option<Key> {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut key = [0; 16];
        if hex.len() != 2 * key.len() {
            return None;
        }
        for (byte, pair) in key.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Key(key))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

/// The most levels of folders, as in nginx.
pub const MAX_LEVELS: usize = 3;

/// Distribution of entries over folders: nginx's `levels=` of `proxy_cache_path`. Each level takes one or two digits
/// from the end of the key's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// The digits of each level; zero beyond the last one.
    digits: [u8; MAX_LEVELS],
}

impl Levels {
    /// Reads a value such as `1:2`: one to three numbers, each 1 or 2; an empty text means that all files are in one
    /// folder. `None` is nginx's `invalid "levels"`.
    pub fn parse(text: &str) -> Option<Levels> {
        let mut levels = Levels::default();
        if text.is_empty() {
            return Some(levels);
        }
        let mut slots = levels.digits.iter_mut();
        for part in text.split(':') {
            *slots.next()? = match part {
                "1" => 1,
                "2" => 2,
                _ => return None,
            };
        }
        Some(levels)
    }

    /// The number of digits of each level.
    pub fn digits(&self) -> impl Iterator<Item = usize> + '_ {
        self.digits.iter().take_while(|&&digits| digits > 0).map(|&digits| usize::from(digits))
    }

    /// The folder of a key's file, below the cache's own, without a slash at its end; empty without levels.
    pub fn folder(&self, key: Key) -> String {
        let mut name = self.file_name(key);
        name.truncate(name.len() - 32);
        name.pop();
        name
    }

    /// The path of a key's file below the cache's own folder: `c/29/b7f54b2df7773722d382f4809d65029c`.
    pub fn file_name(&self, key: Key) -> String {
        let hex = key.hex();
        let hex = std::str::from_utf8(&hex).unwrap_or_default();
        let mut name = String::with_capacity(hex.len() + 9);
        let mut end = hex.len();
        for digits in self.digits() {
            name.push_str(&hex[end - digits..end]);
            name.push('/');
            end -= digits;
        }
        name.push_str(hex);
        name
    }

    /// The key whose file has this path below the cache's own folder: the inverse of [`file_name`](Levels::file_name).
    /// `None` for any other file.
    pub fn key_of(&self, name: &str) -> Option<Key> {
        let hex = name.rsplit('/').next()?;
        let key = Key::from_hex(hex.as_bytes())?;
        (self.file_name(key) == name).then_some(key)
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

    #[test]
    fn levels_are_those_that_nginx_takes() {
        for text in ["", "1", "2", "1:2", "2:1", "1:2:2", "2:2:2"] {
            assert!(Levels::parse(text).is_some(), "{text}");
        }
        for text in ["3", "0", "12", "1:", ":1", "1::2", "1:3", "1:2:", "2:2:2:2", "1:2:2:", "a", "01", " 1", "1;2"] {
            assert_eq!(Levels::parse(text), None, "{text}");
        }
    }

    #[test]
    fn files_are_named_as_the_manual_says() {
        let key = Key::from_hex(b"b7f54b2df7773722d382f4809d65029c").expect("a key");
        for (levels, name) in [
            ("", "b7f54b2df7773722d382f4809d65029c"),
            ("1", "c/b7f54b2df7773722d382f4809d65029c"),
            ("1:2", "c/29/b7f54b2df7773722d382f4809d65029c"),
            ("2:2:1", "9c/02/5/b7f54b2df7773722d382f4809d65029c"),
        ] {
            let levels = Levels::parse(levels).expect("levels");
            assert_eq!(levels.file_name(key), name);
            assert_eq!(levels.folder(key), name.rsplit_once('/').unwrap_or_default().0);
            assert_eq!(levels.key_of(name), Some(key));
            assert_eq!(levels.key_of(&format!("x/{name}")), None);
            assert_eq!(levels.key_of(&name.to_uppercase()), None);
        }
        assert_eq!(Levels::parse("1").expect("levels").key_of("d/b7f54b2df7773722d382f4809d65029c"), None);
    }
}
