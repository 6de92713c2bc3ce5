//! Texts that stand for other bytes: escaped URIs, base32, base64.

use std::sync::LazyLock;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, Encoding};

/// Escapes all bytes but letters, digits and a few marks.
pub(super) fn escape(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~!'()*$,@`|".contains(&byte) {
            out.push(byte);
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
    out
}

/// Takes `%XX` and `+` back. Of what is no escape, the byte behind the `%` stays; a second digit that is none is dropped.
pub(super) fn unescape(value: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let Some(first) = bytes.next() else { break };
                match digit(first) {
                    None => out.push(first),
                    Some(high) => out.extend(bytes.next().and_then(digit).map(|low| high << 4 | low)),
                }
            }
            _ => out.push(byte),
        }
    }
    out
}

/// Encodes with this alphabet.
pub(super) fn encode_base32(value: &[u8], alphabet: &[u8; 32], pads: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len().div_ceil(5) * 8);
    for group in value.chunks(5) {
        let mut bytes = [0; 8];
        bytes[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(bytes);
        let count = (group.len() * 8).div_ceil(5);
        out.extend((0..count).map(|index| alphabet[(bits >> (35 - 5 * index) & 31) as usize]));
        if pads {
            out.extend(std::iter::repeat_n(b'=', 8 - count));
        }
    }
    out
}

/// Decodes up to the first `=`. A text of a length that no bytes have stands for none.
pub(super) fn decode_base32(text: &[u8], alphabet: &[u8; 32]) -> Vec<u8> {
    let text = text.split(|byte| *byte == b'=').next().unwrap_or_default();
    if matches!(text.len() % 8, 1 | 3 | 6) {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    for group in text.chunks(8) {
        let value = |letter: &u8| alphabet.iter().position(|known| known == letter).unwrap_or(0) as u64;
        let bits = group.iter().enumerate().fold(0, |bits, (index, letter)| bits | value(letter) << (35 - 5 * index));
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + group.len() * 5 / 8]);
    }
    out
}

/// Decodes up to the first `=`; `None` if it is no base64.
pub(super) fn decode_base64(text: &[u8], url: bool) -> Option<Vec<u8>> {
    fn lenient(strict: &Encoding) -> Encoding {
        let mut rules = strict.specification();
        rules.check_trailing_bits = false;
        rules.encoding().unwrap_or_else(|_| strict.clone())
    }
    static PLAIN: LazyLock<Encoding> = LazyLock::new(|| lenient(&BASE64_NOPAD));
    static URL: LazyLock<Encoding> = LazyLock::new(|| lenient(&BASE64URL_NOPAD));
    let text = text.split(|byte| *byte == b'=').next().unwrap_or_default();
    let rules: &Encoding = if url { &URL } else { &PLAIN };
    rules.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_comes_back() {
        let alphabet = b"0123456789abcdefghijklmnopqrstuv";
        assert_eq!(encode_base32(b"abcde", alphabet, true), b"c5h66p35");
        for len in 0..12 {
            let bytes = &b"\0\xffhello wor"[..len.min(11)];
            for pads in [false, true] {
                let text = encode_base32(bytes, alphabet, pads);
                assert_eq!(decode_base32(&text, alphabet), bytes);
                assert!(!pads || text.len().is_multiple_of(8));
            }
        }
    }
}
