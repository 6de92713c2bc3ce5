//! The URI that an upstream server is asked for, made from the request's by the rules of `proxy_pass`.

use std::borrow::Cow;

use freerun_http::request::Request;
use freerun_proto::uri::{EscapeSet, escape_into};

use crate::exchange::target::Uri;

/// The part of a `proxy_pass` after host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UriRule<'a> {
    /// There is none: the request's URI is passed on, as it came if it was not changed.
    AsAsked,
    /// A URI: it replaces this number of bytes at the beginning of the path, the location's name.
    Replace(usize, &'a [u8]),
    /// A URI made of variables: it is passed on as it is.
    Exactly(&'a [u8]),
}

/// The request's URI.
#[derive(Debug, Clone, Copy)]
pub struct RequestUri<'a> {
    /// The URI as it came; `None` if it was changed since, or for a subrequest.
    pub raw: Option<&'a [u8]>,
    /// The path, decoded and normalised.
    pub path: &'a [u8],
    /// The arguments.
    pub args: Option<&'a [u8]>,
    /// Whether `rewrite` changed the path after the location was chosen for it.
    pub rewritten: bool,
    /// Whether the path has to be escaped again: it came with escapes, or has changed since it came.
    pub escape: bool,
}

impl<'a> RequestUri<'a> {
    /// The URI of a request.
    pub fn of(request: &'a Request) -> RequestUri<'a> {
        let raw = request.head.uri();
        RequestUri {
            raw: request.asked.uri_kept.then_some(raw),
            path: &request.asked.path,
            args: request.asked.args.as_deref(),
            rewritten: request.place.rewritten_here,
            escape: !request.asked.uri_kept || request.place.internal || came_with_escapes(raw),
        }
    }
}

/// Whether there are escapes in the path, which comes before the arguments. Usually there are none at all, and a search
/// without a branch for each byte looks at many bytes at once.
fn came_with_escapes(raw: &[u8]) -> bool {
    let anywhere = raw.iter().fold(false, |found, byte| found | (*byte == b'%'));
    anywhere && matches!(memchr::memchr3(b'%', b'?', b'#', raw), Some(at) if raw[at] == b'%')
}

/// The URI that the upstream server is asked for. It begins with a slash and has no spaces or control characters,
/// whatever variables have given, because they would end the request line.
pub fn make<'a>(rule: UriRule<'a>, asked: RequestUri<'a>) -> Cow<'a, [u8]> {
    if let Some(whole) = as_it_is(rule, asked) {
        return safe(whole);
    }
    let args = asked.args.filter(|args| !args.is_empty()).map_or(0, |args| 1 + args.len());
    let replaced = match rule {
        UriRule::Replace(prefix, uri) if !asked.rewritten => uri.len() + asked.path.len().saturating_sub(prefix),
        _ => asked.path.len(),
    };
    // Without escapes the capacity is used up, so that keeping the URI needs no other allocation.
    let mut out = Vec::with_capacity(replaced + args);
    append(rule, asked, &mut out);
    Cow::Owned(out)
}

/// Makes the URI, to be kept with the target.
pub fn kept(rule: UriRule<'_>, asked: RequestUri<'_>) -> Uri {
    match make(rule, asked) {
        Cow::Borrowed(uri) => Uri::from_slice(uri),
        Cow::Owned(uri) => Uri::from_vec(uri),
    }
}

/// Appends the URI.
pub fn append(rule: UriRule<'_>, asked: RequestUri<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    if let Some(whole) = as_it_is(rule, asked) {
        out.extend_from_slice(whole);
    } else {
        let mut path = asked.path;
        if let UriRule::Replace(prefix, uri) = rule
            && !asked.rewritten
        {
            out.extend_from_slice(uri);
            path = path.get(prefix..).unwrap_or_default();
        }
        append_path(path, asked.escape, out);
        if let Some(args) = asked.args.filter(|args| !args.is_empty()) {
            out.push(b'?');
            out.extend_from_slice(args);
        }
    }
    if let Cow::Owned(escaped) = safe(&out[start..]) {
        out.truncate(start);
        out.extend_from_slice(&escaped);
    }
}

/// The URI, if an existing text is used unchanged.
fn as_it_is<'a>(rule: UriRule<'a>, asked: RequestUri<'a>) -> Option<&'a [u8]> {
    match rule {
        UriRule::Exactly(uri) => Some(uri),
        UriRule::Replace(..) if !asked.rewritten => None,
        UriRule::AsAsked | UriRule::Replace(..) => asked.raw.filter(|_| !asked.rewritten),
    }
}

