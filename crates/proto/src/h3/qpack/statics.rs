//! The static table: RFC 9204, appendix A.

use crate::HeaderId;
use crate::compression::decoder_table::StaticTable;
use crate::compression::names::{Id, KNOWN};
use crate::compression::{DecodedField, Pseudo};

/// The number of entries in the static table.
pub(super) const ENTRIES: usize = 99;

/// The static table of QPACK, whose places are its indices and one.
pub(super) struct QpackTable;

impl StaticTable for QpackTable {
    #[inline(always)]
    fn entry(place: usize) -> Option<&'static DecodedField<'static>> {
        // Place 0 wraps around to an index that is in no table.
        entry(place.wrapping_sub(1))
    }
}

/// The entry of an index.
#[inline(always)]
pub(super) fn entry(index: usize) -> Option<&'static DecodedField<'static>> {
    TABLE.get(index)
}

/// The place of a static entry that is none.
const NO_PLACE: u8 = 0;

/// The indices of entries whose names an encoder knows, as lists of one name each. An index is kept with one added to it.
struct ByName {
    /// The first index of each name.
    first: [u8; KNOWN.len()],
    /// The next index of the same name.
    next: [u8; ENTRIES],
}

static BY_NAME: ByName = {
    let mut by_name = ByName { first: [NO_PLACE; KNOWN.len()], next: [NO_PLACE; ENTRIES] };
    let mut index = ENTRIES;
    while index > 0 {
        index -= 1;
        let mut id = 1;
        while id < KNOWN.len() {
            if is_same(TABLE[index].name, KNOWN[id].name.as_bytes()) {
                by_name.next[index] = by_name.first[id];
                by_name.first[id] = index as u8 + 1;
            }
            id += 1;
        }
    }
    by_name
};

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The first index of the entries with a name; `None` if there is none, or the name is not known.
#[inline]
pub(super) fn first(id: Id) -> Option<usize> {
    let place = BY_NAME.first.get(usize::from(id)).copied().unwrap_or(NO_PLACE);
    usize::from(place).checked_sub(1)
}

/// The index of the entry that is a field with this name and this value.
#[inline]
pub(super) fn find(id: Id, value: &[u8]) -> Option<usize> {
    let mut next = first(id);
    while let Some(index) = next {
        if TABLE.get(index)?.value == value {
            return Some(index);
        }
        next = usize::from(*BY_NAME.next.get(index)?).checked_sub(1);
    }
    None
}

const fn pseudo(pseudo: Pseudo, name: &'static str, value: &'static str) -> DecodedField<'static> {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    DecodedField { name, value, id: HeaderId::Other, pseudo: Some(pseudo), never_indexed: false }
}

const fn field(id: HeaderId, name: &'static str, value: &'static str) -> DecodedField<'static> {
    DecodedField { name: name.as_bytes(), value: value.as_bytes(), id, pseudo: None, never_indexed: false }
}

