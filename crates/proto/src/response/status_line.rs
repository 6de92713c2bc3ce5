//! The status line: RFC 9112 section 4.

use crate::{Span, Version, ascii};

/// The beginning of every status line of HTTP.
const PROTOCOL: &[u8] = b"HTTP/";
/// The beginning of the status line of SHOUTcast, which otherwise speaks HTTP/1.0: `ICY 200 OK`.
const SHOUTCAST: &[u8] = b"ICY ";
/// The most digits of a major or minor version.
const VERSION_DIGITS: usize = 3;

/// The content of a status line.
pub(super) struct StatusLine {
    pub(super) version: Version,
    pub(super) status: u16,
    /// The place in the line where the reason begins; it goes to the line's end.
    pub(super) reason: usize,
}

/// Whether the beginning of a line can still become a status line.
pub(super) fn may_begin(line: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        let known = line.len().min(with.len());
        line[..known] == with[..known]
    };
    begins(PROTOCOL) || begins(SHOUTCAST)
}

/// Reads the line that `buf` begins with, if it has the usual form. This is one space on each side of the status, and a
/// reason that goes up to the line's end. Also returns the place of the reason without spaces around it, and where the
/// next line begins. `None`: the line is not complete, or needs [`parse`].
pub(super) fn plain(buf: &[u8]) -> Option<(StatusLine, Span, usize)> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', a, b, c, b' ', rest @ ..] = buf else {
        return None;
    };
    if !(a.is_ascii_digit() && b.is_ascii_digit() && c.is_ascii_digit()) || *a == b'0' {
        return None;
    }
    let reason = buf.len() - rest.len();
    let end = reason + ascii::find_control(rest)?;
    let next = match buf[end..] {
        [b'\r', b'\n', ..] => end + 2,
        [b'\n', ..] => end + 1,
        _ => return None,
    };
    if rest[0] == b' ' || buf[end - 1] == b' ' {
        return None;
    }
    let version = if *minor == b'0' { Version::Http10 } else { Version::Http11 };
    let status = [a, b, c].iter().fold(0, |n, &&digit| n * 10 + u16::from(digit - b'0'));
    Some((StatusLine { version, status, reason }, super::fields::span(reason, end), next))
}

/// Reads a line without its end. `None`: it is not a status line.
pub(super) fn parse(line: &[u8]) -> Option<StatusLine> {
    let (version, mut at) = protocol(line)?;
    let spaces = line[at..].iter().take_while(|&&b| b == b' ').count();
    let digits: &[u8; 3] = line.get(at + spaces..)?.first_chunk()?;
    if spaces == 0 || !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
        return None;
    }
    let status = digits.iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
    at += spaces + digits.len();
    // IIS has statuses such as 401.1.
    if line.get(at) == Some(&b'.') {
        at += 1 + line[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    }
    let reason = match line.get(at) {
        None => at,
        Some(b' ') => at + 1,
        Some(_) => return None,
    };
    let reasons = &line[reason..];
    let clean = ascii::find_control(reasons).is_none() || reasons.iter().all(|&b| b != 0 && b != b'\r');
    clean.then_some(StatusLine { version, status, reason })
}

/// The version, and where it ends in the line.
fn protocol(line: &[u8]) -> Option<(Version, usize)> {
    if line.starts_with(SHOUTCAST) {
        return Some((Version::Http10, SHOUTCAST.len() - 1));
    }
    let mut at = PROTOCOL.len();
    if !line.starts_with(PROTOCOL) {
        return None;
    }
    let major = number(line, &mut at)?;
    if line.get(at) != Some(&b'.') || major == 0 {
        return None;
    }
    at += 1;
    let minor = number(line, &mut at)?;
    Some((if (major, minor) == (1, 0) { Version::Http10 } else { Version::Http11 }, at))
}

fn number(line: &[u8], at: &mut usize) -> Option<u16> {
    let digits = line[*at..].iter().take(VERSION_DIGITS).take_while(|b| b.is_ascii_digit()).count();
    let number = line[*at..*at + digits].iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
    *at += digits;
    (digits > 0).then_some(number)
}
