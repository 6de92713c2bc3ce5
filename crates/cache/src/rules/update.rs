//! The fields of a response that are stored, those that a 304 changes, and the stored responses that an unsafe request
//! makes invalid: RFC 9111 sections 3.1, 3.2 and 4.4.

use bytes::Bytes;

use super::IgnoredFields;
use super::control::ResponseControl;
use super::headers::{Field, members, values};

/// Fields about one connection, or about the proxies beside it, which are never stored: RFC 9111 section 3.1, RFC 9110
/// section 7.6.1.
const OF_THE_CONNECTION: [&[u8]; 10] = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// Fields that belong to the stored body, so that a 304, which has none, does not change them: RFC 9111 section 3.2.
const OF_THE_BODY: [&[u8]; 6] =
    [b"content-encoding", b"content-length", b"content-md5", b"content-range", b"content-digest", b"etag"];

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// The fields of a response that are stored. Left out are the fields of the connection and the fields that `Connection`
/// names. Left out are also the fields that `no-cache="…"` and `private="…"` name, unless `Cache-Control` is ignored or
/// nginx's rules are in force; clients are sent the same fields.
pub fn stored(fields: &[Field], rfc9111: bool, ignored: IgnoredFields) -> Vec<Field> {
    let control = if rfc9111 && !ignored.cache_control {
        ResponseControl::of(values(fields, b"cache-control"))
    } else {
        ResponseControl::default()
    };
    let mut named: Vec<&[u8]> = values(fields, b"connection").flat_map(members).collect();
    named.extend(control.no_cache.fields());
    named.extend(control.private.fields());
    let kept = |(name, _): &&Field| !is_one_of(name, &OF_THE_CONNECTION) && !is_one_of(name, &named);
    fields.iter().filter(kept).cloned().collect()
}

/// The stored fields after a 304; `None` if the 304 changes only `Date` and `Age`, which follow from its lifetime, so
/// that nothing has to be written anew. A field of the 304 replaces all stored ones of its name; fields of the body
/// stay, and no cookie is taken from the 304 (unless `Set-Cookie` is ignored).
pub fn refreshed(stored_fields: &[Field], not_modified: &[Field], ignored: IgnoredFields) -> Option<Vec<Field>> {
    let new = of_a_304(not_modified, ignored);
    let same =
        |(name, _): &Field| is_one_of(name, &[b"date", b"age"]) || values(&new, name).eq(values(stored_fields, name));
    (!new.iter().all(same)).then(|| merged(stored_fields, new))
}

/// The fields of a 304 that replace stored ones.
pub(super) fn of_a_304(not_modified: &[Field], ignored: IgnoredFields) -> Vec<Field> {
    let usable = |(name, _): &Field| {
        !is_one_of(name, &OF_THE_BODY) && (ignored.set_cookie || !name.eq_ignore_ascii_case(b"set-cookie"))
    };
    let mut new = stored(not_modified, true, ignored);
    new.retain(usable);
    new
}

/// The stored fields without those whose names are among the new ones, followed by the new ones.
pub(super) fn merged(stored_fields: &[Field], new: Vec<Field>) -> Vec<Field> {
    let replaced = |name: &Bytes| new.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut fields: Vec<Field> = stored_fields.iter().filter(|(name, _)| !replaced(name)).cloned().collect();
    fields.extend(new);
    fields
}

/// Whether a request makes the stored responses of its target invalid. That is so if its method is not known to be
/// safe, and the answer is no error (RFC 9111 section 4.4, RFC 9110 section 9.2.1).
pub fn invalidates(method: &[u8], status: u16) -> bool {
    !matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE") && (200..400).contains(&status)
}

/// The other targets that become invalid: those that `Location` and `Content-Location` name, as paths with their
/// queries, if they are of the same origin. `scheme` and `host` are the request's (`host` as in `Host`), `path` is its
/// path, for relative references.
pub fn also_invalid(fields: &[Field], scheme: &[u8], host: &[u8], path: &[u8]) -> Vec<Bytes> {
    let mut targets = Vec::new();
    for name in [&b"location"[..], b"content-location"] {
        for value in values(fields, name) {
            targets.extend(resolve(value, scheme, host, path));
        }
    }
    targets
}

