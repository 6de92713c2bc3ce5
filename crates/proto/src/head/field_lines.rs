//! The lines that fields of HTTP/2 and HTTP/3 become: which names and values may stand in them.

use super::parser::bit;
use super::types::{Field, RequestHead};
use crate::{HeaderId, HostSpan, Span, ascii};

/// The directives about the fields of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldRules {
    /// `max_headers`: how many fields a head may have, ignored ones counted, pseudo-header fields and cookies not; 0 sets no
    /// limit.
    pub max_headers: usize,
    /// `ignore_invalid_headers`: drop fields whose names have other bytes than letters, digits and `-`. If off, such
    /// fields are kept as they are.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: whether `_` is a valid byte of a name.
    pub underscores_in_headers: bool,
    /// Whether the extended CONNECT is offered (RFC 8441, RFC 9220). Otherwise nobody knows `:protocol`.
    pub extended_connect: bool,
}

impl Default for FieldRules {
    fn default() -> Self {
        FieldRules {
            max_headers: 1000,
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            extended_connect: false,
        }
    }
}

/// Whether a known name is in lower case: it has letters and `-` alone.
#[inline]
pub(super) fn is_lower(name: &[u8]) -> bool {
    name.iter().fold(0x20, |all, byte| all & byte) != 0
}

/// Whether an unknown name is valid by the rules of the configuration; `None` if it is not one of this protocol.
#[inline]
pub(super) fn other_name(name: &[u8], rules: &FieldRules) -> Option<bool> {
    let mut is_valid = true;
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => {}
            b'_' => is_valid &= rules.underscores_in_headers,
            0..=b' ' | b':' | b'A'..=b'Z' | 0x7f => return None,
            _ => is_valid = false,
        }
    }
    (!name.is_empty()).then_some(is_valid)
}

/// Whether a value begins or ends with a space or a tab.
#[inline]
pub(super) fn has_space_around(value: &[u8]) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    value.first().is_some_and(is_space) || value.last().is_some_and(is_space)
}

/// Chooses the fields of a head that a [`FieldHeadBuilder`](super::FieldHeadBuilder) has made by other rules for names:
/// the rules of the server that the request is for. This server was not known before. The head of a malformed request
/// stays as it is.
pub fn apply_name_rules(head: &mut RequestHead, buffer: &[u8], rules: &FieldRules) {
    if head.request_line.is_empty() {
        return;
    }
    let text = &buffer[..(head.len as usize).saturating_sub(2).min(buffer.len())];
    read_lines(head, text, (head.request_line.end as usize + 2).min(text.len()), rules);
}

/// Reads the fields of a text again, which begin at `start`.
pub(super) fn read_lines(head: &mut RequestHead, text: &[u8], start: usize, rules: &FieldRules) {
    head.fields.clear();
    head.present = 0;
    let mut at = start;
    for line in text[start..].split_inclusive(|byte| *byte == b'\n') {
        let begin = at;
        at += line.len();
        let Some(name_len) = ascii::find_colon(line) else { continue };
        let name = &line[..name_len];
        let id = HeaderId::of(name);
        let is_valid = id != HeaderId::Other || other_name(name, rules).unwrap_or(false);
        if !is_valid && rules.ignore_invalid_headers {
            continue;
        }
        let (value_start, value_end) = ((begin + name_len + 2) as u32, at.saturating_sub(2) as u32);
        head.fields.push(Field { name_start: begin as u32, value_start, value_end, name_len: name_len as u16, id });
        head.present |= bit(id);
        if id == HeaderId::Host
            && let Some(parts) = head.hosts.parse(Span::new(value_start, value_end).of(text))
        {
            head.host = Some(HostSpan::at(value_start, parts));
        }
    }
}
