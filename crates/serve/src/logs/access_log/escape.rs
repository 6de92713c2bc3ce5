//! Escaping of values in a log line that a client may have chosen.

use std::borrow::Cow;

/// The value of `escape=` in `log_format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Escape {
    /// `"`, `\` and all bytes that are not printable ASCII become `\xHH`; a missing value is `-`.
    #[default]
    Default,
    /// The value is escaped as in a JSON string; a missing value is empty.
    Json,
    /// Nothing is escaped; a missing value is empty.
    None,
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";

impl Escape {
    /// The values of `escape=`.
    pub const WORDS: &'static [&'static str] = &["default", "json", "none"];

    /// The escaping with this name; case matters, as in nginx.
    pub fn from_word(word: &str) -> Option<Escape> {
        match word {
            "default" => Some(Escape::Default),
            "json" => Some(Escape::Json),
            "none" => Some(Escape::None),
            _ => None,
        }
    }

    /// The text for a missing value.
    pub fn missing(self) -> &'static [u8] {
        match self {
            Escape::Default => b"-",
            Escape::Json | Escape::None => b"",
        }
    }

    /// Appends a value.
    #[inline]
    pub fn push(self, value: &[u8], out: &mut Vec<u8>) {
        if self.is_clean(value) {
            out.extend_from_slice(value);
        } else {
            self.push_escaped(value, out);
        }
    }

    /// Whether no byte has to be escaped, which is true of nearly all values. Checking all bytes without a branch lets
    /// the compiler check many at once.
    #[inline(always)]
    pub fn is_clean(self, value: &[u8]) -> bool {
        match self {
            Escape::Default => !value.iter().fold(false, |found, byte| found | unprintable(*byte)),
            Escape::Json => !value.iter().fold(false, |found, byte| found | breaks_json(*byte)),
            Escape::None => true,
        }
    }

    /// The value that was written like that. An escape that this escaping does not write stays as it is.
    pub fn undo(self, written: &[u8]) -> Cow<'_, [u8]> {
        if self == Escape::None || !written.contains(&b'\\') {
            return Cow::Borrowed(written);
        }
        let mut value = Vec::with_capacity(written.len());
        let mut rest = written;
        while let [byte, after @ ..] = rest {
            let (taken, read) = match (*byte, self) {
                (b'\\', Escape::Default) => (4, hex_of(after, b"x", 2)),
                (b'\\', Escape::Json) => match after.first() {
                    Some(b'u') => utf16_of(rest),
                    letter => (2, letter.and_then(|letter| unescaped_json(*letter)).map(u32::from)),
                },
                _ => (1, None),
            };
            match read {
                // What is above ASCII is escaped as a character in JSON, and as a byte otherwise.
                Some(code) if self == Escape::Json && code > 0x7f => {
                    let letter = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                    value.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = &rest[taken..];
                }
                Some(code) => {
                    value.push(code as u8);
                    rest = &rest[taken..];
                }
                None => {
                    value.push(*byte);
                    rest = after;
                }
            }
        }
        Cow::Owned(value)
    }

    #[cold]
    fn push_escaped(self, value: &[u8], out: &mut Vec<u8>) {
        for byte in value.iter().copied() {
            match self {
                Escape::Default if unprintable(byte) => push_hex(b"\\x", byte, out),
                Escape::Json if breaks_json(byte) => match byte {
                    b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\r' => out.extend_from_slice(b"\\r"),
                    b'\t' => out.extend_from_slice(b"\\t"),
                    0x08 => out.extend_from_slice(b"\\b"),
                    0x0c => out.extend_from_slice(b"\\f"),
                    byte => push_hex(b"\\u00", byte, out),
                },
                _ => out.push(byte),
            }
        }
    }
}

fn push_hex(prefix: &[u8], byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(prefix);
    out.extend_from_slice(&[UPPER[usize::from(byte >> 4)], UPPER[usize::from(byte & 15)]]);
}

/// The length of an escape of UTF-16 in JSON: `\u00e9`.
const UNIT: usize = 6;

/// The number behind this text, with this number of hexadecimal digits.
fn hex_of(text: &[u8], begin: &[u8], digits: usize) -> Option<u32> {
    let digits = text.strip_prefix(begin)?.get(..digits)?;
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u32::from_str_radix(text, 16).ok()
}

