//! Bytes as text, and back: configuration is bytes, as in nginx, and the words of its directives are `str`.
//!
//! A byte outside of valid UTF-8 stands in such a text as one code point of its own. The code point is at the end of
//! the last private-use plane (`0xE9` is U+10FFE9). Bytes that spell one of these code points in UTF-8 are treated as
//! if they were not valid, so that no two byte strings have the same text. [`bytes_of`] gives back what [`text_of`] was
//! given. The reasons are in `docs/design/0043-bytes-in-texts.md`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use memchr::memchr;

/// The code point of the byte 0; the code points of 0x80 to 0xff are used.
const BASE: u32 = 0x10_ff00;
/// The first byte of these code points in UTF-8.
const LEAD: u8 = 0xf4;
/// The number of bytes of each of them in UTF-8.
const WIDTH: usize = 4;

/// The text of any bytes: the bytes themselves where they are UTF-8.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if memchr(LEAD, bytes).is_none_or(|_| bytes_of(text) == bytes) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

#[cold]
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 3 * WIDTH);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match byte_of(letter) {
                None => text.push(letter),
                Some(_) => letter.encode_utf8(&mut [0; WIDTH]).bytes().for_each(|byte| text.push(letter_of(byte))),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push(letter_of(*byte)));
    }
    text
}

/// The text of a path, or of a word of the command line.
pub fn text_of_os<N: AsRef<OsStr> + ?Sized>(name: &N) -> Cow<'_, str> {
    text_of(name.as_ref().as_bytes())
}

/// The bytes of a text that [`text_of`] made, or of a part of it.
pub fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    let Some(first) = next_escape(bytes, 0) else { return Cow::Borrowed(bytes) };
    let mut out = bytes[..first].to_vec();
    let mut at = first;
    while let Some(byte) = escape_at(bytes, at) {
        out.push(byte);
        at += WIDTH;
        let end = next_escape(bytes, at).unwrap_or(bytes.len());
        out.extend_from_slice(&bytes[at..end]);
        at = end;
    }
    Cow::Owned(out)
}

/// The bytes of a text that is not needed any more.
pub fn into_bytes(text: String) -> Vec<u8> {
    match bytes_of(&text) {
        Cow::Owned(bytes) => bytes,
        Cow::Borrowed(_) => text.into_bytes(),
    }
}

/// The path of a text.
pub fn path_of(text: &str) -> Cow<'_, Path> {
    match bytes_of(text) {
        Cow::Borrowed(bytes) => Cow::Borrowed(Path::new(OsStr::from_bytes(bytes))),
        Cow::Owned(bytes) => Cow::Owned(PathBuf::from(std::ffi::OsString::from_vec(bytes))),
    }
}

/// The text for a place that takes nothing but UTF-8, such as JSON: each byte that is not UTF-8 becomes U+FFFD.
/// What goes on to a server, into a path, a key, a log or a response is never made with it.
pub fn display_only(text: &str) -> Cow<'_, str> {
    match bytes_of(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(_) => Cow::Owned(
            text.chars().map(|letter| byte_of(letter).map_or(letter, |_| char::REPLACEMENT_CHARACTER)).collect(),
        ),
    }
}

/// The byte that is not UTF-8 for which a code point stands in a text of [`text_of`], if it stands for one.
pub fn byte_of(letter: char) -> Option<u8> {
    u8::try_from(u32::from(letter).checked_sub(BASE)?).ok().filter(|byte| *byte >= 0x80)
}

fn letter_of(byte: u8) -> char {
    char::from_u32(BASE + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that the code point at this place stands for: U+10FF80 to U+10FFFF are F4 8F BE 80 to F4 8F BF BF.
fn escape_at(bytes: &[u8], at: usize) -> Option<u8> {
    match bytes.get(at..at + WIDTH)? {
        [LEAD, 0x8f, high @ 0xbe..=0xbf, low] => Some(((high & 1) << 6) | (low & 0x3f) | 0x80),
        _ => None,
    }
}

/// The place of the first code point at or behind `from` that stands for a byte.
fn next_escape(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(LEAD, bytes.get(at..)?)?;
        if escape_at(bytes, at).is_some() {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn utf8_is_its_own_text_and_other_bytes_come_back() {
        for text in ["", "a", "caf\u{e9}", "\u{10ff7f}", "\u{10ffff}"] {
            assert_eq!(bytes_of(&text_of(text.as_bytes())), text.as_bytes());
        }
        assert!(matches!(text_of("caf\u{e9}".as_bytes()), Cow::Borrowed("caf\u{e9}")));
        assert_eq!(text_of(b"caf\xe9/x"), "caf\u{10ffe9}/x");
        assert_eq!(text_of(b"\x80\xff"), "\u{10ff80}\u{10ffff}");
        assert_eq!(bytes_of("caf\u{10ffe9}/x"), &b"caf\xe9/x"[..]);
        assert_eq!(path_of("h\u{10ffe9}").as_os_str().as_bytes(), b"h\xe9");
        assert_eq!(display_only("h\u{10ffe9}\u{e9}"), "h\u{fffd}\u{e9}");
    }

    #[test]
    fn bytes_that_spell_a_code_point_of_these_are_no_such_byte() {
        let spelled = "\u{10ffe9}".as_bytes();
        let text = text_of(spelled);
        assert_eq!(text.chars().count(), WIDTH);
        assert_eq!(bytes_of(&text), spelled);
        assert_ne!(text, text_of(b"\xe9"));
    }

    proptest! {
        #[test]
        fn every_byte_string_has_a_text_of_its_own(
            parts in prop::collection::vec(
                prop_oneof![
                    any::<u8>().prop_map(|byte| vec![byte]),
                    (0x10_ff70_u32..=0x10_ffff).prop_map(|code| char::from_u32(code).unwrap().to_string().into_bytes()),
                    "[a\u{e4}\u{20ac}]".prop_map(String::into_bytes),
                ],
                0..12,
            )
        ) {
            let bytes = parts.concat();
            let text = text_of(&bytes).into_owned();
            prop_assert_eq!(bytes_of(&text), &bytes[..]);
            prop_assert_eq!(into_bytes(text.clone()), bytes.clone());
            // A text may be cut anywhere, and put together again.
            for (at, _) in text.char_indices() {
                prop_assert_eq!([bytes_of(&text[..at]), bytes_of(&text[at..])].concat(), bytes.clone());
            }
        }
    }
}
