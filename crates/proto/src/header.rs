//! Well-known header field names.

use crate::ascii;

macro_rules! header_ids {
    ($($id:ident $text:literal,)*) => {
        /// The name of a header field that the server or its modules look for, interned so that a look-up costs an
        /// integer comparison per field.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum HeaderId {
            /// A name that is not in this list.
            Other,
            $(
                #[doc = concat!("`", $text, "`")]
                $id,
            )*
        }

        impl HeaderId {
            /// Every known name with its id.
            pub const ALL: &'static [(HeaderId, &'static str)] = &[$((HeaderId::$id, $text),)*];

            /// The name as it is usually written; empty for [`HeaderId::Other`].
            #[inline]
            pub const fn name(self) -> &'static str {
                // This is a table, since a `match` would be a jump for each.
                static NAMES: &[&str] = &["", $($text,)*];
                NAMES[self as usize]
            }

            /// The name in lower-case letters, as HTTP/2 has it; empty for [`HeaderId::Other`].
            #[inline]
            pub const fn lower_name(self) -> &'static [u8] {
                static NAMES: &[&[u8]] = &[b"", $({
                    const NAME: [u8; $text.len()] = ascii::lower($text.as_bytes());
                    &NAME
                },)*];
                NAMES[self as usize]
            }
        }
    };
}

header_ids! {
    Accept "Accept",
    AcceptCharset "Accept-Charset",
    AcceptEncoding "Accept-Encoding",
    AcceptLanguage "Accept-Language",
    AcceptRanges "Accept-Ranges",
    AccessControlRequestHeaders "Access-Control-Request-Headers",
    AccessControlRequestMethod "Access-Control-Request-Method",
    Authorization "Authorization",
    CacheControl "Cache-Control",
    Connection "Connection",
    ContentDisposition "Content-Disposition",
    ContentEncoding "Content-Encoding",
    ContentLength "Content-Length",
    ContentRange "Content-Range",
    ContentType "Content-Type",
    Cookie "Cookie",
    Date "Date",
    Depth "Depth",
    Destination "Destination",
    Etag "ETag",
    Expect "Expect",
    Expires "Expires",
    Forwarded "Forwarded",
    From "From",
    Host "Host",
    IfMatch "If-Match",
    IfModifiedSince "If-Modified-Since",
    IfNoneMatch "If-None-Match",
    IfRange "If-Range",
    IfUnmodifiedSince "If-Unmodified-Since",
    KeepAlive "Keep-Alive",
    LastModified "Last-Modified",
    Location "Location",
    Origin "Origin",
    Overwrite "Overwrite",
    Pragma "Pragma",
    Priority "Priority",
    ProxyAuthorization "Proxy-Authorization",
    ProxyConnection "Proxy-Connection",
    Range "Range",
    Referer "Referer",
    Refresh "Refresh",
    Server "Server",
    SetCookie "Set-Cookie",
    Te "TE",
    Trailer "Trailer",
    TransferEncoding "Transfer-Encoding",
    Upgrade "Upgrade",
    UserAgent "User-Agent",
    Via "Via",
    XForwardedFor "X-Forwarded-For",
    XForwardedHost "X-Forwarded-Host",
    XForwardedProto "X-Forwarded-Proto",
    XRealIp "X-Real-IP",
    XRequestId "X-Request-ID",
}

impl HeaderId {
    /// The length of the longest known name, in bytes.
    pub const LONGEST: usize = 30;

    /// The id of a field name, in any case.
    #[inline]
    pub fn of(name: &[u8]) -> HeaderId {
        HeaderId::look_up(name).0
    }

    /// Whether the field says something about the connection of HTTP/1 that it came by, so that it has no place in HTTP/2 (RFC
    /// 9113 section 8.2.2).
    #[inline]
    pub const fn is_of_connection(self) -> bool {
        matches!(
            self,
            HeaderId::Connection
                | HeaderId::KeepAlive
                | HeaderId::ProxyConnection
                | HeaderId::TransferEncoding
                | HeaderId::Upgrade
        )
    }

    /// The id of a field name, in any case, and whether the name is written in the usual way: as [`HeaderId::name`] has
    /// it.
    #[inline]
    pub fn look_up(name: &[u8]) -> (HeaderId, bool) {
        if name.is_empty() || name.len() > HeaderId::LONGEST {
            return (HeaderId::Other, false);
        }
        let id = SLOTS[bucket(name)];
        let known = id.name().as_bytes();
        if ascii::same(known, name) {
            return (id, true);
        }
        // All names of HTTP/2 are such.
        if ascii::same(id.lower_name(), name) {
            return (id, false);
        }
        (if known.eq_ignore_ascii_case(name) { id } else { HeaderId::Other }, false)
    }
}

/// The number of buckets of the table of names; a power of two.
const BUCKETS: usize = 256;

/// The bucket of a name: a mix of its length, first, middle and last byte, ignoring case. The factors are such that
/// each known name has a bucket for itself.
const fn bucket(name: &[u8]) -> usize {
    let n = name.len();
    let first = (name[0] | 0x20) as usize;
    let middle = (name[n / 2] | 0x20) as usize;
    let last = (name[n - 1] | 0x20) as usize;
    (n * 16 + first * 37 + middle * 6 + last * 8) % BUCKETS
}

/// The table, made at compile time; two names in one bucket fail the build.
static SLOTS: [HeaderId; BUCKETS] = {
    let mut slots = [HeaderId::Other; BUCKETS];
    let mut i = 0;
    while i < HeaderId::ALL.len() {
        let (id, name) = HeaderId::ALL[i];
        assert!(name.len() <= HeaderId::LONGEST);
        let bucket = bucket(name.as_bytes());
        assert!(matches!(slots[bucket], HeaderId::Other), "other factors have to be found");
        slots[bucket] = id;
        i += 1;
    }
    slots
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case() {
        for &(id, name) in HeaderId::ALL {
            assert_eq!(HeaderId::of(name.as_bytes()), id);
            assert_eq!(HeaderId::of(name.to_ascii_lowercase().as_bytes()), id);
            assert_eq!(HeaderId::of(name.to_ascii_uppercase().as_bytes()), id);
            assert_eq!(id.name(), name);
            assert_eq!(HeaderId::look_up(name.as_bytes()), (id, true));
            let other_case = name.to_ascii_lowercase();
            assert_eq!(id.lower_name(), other_case.as_bytes());
            assert_eq!(HeaderId::look_up(other_case.as_bytes()), (id, other_case == name));
        }
    }

    #[test]
    fn other_names_are_other() {
        for name in ["", "Hos", "Hosts", "X-Foo", "Content_Length", "Content-Lengtj"] {
            assert_eq!(HeaderId::look_up(name.as_bytes()), (HeaderId::Other, false), "{name}");
        }
    }
}
