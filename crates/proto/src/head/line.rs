//! The request line.

use super::types::{Method, TargetForm, TargetSpans, Version};
use crate::ascii::{METHOD, SCHEME, class, has_space_or_control};
use crate::{HostSpan, RequestError, Span, host};

/// A parsed request line.
pub(super) struct ParsedRequestLine {
    pub method: Method,
    pub method_text: Span,
    pub version: Version,
    pub version_text: Span,
    pub target: TargetSpans,
    pub host: Option<HostSpan>,
}

/// Finds errors in an incomplete line, so that a client which never sends a line end (TLS spoken to a plain port) is
/// answered at once. A CR at the very end may still belong to the line end.
pub(super) fn check_prefix(line: &[u8]) -> Result<(), RequestError> {
    let method = line.iter().position(|&b| class(b) & METHOD == 0).unwrap_or(line.len());
    match line.get(method) {
        None => return Ok(()),
        Some(b' ') if method > 0 => {}
        Some(b'\r') if method > 0 && method + 1 == line.len() => return Ok(()),
        Some(_) => return Err(RequestError::Method),
    }
    let rest = &line[method..];
    let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
    if has_control(rest) { Err(RequestError::RequestLine) } else { Ok(()) }
}

/// Whether any byte is a control character.
fn has_control(bytes: &[u8]) -> bool {
    // There is no early return: the loop vectorises, and bad bytes are rare.
    bytes.iter().fold(false, |bad, &b| bad | (b < 0x20) | (b == 0x7f))
}

/// Parses a request line of the usual form: one space on each side of a path.
#[inline]
fn parse_usual(line: &[u8], start: u32) -> Option<ParsedRequestLine> {
    let method = match line {
        [b'G', b'E', b'T', b' ', b'/', ..] => Method::Get,
        [b'P', b'O', b'S', b'T', b' ', b'/', ..] => Method::Post,
        [b'H', b'E', b'A', b'D', b' ', b'/', ..] => Method::Head,
        _ => return None,
    };
    let (rest, version) = line.split_last_chunk::<9>()?;
    let version = match version {
        b" HTTP/1.1" => Version::Http11,
        b" HTTP/1.0" => Version::Http10,
        _ => return None,
    };
    let from = if method == Method::Get { 4 } else { 5 };
    if has_space_or_control(rest.get(from..)?) {
        return None;
    }
    let span = |from: usize, to: usize| Span::new(start + from as u32, start + to as u32);
    Some(ParsedRequestLine {
        method,
        method_text: span(0, from - 1),
        version,
        version_text: span(rest.len() + 1, line.len()),
        target: TargetSpans { form: TargetForm::Origin, uri: span(from, rest.len()), scheme: None },
        host: None,
    })
}

/// Parses a request line that starts at `start` of the buffer; `line` is without its line end.
pub(super) fn parse(line: &[u8], start: u32) -> Result<ParsedRequestLine, RequestError> {
    if let Some(usual) = parse_usual(line, start) {
        return Ok(usual);
    }
    let span = |from: usize, to: usize| Span::new(start + from as u32, start + to as u32);
    let method_end = line.iter().position(|&b| class(b) & METHOD == 0).unwrap_or(line.len());
    match line.get(method_end) {
        Some(b' ') if method_end > 0 => {}
        None => return Err(RequestError::RequestLine),
        Some(_) => return Err(RequestError::Method),
    }
    if has_control(&line[method_end..]) {
        return Err(RequestError::RequestLine);
    }
    let method = Method::of(&line[..method_end]);
    let spaces = |from: usize| from + line[from..].iter().take_while(|&&b| b == b' ').count();
    let target_start = spaces(method_end);
    let target_end = memchr::memchr(b' ', &line[target_start..]).map_or(line.len(), |n| target_start + n);
    let version_start = spaces(target_end);
    let mut version_end = line.len();
    while version_end > version_start && line[version_end - 1] == b' ' {
        version_end -= 1;
    }
    // The target comes first on the line, so its error is reported.
    let (target, host) = parse_target(&line[target_start..target_end], start + target_start as u32, method)?;
    let version = match &line[version_start..version_end] {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        b"" => Version::Http09,
        other => parse_version(other)?,
    };
    if version == Version::Http09 {
        if method != Method::Get {
            return Err(RequestError::SimpleMethod);
        }
        if target.uri.is_empty() {
            return Err(RequestError::RequestLine);
        }
    }
    Ok(ParsedRequestLine {
        method,
        method_text: span(0, method_end),
        version,
        version_text: span(version_start, version_end),
        target,
        host,
    })
}

/// Parses `HTTP/major.minor` other than the two usual versions.
fn parse_version(text: &[u8]) -> Result<Version, RequestError> {
    let minor = match text.strip_prefix(b"HTTP/").ok_or(RequestError::RequestLine)? {
        // A major version over 1 is reported at the first digit that shows it, whatever follows.
        [b'2'..=b'9', ..] | [b'1', b'0'..=b'9', ..] => return Err(RequestError::VersionNotSupported),
        [b'1', b'.', minor @ ..] => minor,
        _ => return Err(RequestError::RequestLine),
    };
    if minor.is_empty() || !minor.iter().all(u8::is_ascii_digit) {
        return Err(RequestError::RequestLine);
    }
    Ok(if minor.iter().all(|&b| b == b'0') { Version::Http10 } else { Version::Http11 })
}

/// Parses the request target, which starts at `start` of the buffer.
fn parse_target(text: &[u8], start: u32, method: Method) -> Result<(TargetSpans, Option<HostSpan>), RequestError> {
    let span = |from: usize, to: usize| Span::new(start + from as u32, start + to as u32);
    if method == Method::Connect {
        // It has the authority form and no other (RFC 9112 section 3.2.3), with a port that exists (RFC 9110 section
        // 9.3.6).
        let is_whole = |parts: &host::HostParts| parts.port.is_some_and(|port| port > 0);
        let parts = host::parse(text).filter(is_whole).ok_or(RequestError::RequestLine)?;
        let target = TargetSpans { form: TargetForm::Authority, uri: span(text.len(), text.len()), scheme: None };
        return Ok((target, Some(HostSpan::at(start, parts))));
    }
    match text.first() {
        Some(b'/') => {
            return Ok((TargetSpans { form: TargetForm::Origin, uri: span(0, text.len()), scheme: None }, None));
        }
        Some(b) if b.is_ascii_alphanumeric() || *b == b'[' => {}
        _ => return Err(RequestError::RequestLine),
    }
    let scheme_end = text.iter().position(|&b| class(b) & SCHEME == 0).unwrap_or(text.len());
    if text[0].is_ascii_alphabetic() && text[scheme_end..].starts_with(b"://") {
        let host_start = scheme_end + 3;
        let authority = &text[host_start..];
        let len = memchr::memchr3(b'/', b'?', b'#', authority).unwrap_or(authority.len());
        let parts = host::parse(&authority[..len]).ok_or(RequestError::TargetHost)?;
        let target = TargetSpans {
            form: TargetForm::Absolute,
            uri: span(host_start + len, text.len()),
            scheme: Some(span(0, scheme_end)),
        };
        return Ok((target, Some(HostSpan::at(start + host_start as u32, parts))));
    }
    Err(RequestError::RequestLine)
}