fn append_path(path: &[u8], escape: bool, out: &mut Vec<u8>) {
    if escape { escape_into(EscapeSet::Uri, path, out) } else { out.extend_from_slice(path) }
}

/// Whether a byte cannot stand in a request line.
fn breaks(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

/// Whether the URI begins with a slash, and has no bytes that cannot stand in a request line.
fn is_safe(uri: &[u8]) -> bool {
    // No early return: the loop vectorises.
    uri.first() == Some(&b'/') && !uri.iter().fold(false, |bad, &byte| bad | breaks(byte))
}

/// Adds a slash at the beginning if needed, and escapes the bytes that cannot stand in a request line.
fn safe(uri: &[u8]) -> Cow<'_, [u8]> {
    if is_safe(uri) {
        return Cow::Borrowed(uri);
    }
    let rooted = uri.first() == Some(&b'/');
    let mut out = Vec::with_capacity(uri.len() + 8);
    if !rooted {
        out.push(b'/');
    }
    for byte in uri {
        if breaks(*byte) { escape_into(EscapeSet::Uri, &[*byte], &mut out) } else { out.push(*byte) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(raw: &'static str, path: &'static str, args: Option<&'static str>) -> RequestUri<'static> {
        RequestUri {
            raw: Some(raw.as_bytes()),
            path: path.as_bytes(),
            args: args.map(str::as_bytes),
            rewritten: false,
            escape: raw.contains('%'),
        }
    }

    fn made(rule: UriRule<'_>, asked: RequestUri<'_>) -> String {
        String::from_utf8(make(rule, asked).into_owned()).unwrap()
    }

    #[test]
    fn escapes_are_those_of_the_path() {
        for (raw, has) in
            [("/a%20b", true), ("/a?b%20", false), ("/a#%20", false), ("/%?", true), ("/a?b", false), ("", false)]
        {
            assert_eq!(came_with_escapes(raw.as_bytes()), has, "{raw}");
        }
    }

    #[test]
    fn a_location_gives_way_to_the_uri() {
        let rule = |uri| UriRule::Replace(3, uri);
        for (uri, raw, path, args, want) in [
            ("/b/", "/a/c", "/a/c", None, "/b/c"),
            ("/b/", "/a/c%20d", "/a/c d", None, "/b/c%20d"),
            ("/b/", "/a/c%2Fd", "/a/c/d", None, "/b/c/d"),
            ("/b/", "/a/c?x=y", "/a/c", Some("x=y"), "/b/c?x=y"),
            ("/b/", "/a/c?", "/a/c", Some(""), "/b/c"),
            ("/b/", "/a/%5B%5D%7C", "/a/[]|", None, "/b/[]%7C"),
            ("/b/", "/a/{|}", "/a/{|}", None, "/b/{|}"),
            ("/b?x=1", "/a/q?z=1", "/a/q", Some("z=1"), "/b?x=1q?z=1"),
            ("?x", "/a/z", "/a/z", None, "/?xz"),
            ("/b", "/a", "/a", None, "/b"),
        ] {
            assert_eq!(made(rule(uri.as_bytes()), asked(raw, path, args)), want, "{raw}");
        }
    }

    #[test]
    fn without_a_uri_it_goes_on_as_it_came() {
        for raw in ["/n/c%20d?x", "/n/../n//x", "/n/%41%2f", "/n/#x"] {
            assert_eq!(made(UriRule::AsAsked, asked(raw, "/n/x", None)), raw);
        }
    }

    #[test]
    fn what_was_changed_is_escaped_again() {
        let changed = RequestUri { raw: None, escape: true, ..asked("", "/zz/a b", Some("q")) };
        assert_eq!(made(UriRule::AsAsked, changed), "/zz/a%20b?q");
        // A rewrite in the location decides the path.
        let rewritten = RequestUri { rewritten: true, escape: true, ..asked("/r/x", "/zz/x?", None) };
        assert_eq!(made(UriRule::Replace(3, b"/b/"), rewritten), "/zz/x%3F");
        assert_eq!(made(UriRule::AsAsked, rewritten), "/zz/x%3F");
    }

    #[test]
    fn variables_cannot_end_the_request_line() {
        let any = asked("/x", "/x", None);
        assert_eq!(made(UriRule::Exactly(b"/z/a b"), any), "/z/a%20b");
        assert_eq!(made(UriRule::Exactly(b"/a HTTP/1.1\r\nX: y"), any), "/a%20HTTP/1.1%0D%0AX:%20y");
        assert_eq!(made(UriRule::Exactly(b"?a"), any), "/?a");
        assert_eq!(made(UriRule::Exactly(b"/%20|"), any), "/%20|");
    }
}
