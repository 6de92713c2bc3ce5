//! Host names in requests: RFC 3986 section 3.2.2 and 3.2.3, as nginx has checked them since 1.29.4.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use crate::Span;
use crate::ascii::{HOST, HOST_PLAIN, class};

/// A valid `host[:port]`, as offsets into the text that was parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostParts {
    /// The length of the host at the start of the text, without a trailing dot; brackets of an IPv6 address included.
    pub name_len: u32,
    /// The port, if one is written (`a:` has none).
    pub port: Option<u16>,
    /// Whether the host has no upper-case letters.
    pub lowercase: bool,
}

/// Checks `host[:port]`; `None` if it is empty or not allowed by RFC 3986.
///
/// It refuses user information, ports that are not a number up to 65535, and brackets that do not hold an IPv6 address
/// (or an `IPvFuture`). It also refuses raw bytes that are not ASCII, bad `%` escapes and, as nginx does, two dots in a
/// row.
pub fn parse(text: &[u8]) -> Option<HostParts> {
    if text.first() == Some(&b'[') {
        return parse_literal(text);
    }
    let mut lowercase = true;
    let mut end = text.len();
    let mut before = 0;
    for (i, &b) in text.iter().enumerate() {
        let c = class(b);
        if c & HOST_PLAIN == 0 {
            match b {
                b'.' if before != b'.' => {}
                b'.' => return None,
                b':' => {
                    end = i;
                    break;
                }
                b'%' => {
                    let hex = text.get(i + 1..i + 3)?;
                    if !hex.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                }
                _ if c & HOST == 0 => return None,
                _ => lowercase &= !b.is_ascii_uppercase(),
            }
        }
        before = b;
    }
    let port = parse_port(text.get(end + 1..))?;
    let name = &text[..end];
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return None;
    }
    Some(HostParts { name_len: u32::try_from(name.len()).ok()?, port, lowercase })
}

/// Parses `[...]` with an optional port.
fn parse_literal(text: &[u8]) -> Option<HostParts> {
    let close = memchr::memchr(b']', text)?;
    let inside = std::str::from_utf8(&text[1..close]).ok()?;
    let future = || {
        let (version, address) = inside.strip_prefix(['v', 'V'])?.split_once('.')?;
        let hex = !version.is_empty() && version.bytes().all(|b| b.is_ascii_hexdigit());
        let rest = |b: u8| b == b':' || (class(b) & HOST != 0 && b != b'%');
        (hex && !address.is_empty() && address.bytes().all(rest)).then_some(())
    };
    if inside.parse::<Ipv6Addr>().is_err() {
        future()?;
    }
    let port = match text.get(close + 1) {
        None => None,
        Some(b':') => parse_port(text.get(close + 2..))?,
        Some(_) => return None,
    };
    let lowercase = !inside.bytes().any(|b| b.is_ascii_uppercase());
    Some(HostParts { name_len: u32::try_from(close + 1).ok()?, port, lowercase })
}

/// Parses the text behind the colon; the outer `None` means that it is not a port.
#[allow(clippy::option_option)]
fn parse_port(digits: Option<&[u8]>) -> Option<Option<u16>> {
    let Some(digits) = digits else { return Some(None) };
    let mut port: u32 = 0;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        port = port * 10 + u32::from(b - b'0');
        if port > u32::from(u16::MAX) {
            return None;
        }
    }
    Some((!digits.is_empty()).then_some(port as u16))
}

/// The host of a request, as offsets into the head's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostSpan {
    /// The host without port and trailing dot, in the case in which it was sent.
    pub span: Span,
    /// The port, if one was sent.
    pub port: Option<u16>,
    /// Whether the host has no upper-case letters, so that [`HostSpan::name`] costs nothing.
    pub lowercase: bool,
}

impl HostSpan {
    /// Moves parsed parts to `start` of the buffer.
    pub(crate) fn at(start: u32, parts: HostParts) -> HostSpan {
        HostSpan { span: Span::new(start, start + parts.name_len), port: parts.port, lowercase: parts.lowercase }
    }

    /// The host in lower case, as in nginx's `$host` and for the choice of a server.
    pub fn name(self, buf: &[u8]) -> Cow<'_, str> {
        // The parser accepts ASCII only; with another buffer the name is empty, and there is no panic.
        let text = std::str::from_utf8(self.span.of(buf)).unwrap_or_default();
        if self.lowercase { Cow::Borrowed(text) } else { Cow::Owned(text.to_ascii_lowercase()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn good(text: &str, name: &str, port: Option<u16>) {
        let parts = parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} refused"));
        assert_eq!(&text[..parts.name_len as usize], name);
        assert_eq!(parts.port, port);
        assert_eq!(parts.lowercase, name.to_ascii_lowercase() == name);
    }

    #[test]
    fn hosts() {
        good("a", "a", None);
        good("A.B.", "A.B", None);
        good("a.:80", "a", Some(80));
        good("a:", "a", None);
        good("a:0", "a", Some(0));
        good("a:65535", "a", Some(65535));
        good(".a", ".a", None);
        good("a_b-c~", "a_b-c~", None);
        good("!$&'()*+,;=", "!$&'()*+,;=", None);
        good("a%20b", "a%20b", None);
        good("1.2.3.4:8080", "1.2.3.4", Some(8080));
        good("[::1]", "[::1]", None);
        good("[::1]:81", "[::1]", Some(81));
        good("[::FFFF:1.2.3.4]:", "[::FFFF:1.2.3.4]", None);
        good("[v1.x]", "[v1.x]", None);
    }

    #[test]
    fn not_hosts() {
        for text in [
            "",
            ".",
            "..",
            "a..",
            "a..b",
            "a:x",
            "a:65536",
            "a:99999",
            "a:80:80",
            "::1",
            "u@a",
            "a/b",
            "a b",
            "a\tb",
            "a\\b",
            "a?b",
            "a#b",
            "<a>",
            "\"a\"",
            "{a}",
            "|a",
            "^a",
            "`a",
            "%zz",
            "%4",
            "%",
            "[::1",
            "[]",
            "[::1]x",
            "[::1]:x",
            "[::1]]",
            "a]",
            "[v.x]",
            "[v1.]",
            "[x]",
            ":80",
            "é",
            "a\u{7f}",
            "a\0",
            "[::1%25lo]",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