/// A reference as a path and a query of this origin; `None` if it is of another origin, or cannot be resolved. Dot
/// segments are not removed from paths that the base has a part in: such a reference yields `None`.
fn resolve(reference: &[u8], scheme: &[u8], host: &[u8], path: &[u8]) -> Option<Bytes> {
    let reference = reference.split(|&b| b == b'#').next()?;
    if reference.is_empty() || reference.iter().any(|&b| b <= b' ' || b == 0x7f || b == b'\\') {
        return None;
    }
    let rest = match reference.iter().position(|b| matches!(b, b':' | b'/' | b'?')) {
        Some(at) if reference[at] == b':' => {
            if !reference[..at].eq_ignore_ascii_case(scheme) {
                return None;
            }
            reference[at + 1..].strip_prefix(b"//").map(|rest| (true, rest))?
        }
        _ => match reference.strip_prefix(b"//") {
            Some(rest) => (true, rest),
            None => (false, reference),
        },
    };
    let target = match rest {
        (true, rest) => {
            let end = rest.iter().position(|b| matches!(b, b'/' | b'?')).unwrap_or(rest.len());
            if !rest[..end].eq_ignore_ascii_case(host) {
                return None;
            }
            match rest.get(end) {
                Some(b'/') => rest[end..].to_vec(),
                _ => [b"/", &rest[end..]].concat(),
            }
        }
        (false, [b'/', ..]) => reference.to_vec(),
        (false, [b'?', ..]) => [path, reference].concat(),
        (false, _) => {
            let folder = path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
            [&path[..folder], reference].concat()
        }
    };
    let only_path = target.split(|&b| b == b'?').next().unwrap_or_default();
    let dots = only_path.split(|&b| b == b'/').any(|part| matches!(part, b"." | b".."));
    (!dots && target.first() == Some(&b'/')).then(|| Bytes::from(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &'static str) -> Vec<Field> {
        let pair = |line: &'static str| line.split_once(": ").map(|(name, value)| (name.into(), value.into()));
        text.split('|').filter_map(pair).collect()
    }

    fn text(fields: &[Field]) -> String {
        let lossy = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| format!("{}: {}", lossy(name), lossy(value))).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn what_speaks_of_the_connection_is_not_stored() {
        let head = fields(
            "Connection: a, close|A: 1|b: 2|Keep-Alive: x|TE: x|Transfer-Encoding: chunked|Upgrade: x|Trailer: y|\
             Proxy-Authenticate: x|Proxy-Authentication-Info: x|Proxy-Authorization: x|Proxy-Connection: x|connection: B|C: 3",
        );
        assert_eq!(text(&stored(&head, false, IgnoredFields::default())), "C: 3");
    }

    #[test]
    fn fields_named_in_cache_control_are_not_stored() {
        let head = fields("Cache-Control: no-cache=\"a, b\", private=C|A: 1|B: 2|C: 3|D: 4");
        let all = text(&head);
        assert_eq!(text(&stored(&head, false, IgnoredFields::default())), all);
        assert_eq!(text(&stored(&head, true, IgnoredFields { cache_control: true, ..IgnoredFields::default() })), all);
        let kept = text(&stored(&head, true, IgnoredFields::default()));
        assert_eq!(kept, "Cache-Control: no-cache=\"a, b\", private=C|D: 4");
    }

    #[test]
    fn a_304_changes_fields() {
        let old = fields("A: 1|A: 2|B: 3|ETag: \"x\"|Content-Length: 5|Content-Type: t");
        let changed = |new| refreshed(&old, &fields(new), IgnoredFields::default()).map(|fields| text(&fields));
        assert_eq!(changed(""), None);
        assert_eq!(changed("B: 3|a: 1|a: 2"), None);
        assert_eq!(changed("ETag: \"y\"|Content-Length: 0|Content-Encoding: x|Set-Cookie: c|Keep-Alive: 1"), None);
        assert_eq!(changed("Connection: B|B: 4"), None);
        assert_eq!(changed("Date: now|Age: 1|B: 3"), None);
        let expected = "B: 3|ETag: \"x\"|Content-Length: 5|Content-Type: t|a: 2|D: 1";
        assert_eq!(changed("a: 2|D: 1").as_deref(), Some(expected));
        let expected = "A: 1|A: 2|B: 3|ETag: \"x\"|Content-Length: 5|content-type: u";
        assert_eq!(changed("content-type: u").as_deref(), Some(expected));
    }

    #[test]
    fn unsafe_methods_invalidate() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
            assert!(invalidates(method.as_bytes(), 200) && invalidates(method.as_bytes(), 302), "{method}");
            assert!(!invalidates(method.as_bytes(), 404) && !invalidates(method.as_bytes(), 500), "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(!invalidates(method.as_bytes(), 200), "{method}");
        }
    }

    #[test]
    fn locations_of_the_same_origin_are_invalid_too() {
        for (reference, expected) in [
            ("/x", Some("/x")),
            ("/x?y=/../z#f", Some("/x?y=/../z")),
            ("x", Some("/a/x")),
            ("?q", Some("/a/b?q")),
            ("http://h:80/x?y", Some("/x?y")),
            ("HTTP://H:80/x", Some("/x")),
            ("http://h:80", Some("/")),
            ("http://h:80?q", Some("/?q")),
            ("//h:80/x", Some("/x")),
            ("https://h:80/x", None),
            ("http://h/x", None),
            ("http://u@h:80/x", None),
            ("//other/x", None),
            ("http:/x", None),
            ("javascript:x", None),
            ("../x", None),
            ("/a/./b", None),
            ("", None),
            ("#f", None),
            ("/x y", None),
            ("\\\\h\\x", None),
        ] {
            let head = vec![(Bytes::from("Location"), Bytes::from(reference))];
            let found = also_invalid(&head, b"http", b"h:80", b"/a/b");
            let found: Vec<_> = found.iter().map(|target| String::from_utf8_lossy(target)).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{reference}");
        }
        let head = fields("Location: /1|Content-Location: /2|Location: /3");
        assert_eq!(also_invalid(&head, b"http", b"h", b"/").len(), 3);
    }
}
