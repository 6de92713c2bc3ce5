//! Classes of bytes, one table look-up each.

/// In a field name: letters, digits and `-`, which nginx accepts whatever is configured.
pub const NAME: u8 = 1;
/// Allowed in a registered name of RFC 3986: unreserved, sub-delims; the parser handles `%` and `.`.
pub const HOST: u8 = 2;
/// A host byte that needs no further look: not upper-case, not `.`, not `%`.
pub const HOST_PLAIN: u8 = 4;
/// A control character: below 0x20, or 0x7f.
pub const CONTROL: u8 = 8;
/// In a method, as nginx allows it: upper-case letters, `_` and `-`.
pub const METHOD: u8 = 16;
/// In a token: RFC 9110 section 5.6.2.
pub const TOKEN: u8 = 32;
/// In a scheme after its first letter: RFC 3986 section 3.1.
pub const SCHEME: u8 = 64;

/// In a path, as it is: anything but `%`, NUL, `?`, `#`, and `.` and `/`, at which the parser looks.
pub const PATH: u8 = 128;

/// The class bits of a byte.
#[inline(always)]
pub const fn class(b: u8) -> u8 {
    CLASSES[b as usize]
}

static CLASSES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let mut c = 0;
        if b.is_ascii_alphanumeric() || b == b'-' {
            c |= NAME;
        }
        let sub_delim = matches!(b, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        let unreserved = b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
        if sub_delim || unreserved || b == b'%' {
            c |= HOST;
            if !b.is_ascii_uppercase() && b != b'.' && b != b'%' {
                c |= HOST_PLAIN;
            }
        }
        if b < 0x20 || b == 0x7f {
            c |= CONTROL;
        }
        if b.is_ascii_uppercase() || b == b'_' || b == b'-' {
            c |= METHOD;
        }
        let mark = matches!(
            b,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        );
        if b.is_ascii_alphanumeric() || mark {
            c |= TOKEN;
        }
        if b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.') {
            c |= SCHEME;
        }
        if !matches!(b, 0 | b'%' | b'?' | b'#' | b'.' | b'/') {
            c |= PATH;
        }
        table[i] = c;
        i += 1;
    }
    table
};

/// The place of the first byte below 0x10: NUL, tab and the ends of lines are among these. It takes eight bytes at a
/// time at first, since most values are short.
#[inline]
pub fn find_control(bytes: &[u8]) -> Option<usize> {
    let (front, rest) = bytes.split_at(bytes.len().min(32));
    match first_below(front, 0x10, 0) {
        None if !rest.is_empty() => Some(front.len() + find_control_far(rest)?),
        found => found,
    }
}

/// The place of the first byte below 0x10 in a longer text, by blocks of 32 bytes.
fn find_control_far(bytes: &[u8]) -> Option<usize> {
    let (blocks, _) = bytes.as_chunks::<32>();
    // There is no early return within a block, so that a block takes a few instructions.
    let without = blocks.iter().take_while(|block| !block.iter().fold(false, |any, &b| any | (b < 0x10))).count();
    let passed = without * 32;
    first_below(&bytes[passed..], 0x10, 0).map(|at| passed + at)
}

/// Whether there is a space, a control character or 0x7f.
#[inline]
pub fn has_space_or_control(bytes: &[u8]) -> bool {
    first_below(bytes, 0x21, 0).is_some() || first_below(bytes, 1, 0x7f).is_some()
}

/// The place of the first colon. It takes eight bytes at a time, since names are short.
#[inline]
pub fn find_colon(bytes: &[u8]) -> Option<usize> {
    first_below(bytes, 1, b':')
}

/// The place of the first semicolon. It takes eight bytes at a time.
#[inline]
pub fn find_semicolon(bytes: &[u8]) -> Option<usize> {
    first_below(bytes, 1, b';')
}

/// Whether there is NUL or the end of a line, which no value of a field may have (RFC 9110 section 5.5).
#[inline]
pub fn has_null_or_line_end(value: &[u8]) -> bool {
    find_control(value).is_some() && memchr::memchr3(0, b'\r', b'\n', value).is_some()
}

/// The place of the first byte that is less than `limit` once the bits of `mask` are inverted in it.
#[inline(always)]
fn first_below(bytes: &[u8], limit: u8, mask: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (limits, masks) = (ONES * u64::from(limit), ONES * u64::from(mask));
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word) ^ masks;
        // The highest bit of each byte below the limit; perhaps also of bytes above the first such one.
        let found = word.wrapping_sub(limits) & !word & HIGHS;
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&b| b ^ mask < limit).map(|at| words.len() * 8 + at)
}

/// A text of `N` bytes in lower-case letters.
pub(crate) const fn lower<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut lower = [0; N];
    let mut at = 0;
    while at < N {
        lower[at] = text[at].to_ascii_lowercase();
        at += 1;
    }
    lower
}

/// Whether two texts are equal: without a call, since they are short.
#[inline]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let words = |text: &[u8]| Some((u64::from_le_bytes(*text.first_chunk()?), u64::from_le_bytes(*text.last_chunk()?)));
    let halves =
        |text: &[u8]| Some((u32::from_le_bytes(*text.first_chunk()?), u32::from_le_bytes(*text.last_chunk()?)));
    match (words(one), words(other)) {
        // These are the bytes between the first and the last eight.
        (Some(ends), Some(others)) => {
            ends == others
                && one.len().checked_sub(16).is_none_or(|between| one[8..8 + between] == other[8..8 + between])
        }
        _ => match (halves(one), halves(other)) {
            (Some(ends), Some(others)) => ends == others,
            _ => one.iter().zip(other).all(|(one, other)| one == other),
        },
    }
}

/// Comma-separated elements of a list field (RFC 9110 section 5.6.1), trimmed, empty ones skipped. Quotes are not
/// recognised: this is for lists of plain tokens.
pub fn tokens(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|t| !t.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_control_byte_is_found_wherever_it_is() {
        for len in 0..40 {
            for fill in [0x10, b'a', 0x80, 0xff] {
                let mut bytes = vec![fill; len];
                assert_eq!(find_control(&bytes), None);
                for at in (0..len).rev() {
                    for found in [0, b'\t', b'\n', b'\r', 0x0f] {
                        bytes[at] = found;
                        assert_eq!(find_control(&bytes), Some(at), "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn same_texts_are_the_same() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).map(|n| n as u8 + b'0').collect();
            assert!(same(&text, &text.clone()));
            assert!(!same(&text, &[&text[..], b"0"].concat()));
            for at in 0..len {
                let mut other = text.clone();
                other[at] ^= 0x20;
                assert!(!same(&text, &other), "{len} {at}");
            }
        }
    }

    #[test]
    fn the_first_colon_is_found_wherever_it_is() {
        for len in 0..40 {
            for fill in [0, b':' - 1, b':' + 1, b':' | 0x80] {
                let mut bytes = vec![fill; len];
                assert_eq!(find_colon(&bytes), None);
                for at in (0..len).rev() {
                    bytes[at] = b':';
                    assert_eq!(find_colon(&bytes), Some(at), "{bytes:?}");
                }
            }
        }
    }
}