static TABLE: [DecodedField<'static>; ENTRIES] = [
    pseudo(Pseudo::Authority, ":authority", ""),
    pseudo(Pseudo::Path, ":path", "/"),
    field(HeaderId::Other, "age", "0"),
    field(HeaderId::ContentDisposition, "content-disposition", ""),
    field(HeaderId::ContentLength, "content-length", "0"),
    field(HeaderId::Cookie, "cookie", ""),
    field(HeaderId::Date, "date", ""),
    field(HeaderId::Etag, "etag", ""),
    field(HeaderId::IfModifiedSince, "if-modified-since", ""),
    field(HeaderId::IfNoneMatch, "if-none-match", ""),
    field(HeaderId::LastModified, "last-modified", ""),
    field(HeaderId::Other, "link", ""),
    field(HeaderId::Location, "location", ""),
    field(HeaderId::Referer, "referer", ""),
    field(HeaderId::SetCookie, "set-cookie", ""),
    pseudo(Pseudo::Method, ":method", "CONNECT"),
    pseudo(Pseudo::Method, ":method", "DELETE"),
    pseudo(Pseudo::Method, ":method", "GET"),
    pseudo(Pseudo::Method, ":method", "HEAD"),
    pseudo(Pseudo::Method, ":method", "OPTIONS"),
    pseudo(Pseudo::Method, ":method", "POST"),
    pseudo(Pseudo::Method, ":method", "PUT"),
    pseudo(Pseudo::Scheme, ":scheme", "http"),
    pseudo(Pseudo::Scheme, ":scheme", "https"),
    pseudo(Pseudo::Status, ":status", "103"),
    pseudo(Pseudo::Status, ":status", "200"),
    pseudo(Pseudo::Status, ":status", "304"),
    pseudo(Pseudo::Status, ":status", "404"),
    pseudo(Pseudo::Status, ":status", "503"),
    field(HeaderId::Accept, "accept", "*/*"),
    field(HeaderId::Accept, "accept", "application/dns-message"),
    field(HeaderId::AcceptEncoding, "accept-encoding", "gzip, deflate, br"),
    field(HeaderId::AcceptRanges, "accept-ranges", "bytes"),
    field(HeaderId::Other, "access-control-allow-headers", "cache-control"),
    field(HeaderId::Other, "access-control-allow-headers", "content-type"),
    field(HeaderId::Other, "access-control-allow-origin", "*"),
    field(HeaderId::CacheControl, "cache-control", "max-age=0"),
    field(HeaderId::CacheControl, "cache-control", "max-age=2592000"),
    field(HeaderId::CacheControl, "cache-control", "max-age=604800"),
    field(HeaderId::CacheControl, "cache-control", "no-cache"),
    field(HeaderId::CacheControl, "cache-control", "no-store"),
    field(HeaderId::CacheControl, "cache-control", "public, max-age=31536000"),
    field(HeaderId::ContentEncoding, "content-encoding", "br"),
    field(HeaderId::ContentEncoding, "content-encoding", "gzip"),
    field(HeaderId::ContentType, "content-type", "application/dns-message"),
    field(HeaderId::ContentType, "content-type", "application/javascript"),
    field(HeaderId::ContentType, "content-type", "application/json"),
    field(HeaderId::ContentType, "content-type", "application/x-www-form-urlencoded"),
    field(HeaderId::ContentType, "content-type", "image/gif"),
    field(HeaderId::ContentType, "content-type", "image/jpeg"),
    field(HeaderId::ContentType, "content-type", "image/png"),
    field(HeaderId::ContentType, "content-type", "text/css"),
    field(HeaderId::ContentType, "content-type", "text/html; charset=utf-8"),
    field(HeaderId::ContentType, "content-type", "text/plain"),
    field(HeaderId::ContentType, "content-type", "text/plain;charset=utf-8"),
    field(HeaderId::Range, "range", "bytes=0-"),
    field(HeaderId::Other, "strict-transport-security", "max-age=31536000"),
    field(HeaderId::Other, "strict-transport-security", "max-age=31536000; includesubdomains"),
    field(HeaderId::Other, "strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    field(HeaderId::Other, "vary", "accept-encoding"),
    field(HeaderId::Other, "vary", "origin"),
    field(HeaderId::Other, "x-content-type-options", "nosniff"),
    field(HeaderId::Other, "x-xss-protection", "1; mode=block"),
    pseudo(Pseudo::Status, ":status", "100"),
    pseudo(Pseudo::Status, ":status", "204"),
    pseudo(Pseudo::Status, ":status", "206"),
    pseudo(Pseudo::Status, ":status", "302"),
    pseudo(Pseudo::Status, ":status", "400"),
    pseudo(Pseudo::Status, ":status", "403"),
    pseudo(Pseudo::Status, ":status", "421"),
    pseudo(Pseudo::Status, ":status", "425"),
    pseudo(Pseudo::Status, ":status", "500"),
    field(HeaderId::AcceptLanguage, "accept-language", ""),
    field(HeaderId::Other, "access-control-allow-credentials", "FALSE"),
    field(HeaderId::Other, "access-control-allow-credentials", "TRUE"),
    field(HeaderId::Other, "access-control-allow-headers", "*"),
    field(HeaderId::Other, "access-control-allow-methods", "get"),
    field(HeaderId::Other, "access-control-allow-methods", "get, post, options"),
    field(HeaderId::Other, "access-control-allow-methods", "options"),
    field(HeaderId::Other, "access-control-expose-headers", "content-length"),
    field(HeaderId::AccessControlRequestHeaders, "access-control-request-headers", "content-type"),
    field(HeaderId::AccessControlRequestMethod, "access-control-request-method", "get"),
    field(HeaderId::AccessControlRequestMethod, "access-control-request-method", "post"),
    field(HeaderId::Other, "alt-svc", "clear"),
    field(HeaderId::Authorization, "authorization", ""),
    field(HeaderId::Other, "content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    field(HeaderId::Other, "early-data", "1"),
    field(HeaderId::Other, "expect-ct", ""),
    field(HeaderId::Forwarded, "forwarded", ""),
    field(HeaderId::IfRange, "if-range", ""),
    field(HeaderId::Origin, "origin", ""),
    field(HeaderId::Other, "purpose", "prefetch"),
    field(HeaderId::Server, "server", ""),
    field(HeaderId::Other, "timing-allow-origin", "*"),
    field(HeaderId::Other, "upgrade-insecure-requests", "1"),
    field(HeaderId::UserAgent, "user-agent", ""),
    field(HeaderId::XForwardedFor, "x-forwarded-for", ""),
    field(HeaderId::Other, "x-frame-options", "deny"),
    field(HeaderId::Other, "x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::names::look_up;

    #[test]
    fn ids_and_pseudo_fields_are_those_of_the_names() {
        for entry in &TABLE {
            assert_eq!(entry.id, HeaderId::of(entry.name));
            assert_eq!(entry.pseudo, Pseudo::of(entry.name));
        }
    }

    #[test]
    fn entries_of_known_names_are_found() {
        for (index, entry) in TABLE.iter().enumerate() {
            let id = look_up(entry.name);
            if id != 0 {
                assert_eq!(find(id, entry.value), Some(index));
                assert!(first(id).is_some_and(|first| first <= index && TABLE[first].name == entry.name));
            }
        }
        assert_eq!(find(look_up(b"content-type"), b"image/svg+xml"), None);
        assert_eq!(first(look_up(b"x-powered-by")), None);
        assert_eq!((first(0), find(0, b"")), (None, None));
        assert_eq!((first(Id::MAX), QpackTable::entry(0).is_none()), (None, true));
    }
}
