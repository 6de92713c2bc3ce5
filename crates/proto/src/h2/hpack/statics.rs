//! The static table: RFC 7541, appendix A.

use crate::HeaderId;
use crate::compression::decoder_table::StaticTable;
use crate::compression::{DecodedField, Pseudo};

/// The number of entries in the static table. Index 1 is its first one, and the dynamic table comes behind its last.
pub(super) const ENTRIES: usize = 61;

/// The entry of an index from 1 to [`ENTRIES`].
#[inline(always)]
pub(super) fn entry(index: usize) -> Option<&'static DecodedField<'static>> {
    TABLE.get(index.wrapping_sub(1))
}

/// The static table of HPACK, whose places are its indices.
pub(super) struct HpackTable;

impl StaticTable for HpackTable {
    #[inline(always)]
    fn entry(place: usize) -> Option<&'static DecodedField<'static>> {
        entry(place)
    }
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
    pseudo(Pseudo::Method, ":method", "GET"),
    pseudo(Pseudo::Method, ":method", "POST"),
    pseudo(Pseudo::Path, ":path", "/"),
    pseudo(Pseudo::Path, ":path", "/index.html"),
    pseudo(Pseudo::Scheme, ":scheme", "http"),
    pseudo(Pseudo::Scheme, ":scheme", "https"),
    pseudo(Pseudo::Status, ":status", "200"),
    pseudo(Pseudo::Status, ":status", "204"),
    pseudo(Pseudo::Status, ":status", "206"),
    pseudo(Pseudo::Status, ":status", "304"),
    pseudo(Pseudo::Status, ":status", "400"),
    pseudo(Pseudo::Status, ":status", "404"),
    pseudo(Pseudo::Status, ":status", "500"),
    field(HeaderId::AcceptCharset, "accept-charset", ""),
    field(HeaderId::AcceptEncoding, "accept-encoding", "gzip, deflate"),
    field(HeaderId::AcceptLanguage, "accept-language", ""),
    field(HeaderId::AcceptRanges, "accept-ranges", ""),
    field(HeaderId::Accept, "accept", ""),
    field(HeaderId::Other, "access-control-allow-origin", ""),
    field(HeaderId::Other, "age", ""),
    field(HeaderId::Other, "allow", ""),
    field(HeaderId::Authorization, "authorization", ""),
    field(HeaderId::CacheControl, "cache-control", ""),
    field(HeaderId::ContentDisposition, "content-disposition", ""),
    field(HeaderId::ContentEncoding, "content-encoding", ""),
    field(HeaderId::Other, "content-language", ""),
    field(HeaderId::ContentLength, "content-length", ""),
    field(HeaderId::Other, "content-location", ""),
    field(HeaderId::ContentRange, "content-range", ""),
    field(HeaderId::ContentType, "content-type", ""),
    field(HeaderId::Cookie, "cookie", ""),
    field(HeaderId::Date, "date", ""),
    field(HeaderId::Etag, "etag", ""),
    field(HeaderId::Expect, "expect", ""),
    field(HeaderId::Expires, "expires", ""),
    field(HeaderId::From, "from", ""),
    field(HeaderId::Host, "host", ""),
    field(HeaderId::IfMatch, "if-match", ""),
    field(HeaderId::IfModifiedSince, "if-modified-since", ""),
    field(HeaderId::IfNoneMatch, "if-none-match", ""),
    field(HeaderId::IfRange, "if-range", ""),
    field(HeaderId::IfUnmodifiedSince, "if-unmodified-since", ""),
    field(HeaderId::LastModified, "last-modified", ""),
    field(HeaderId::Other, "link", ""),
    field(HeaderId::Location, "location", ""),
    field(HeaderId::Other, "max-forwards", ""),
    field(HeaderId::Other, "proxy-authenticate", ""),
    field(HeaderId::ProxyAuthorization, "proxy-authorization", ""),
    field(HeaderId::Range, "range", ""),
    field(HeaderId::Referer, "referer", ""),
    field(HeaderId::Refresh, "refresh", ""),
    field(HeaderId::Other, "retry-after", ""),
    field(HeaderId::Server, "server", ""),
    field(HeaderId::SetCookie, "set-cookie", ""),
    field(HeaderId::Other, "strict-transport-security", ""),
    field(HeaderId::TransferEncoding, "transfer-encoding", ""),
    field(HeaderId::UserAgent, "user-agent", ""),
    field(HeaderId::Other, "vary", ""),
    field(HeaderId::Via, "via", ""),
    field(HeaderId::Other, "www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::names::{KNOWN, look_up};

    #[test]
    fn ids_and_pseudo_fields_are_those_of_the_names() {
        for entry in &TABLE {
            assert_eq!(entry.id, HeaderId::of(entry.name));
            assert_eq!(entry.pseudo, Pseudo::of(entry.name));
        }
    }

    #[test]
    fn an_index_names_its_entry() {
        let named = |index| entry(index).map(|entry| (entry.name, entry.value));
        assert_eq!(named(0), None);
        assert_eq!(named(1), Some((b":authority".as_slice(), b"".as_slice())));
        assert_eq!(named(8), Some((b":status".as_slice(), b"200".as_slice())));
        assert_eq!(named(16), Some((b"accept-encoding".as_slice(), b"gzip, deflate".as_slice())));
        assert_eq!(named(61), Some((b"www-authenticate".as_slice(), b"".as_slice())));
        assert_eq!(named(62), None);
    }

    #[test]
    fn an_index_is_the_first_with_its_name() {
        for known in &KNOWN[1..] {
            let first =
                (1..=ENTRIES).find(|&index| entry(index).is_some_and(|entry| entry.name == known.name.as_bytes()));
            assert_eq!(usize::from(known.hpack_index), first.unwrap_or(0), "{}", known.name);
            assert!(known.hpack_index != 16 || known.name == "accept-encoding");
        }
        for entry in (1..=ENTRIES).filter_map(entry) {
            assert_ne!(look_up(entry.name), 0, "{}", entry.name.escape_ascii());
        }
    }
}
