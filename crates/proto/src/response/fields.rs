//! Field lines of a response: RFC 9112 section 5.

use crate::ascii::{self, TOKEN, class};
use crate::{HeaderId, Span};

use super::error::{ReplyError, shown};
use super::parser::ResponseField;

/// Names longer than this are parsed the slower way.
const LONG_NAME: usize = 64;

/// Reads the line that begins at `start` with its end, if it has the usual form. This is a name, a colon, at most one
/// space, and a value that goes up to the line's end. Also returns where the next line begins. `None`: the line is not
/// complete, is the empty line at a head's end, or needs [`parse`].
#[inline(always)]
pub(super) fn plain(buf: &[u8], start: usize) -> Option<(ResponseField, usize)> {
    let line = buf.get(start..)?;
    let name_len = ascii::find_colon(&line[..line.len().min(LONG_NAME)])?;
    let (name, rest) = line.split_at(name_len);
    let (id, usual) = HeaderId::look_up(name);
    // A known name is a token.
    if id == HeaderId::Other && (name.is_empty() || name.iter().any(|&b| class(b) & TOKEN == 0)) {
        return None;
    }
    let (left, value) = match rest {
        [_, b' ', value @ ..] => (start + name_len + 2, value),
        [_, value @ ..] => (start + name_len + 1, value),
        [] => return None,
    };
    let len = ascii::find_control(value)?;
    let (value, end) = value.split_at(len);
    let end_len = match end {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return None,
    };
    if value.first() == Some(&b' ') || value.last() == Some(&b' ') {
        return None;
    }
    let right = left + len;
    Some((ResponseField { id, usual, name: span(start, start + name_len), value: span(left, right) }, right + end_len))
}

/// Reads one line without its end, which begins at `start` of the head. `None`: the line is left out, as in nginx: it
/// begins with `HTTP/`, and is a status line in the wrong place.
///
/// Also as in nginx, a line without a colon is a name without a value. A name may have invalid bytes (RFC 9110 section
/// 5.1), but none that could be mistaken for another structure: no control characters and no space.
pub(super) fn parse(line: &[u8], start: usize) -> Result<Option<ResponseField>, ReplyError> {
    let token = line.iter().position(|&b| class(b) & TOKEN == 0).unwrap_or(line.len());
    let name_len = match line.get(token) {
        Some(b':') if token > 0 => token,
        None => token,
        Some(_) => match odd_name(line)? {
            Some(len) => len,
            None => return Ok(None),
        },
    };
    let value = line.get(name_len + 1..).unwrap_or_default();
    // There is no early return: the loop vectorises, and bad bytes are rare.
    if value.iter().fold(false, |bad, &b| bad | (b == 0) | (b == b'\r'))
        && let Some(at) = memchr::memchr2(0, b'\r', value)
    {
        return Err(invalid(line, name_len + 1 + at));
    }
    let left = value.iter().take_while(|&&b| is_space(b)).count();
    let right = value[left..].iter().rev().take_while(|&&b| is_space(b)).count();
    let value_start = (start + name_len + 1).min(start + line.len()) + left;
    let (id, usual) = HeaderId::look_up(&line[..name_len]);
    Ok(Some(ResponseField {
        id,
        usual,
        name: span(start, start + name_len),
        value: span(value_start, start + line.len() - right),
    }))
}

/// The end of a name that is not a token up to a colon; `None` if the line is left out.
fn odd_name(line: &[u8]) -> Result<Option<usize>, ReplyError> {
    if line.starts_with(b"HTTP/") {
        return Ok(None);
    }
    match line.iter().position(|&b| b == b':' || b <= b' ' || b == 0x7f) {
        Some(0) => Err(invalid(line, 0)),
        Some(at) if line[at] != b':' => Err(invalid(line, at)),
        Some(at) => Ok(Some(at)),
        None => Ok(Some(line.len())),
    }
}

const fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// Makes a span. The offsets of a head fit: its length is bounded far below 2^32.
pub(super) const fn span(start: usize, end: usize) -> Span {
    Span::new(start as u32, end as u32)
}

/// The error about the byte at `at`, in nginx's form.
fn invalid(line: &[u8], at: usize) -> ReplyError {
    let bad = line.get(at).copied().unwrap_or_default();
    ReplyError::Line(format!("{}\\x{bad:02x}", shown(&line[..at.min(line.len())])))
}
