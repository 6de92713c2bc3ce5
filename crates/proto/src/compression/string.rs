//! Strings as they are written: RFC 7541 section 5.2, which RFC 9204 section 4.1.2 takes over with other numbers of bits.

use super::{huffman, integer};

/// Writes a string, Huffman-coded if that makes it shorter. `mask` has the bits of its first byte in which its length
/// begins, the bit above them says whether it is coded, and `pattern` has the bits above that one. With `LOWER`, it is
/// brought into lower case.
pub(crate) fn write<const LOWER: bool>(pattern: u8, mask: u8, text: &[u8], out: &mut Vec<u8>) {
    let coded = pattern | (mask + 1);
    if text.len() >= usize::from(mask) {
        return write_long::<LOWER>(pattern, coded, mask, text, out);
    }
    // Whatever it becomes, the length is in one byte, so that the string can be coded without measuring it before.
    let start = out.len();
    out.resize(start + 1 + text.len(), 0);
    let Some((first, target)) = out[start..].split_first_mut() else { return };
    let shorter = target.len().saturating_sub(1);
    match huffman::encode::<LOWER>(text, &mut target[..shorter]) {
        Some(len) if !text.is_empty() => {
            *first = coded | len as u8;
            out.truncate(start + 1 + len);
        }
        _ => {
            *first = pattern | text.len() as u8;
            target.copy_from_slice(text);
            if LOWER {
                target.make_ascii_lowercase();
            }
        }
    }
}

#[inline(never)]
fn write_long<const LOWER: bool>(pattern: u8, coded: u8, mask: u8, text: &[u8], out: &mut Vec<u8>) {
    let len = huffman::encoded_len::<LOWER>(text);
    if len < text.len() {
        integer::write(coded, mask, len, out);
        let start = out.len();
        out.resize(start + len, 0);
        // The length was measured, so this finds room.
        let _ = huffman::encode::<LOWER>(text, &mut out[start..]);
    } else {
        integer::write(pattern, mask, text.len(), out);
        let start = out.len();
        out.extend_from_slice(text);
        if LOWER {
            out[start..].make_ascii_lowercase();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8], lower: bool) -> Vec<u8> {
        let mut out = b"x".to_vec();
        if lower {
            write::<true>(0, 0x7f, text, &mut out)
        } else {
            write::<false>(0, 0x7f, text, &mut out)
        }
        assert_eq!(out.remove(0), b'x');
        out
    }

    #[test]
    fn the_shorter_form_is_written() {
        assert_eq!(written(b"", false), [0]);
        assert_eq!(written(b"302", false), [0x82, 0x64, 0x02]);
        // As long either way.
        assert_eq!(written(b"7", false), [1, b'7']);
        assert_eq!(written(b"\\\\", false), [2, b'\\', b'\\']);
        assert_eq!(written(b"custom-key", false)[..3], [0x88, 0x25, 0xa8]);
    }

    #[test]
    fn long_strings_have_longer_lengths() {
        for len in [126, 127, 128, 1000] {
            // Each `a` has five bits.
            let (coded, plain) = (written(&vec![b'a'; len], false), written(&vec![0xff; len], false));
            let mut lengths = Vec::new();
            integer::write(0x80, 0x7f, (len * 5).div_ceil(8), &mut lengths);
            assert!(coded.starts_with(&lengths) && coded.len() == lengths.len() + (len * 5).div_ceil(8));
            lengths.clear();
            integer::write(0, 0x7f, len, &mut lengths);
            assert!(plain.starts_with(&lengths) && plain.ends_with(&[0xff; 100]) && plain.len() == lengths.len() + len);
        }
    }

    #[test]
    fn names_are_brought_into_lower_case() {
        for text in [b"X-Custom-NAME".to_vec(), b"{{{{{{|||A".to_vec(), b"Q".repeat(200), b"{Q".repeat(200)] {
            assert_eq!(written(&text, true), written(&text.to_ascii_lowercase(), false));
        }
    }

    /// The lengths of QPACK's names have three or five bits.
    #[test]
    fn a_length_may_have_few_bits() {
        let mut out = Vec::new();
        write::<false>(0x20, 0x07, b"aaaaaa", &mut out);
        write::<false>(0x20, 0x07, b"aaaaaaa", &mut out);
        write::<false>(0x20, 0x07, b"\xff", &mut out);
        assert_eq!(out[0], 0x2c);
        assert_eq!(out[5], 0x2d);
        assert_eq!(out[11..], [0x21, 0xff]);
    }
}
