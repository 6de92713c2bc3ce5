//! Functions that look through the fields of a message.

use bytes::Bytes;

/// The largest number of seconds that a field can ask for: 2^31, which RFC 9111 section 1.2.2 prescribes for larger
/// values.
pub const MAX_SECONDS: u64 = 1 << 31;

/// A field: its name and its value.
pub type Field = (Bytes, Bytes);

/// The values of all fields of this name (in lower or upper case), in their order.
pub fn values<'a>(fields: &'a [Field], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

/// The text without the white space around it.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let text = match text.iter().position(|b| !matches!(b, b' ' | b'\t')) {
        Some(begin) => &text[begin..],
        None => return &[],
    };
    let end = text.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |last| last + 1);
    &text[..end]
}

/// The members of a list, without white space and empty members. Quotes are not recognised: this is for lists of names.
pub(super) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(trim).filter(|member| !member.is_empty())
}

/// A number of seconds, digits only; a number that is too large becomes [`MAX_SECONDS`].
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = text.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.min(MAX_SECONDS))
}
