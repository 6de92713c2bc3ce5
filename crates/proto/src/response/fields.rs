//! Field lines of a response: RFC 9112 section 5.

use crate::Span;
use crate::ascii::{TOKEN, class};

use super::error::{ReplyError, shown};
use super::parser::ResponseField;

/// Reads one line without its end, which begins at `start` of the head. `None`: the name has bytes that no name has, though
/// nothing that could be taken for another structure; the line is left out, as nginx leaves out such names.
///
/// A line without a colon is a name without a value, and one that begins with `HTTP/` (a status line in the wrong place) is
/// left out, both as in nginx.
pub(super) fn parse(line: &[u8], start: usize) -> Result<Option<ResponseField>, ReplyError> {
    if line.starts_with(b"HTTP/") {
        return Ok(None);
    }
    let at_colon = line.iter().position(|&b| b == b':' || b <= b' ' || b == 0x7f);
    let name_len = match at_colon {
        Some(0) => return Err(invalid(line, 0)),
        Some(at) if line[at] != b':' => return Err(invalid(line, at)),
        Some(at) => at,
        None => line.len(),
    };
    let value = line.get(name_len + 1..).unwrap_or_default();
    if let Some(at) = memchr::memchr2(0, b'\r', value) {
        return Err(invalid(line, name_len + 1 + at));
    }
    let left = value.iter().take_while(|&&b| is_space(b)).count();
    let right = value[left..].iter().rev().take_while(|&&b| is_space(b)).count();
    if !line[..name_len].iter().all(|&b| class(b) & TOKEN != 0) {
        return Ok(None);
    }
    let value_start = (start + name_len + 1).min(start + line.len()) + left;
    Ok(Some(ResponseField {
        name: span(start, start + name_len),
        value: span(value_start, start + line.len() - right),
    }))
}

const fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// A head's offsets fit: its length is bounded far below 2^32.
pub(super) const fn span(start: usize, end: usize) -> Span {
    Span::new(start as u32, end as u32)
}

/// The error about the byte at `at`, in nginx's form.
fn invalid(line: &[u8], at: usize) -> ReplyError {
    let bad = line.get(at).copied().unwrap_or_default();
    ReplyError::Line(format!("{}\\x{bad:02x}", shown(&line[..at.min(line.len())])))
}
