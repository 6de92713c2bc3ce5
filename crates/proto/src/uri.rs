//! Turning request targets into paths, and escaping bytes for URIs.

use std::borrow::Cow;

use crate::RequestError;
use crate::ascii::{PATH, class};

/// A request target, taken apart and normalised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uri<'a> {
    /// The path with escapes decoded, `.` and `..` resolved and, if asked for, runs of slashes merged: `$uri`. Borrowed
    /// from the start of the target if it already has this form. Begins with `/`, and contains neither a NUL nor a `..`
    /// segment.
    pub path: Cow<'a, [u8]>,
    /// The text behind the first `?`, as sent, without the fragment: `$args`. `None` without a `?`.
    pub args: Option<&'a [u8]>,
}

/// Takes a request target (path and arguments) apart and normalises the path as nginx does.
///
/// An empty path, as in `http://host?args`, is `/`. Runs of slashes are merged if `merge_slashes` is on, before `..`
/// takes away the last segment.
///
/// # Errors
/// [`RequestError::Uri`] for a path that does not begin with `/`, a bad `%` escape, a NUL, or a `..` above the root.
pub fn normalise(target: &[u8], merge_slashes: bool) -> Result<Uri<'_>, RequestError> {
    if let Some(end) = plain_path(target, merge_slashes) {
        let (path, rest) = target.split_at(end);
        let args = rest.get(1..).map(|args| &args[..memchr::memchr(b'#', args).unwrap_or(args.len())]);
        return Ok(Uri { path: Cow::Borrowed(path), args });
    }
    let end = memchr::memchr(b'#', target).unwrap_or(target.len());
    let target = &target[..end];
    let (raw, args) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    if raw.is_empty() && args.is_some() {
        return Ok(Uri { path: Cow::Borrowed(b"/"), args });
    }
    if raw.first() != Some(&b'/') {
        return Err(RequestError::Uri);
    }
    let path = match plain_path(raw, merge_slashes) {
        Some(_) => Cow::Borrowed(raw),
        None => Cow::Owned(rewrite(raw, merge_slashes)?),
    };
    Ok(Uri { path, args })
}

/// The end of a target's path, if the path can stay as it is. It has no escape, no NUL, no segment that begins with a
/// dot, and no run of slashes to merge. Only the arguments can follow it.
fn plain_path(target: &[u8], merge_slashes: bool) -> Option<usize> {
    if target.first() != Some(&b'/') {
        return None;
    }
    let mut before = 0;
    for (i, &b) in target.iter().enumerate() {
        if class(b) & PATH == 0 {
            match b {
                b'?' => return Some(i),
                b'.' if before != b'/' => {}
                b'/' if before != b'/' || !merge_slashes => {}
                _ => return None,
            }
        }
        before = b;
    }
    Some(target.len())
}

/// The path with everything resolved.
fn rewrite(raw: &[u8], merge_slashes: bool) -> Result<Vec<u8>, RequestError> {
    let mut out: Vec<u8> = Vec::with_capacity(raw.len() + 1);
    let mut i = 0;
    while i < raw.len() {
        let mut b = raw[i];
        i += 1;
        if b == b'%' {
            b = raw.get(i..i + 2).and_then(hex_pair).ok_or(RequestError::Uri)?;
            i += 2;
        }
        match b {
            0 => return Err(RequestError::Uri),
            b'/' => end_segment(&mut out, merge_slashes)?,
            _ => out.push(b),
        }
    }
    // The last segment has no slash after it, but a dot segment at the end means the folder.
    if out.ends_with(b"/.") || out.ends_with(b"/..") {
        end_segment(&mut out, true)?;
    }
    Ok(out)
}

/// Ends the segment that `out` ends in: resolves it if it is a dot segment, and adds the slash that follows it.
fn end_segment(out: &mut Vec<u8>, merge_slashes: bool) -> Result<(), RequestError> {
    let slash = memchr::memrchr(b'/', out);
    let segment = slash.map_or(&out[..], |at| &out[at + 1..]);
    match (slash, segment) {
        (Some(at), b".") => out.truncate(at + 1),
        (Some(at), b"..") => {
            let parent = memchr::memrchr(b'/', &out[..at]).ok_or(RequestError::Uri)?;
            out.truncate(parent + 1);
        }
        (Some(_), b"") if merge_slashes => {}
        _ => out.push(b'/'),
    }
    Ok(())
}