/// The character at the beginning of a JSON text that is an escape of UTF-16, with the length of the escape. One above the
/// basic plane has two escapes, a pair of surrogates (RFC 8259 section 7); half of such a pair stands alone for nothing.
fn utf16_of(text: &[u8]) -> (usize, Option<u32>) {
    let unit = |from: usize| text.get(from..).and_then(|text| hex_of(text, b"\\u", UNIT - 2));
    let first = unit(0);
    match (first, first.and_then(|_| unit(UNIT))) {
        (Some(high @ 0xd800..0xdc00), Some(low @ 0xdc00..0xe000)) => {
            (2 * UNIT, Some(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)))
        }
        _ => (UNIT, first),
    }
}

/// The byte that a letter behind a backslash stands for in JSON (RFC 8259 section 7).
const fn unescaped_json(letter: u8) -> Option<u8> {
    match letter {
        b'"' | b'\\' | b'/' => Some(letter),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        _ => None,
    }
}

const fn unprintable(byte: u8) -> bool {
    (byte.wrapping_sub(32) > 126 - 32) | (byte == b'"') | (byte == b'\\')
}

const fn breaks_json(byte: u8) -> bool {
    (byte < 32) | (byte == b'"') | (byte == b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(how: Escape, value: &[u8]) -> Vec<u8> {
        let mut out = b">".to_vec();
        how.push(value, &mut out);
        out
    }

    // The expected text is nginx's output for the same bytes.
    const NASTY: &[u8] = b"a\"b\\c\x01\x1f\x7f\x80\xff\t d\n\r\x08\x0c/'";

    #[test]
    fn unprintable_bytes_are_written_in_hex() {
        assert_eq!(escaped(Escape::Default, NASTY), br">a\x22b\x5Cc\x01\x1F\x7F\x80\xFF\x09 d\x0A\x0D\x08\x0C/'");
        assert_eq!(escaped(Escape::Default, b"plain ~ text!"), b">plain ~ text!");
        assert_eq!(escaped(Escape::Default, b""), b">");
    }

    #[test]
    fn json_strings_stay_strings() {
        let wanted = b">a\\\"b\\\\c\\u0001\\u001F\x7f\x80\xff\\t d\\n\\r\\b\\f/'";
        assert_eq!(escaped(Escape::Json, NASTY), wanted);
    }

    #[test]
    fn what_was_escaped_is_read_back() {
        for how in [Escape::Default, Escape::Json, Escape::None] {
            for value in [NASTY, b"plain", b"", b"\\x41\\u0041"] {
                assert_eq!(how.undo(&escaped(how, value)[1..]), value, "{how:?}");
            }
        }
        assert_eq!(Escape::Default.undo(br"\q\x4\xzz\"), &br"\q\x4\xzz\"[..]);
        assert_eq!(Escape::Json.undo(br"\/\u20ac\ud800\u12"), "/\u{20ac}\u{fffd}\\u12".as_bytes());
    }

    #[test]
    fn two_halves_of_a_character_in_json_are_one_character() {
        for (written, value) in [
            (&br"a\ud83d\ude00b"[..], "a\u{1f600}b"),
            (br"\uD800\uDC00\uDBFF\uDFFF", "\u{10000}\u{10ffff}"),
            // A half alone, two of the same kind, and a half in front of another character.
            (br"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (br"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (br"\ud83d\u0041", "\u{fffd}A"),
            (br"\ud83d\n\ud83d\\ude00", "\u{fffd}\n\u{fffd}\\ude00"),
        ] {
            let text = String::from_utf8_lossy(written);
            assert_eq!(Escape::Json.undo(written), value.as_bytes(), "{text}");
        }
        assert_eq!(Escape::Default.undo(br"\ud83d\ude00"), &br"\ud83d\ude00"[..]);
    }

    #[test]
    fn nothing_may_be_escaped() {
        assert_eq!(escaped(Escape::None, NASTY)[1..], *NASTY);
    }

    #[test]
    fn every_byte_is_found_wherever_it_stands() {
        for byte in 0..=255_u8 {
            for len in [0, 1, 15, 16, 17, 40] {
                let mut value = vec![b'.'; len];
                value.push(byte);
                value.extend_from_slice(&[b'.'; 5]);
                let line = escaped(Escape::Default, &value);
                assert_eq!(line.len() - 1 - value.len(), if unprintable(byte) { 3 } else { 0 }, "byte {byte} at {len}");
                let json = [b"\"", &escaped(Escape::Json, &value)[1..], b"\""].concat();
                if byte < 0x80 {
                    let text: String = serde_json::from_slice(&json).unwrap();
                    assert_eq!(text.as_bytes(), value);
                }
            }
        }
    }
}