/// The byte that two hexadecimal digits stand for.
fn hex_pair(digits: &[u8]) -> Option<u8> {
    let digit = |b: u8| (b as char).to_digit(16);
    match digits {
        &[high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    }
}

/// Decodes `%` escapes; other text stays as it is.
pub fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'%', text) else { return Cow::Borrowed(text) };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text[..first]);
    let mut i = first;
    while i < text.len() {
        match text.get(i + 1..i + 3).filter(|_| text[i] == b'%').and_then(hex_pair) {
            Some(b) => {
                out.push(b);
                i += 3;
            }
            None => {
                out.push(text[i]);
                i += 1;
            }
        }
    }
    Cow::Owned(out)
}

/// The set of bytes that are escaped as `%XX`. Control characters, space, `"`, `#`, `%` and all bytes that are not
/// ASCII are in every set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EscapeSet {
    /// For a path: also ``<>?\^`{|}``. `Location` of a folder without its slash, a changed URI towards an upstream.
    Uri,
    /// For text put into arguments: also `&+;`. Captures in the arguments of a `rewrite`, and in a `rewrite` that
    /// redirects.
    Args,
    /// For one component of a URI: every byte that is not unreserved in RFC 3986.
    Component,
}

impl EscapeSet {
    const fn mask(self) -> u8 {
        match self {
            EscapeSet::Uri => 1,
            EscapeSet::Args => 2,
            EscapeSet::Component => 4,
        }
    }

    /// Whether the byte is escaped.
    #[inline]
    pub const fn contains(self, b: u8) -> bool {
        ESCAPES[b as usize] & self.mask() != 0
    }
}

static ESCAPES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        table[i] = if b <= b' ' || b >= 0x7f || matches!(b, b'"' | b'#' | b'%') {
            7
        } else if matches!(b, b'<' | b'>' | b'?' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}') {
            EscapeSet::Uri.mask() | EscapeSet::Args.mask() | EscapeSet::Component.mask()
        } else if matches!(b, b'&' | b'+' | b';') {
            EscapeSet::Args.mask() | EscapeSet::Component.mask()
        } else if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') {
            0
        } else {
            EscapeSet::Component.mask()
        };
        i += 1;
    }
    table
};

/// Escapes the bytes of a set; the text is borrowed if there are none.
pub fn escape(set: EscapeSet, text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = text.iter().position(|&b| set.contains(b)) else { return Cow::Borrowed(text) };
    let mut out = Vec::with_capacity(text.len() + 16);
    out.extend_from_slice(&text[..first]);
    escape_into(set, &text[first..], &mut out);
    Cow::Owned(out)
}

/// Appends `text` with the bytes of a set escaped.
pub fn escape_into(set: EscapeSet, text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &b in text {
        if set.contains(b) {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
        } else {
            out.push(b);
        }
    }
}

/// The file extension of a path, which decides its type: the text behind the last dot of the last segment, empty if
/// there is none. Up to three dots at the segment's beginning belong to the name, as in nginx (two of them are no
/// longer the parent folder as soon as something follows).
pub fn extension(path: &[u8]) -> &[u8] {
    let Some(dot) = path.iter().rposition(|byte| matches!(byte, b'.' | b'/')).filter(|at| path[*at] == b'.') else {
        return b"";
    };
    let before = &path[..dot];
    let dots = before.iter().rev().take(3).take_while(|byte| **byte == b'.').count();
    let begins = matches!(before[..before.len() - dots].last(), None | Some(b'/'));
    if dots < 3 && begins { b"" } else { &path[dot + 1..] }
}

/// The value of an argument, `$arg_NAME`: the value of the first `name=value` between `&`; the name may be in any case.
pub fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if name.is_empty() {
        return None;
    }
    args.split(|&b| b == b'&').find_map(|pair| {
        let at = memchr::memchr(b'=', pair)?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
