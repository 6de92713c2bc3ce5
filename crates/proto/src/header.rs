//! Well-known header field names.

macro_rules! header_ids {
    ($($id:ident $text:literal,)*) => {
        /// A header field name the server or its modules look for, interned so that looking one up costs an integer
        /// comparison a field.
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
            pub const fn name(self) -> &'static str {
                match self {
                    HeaderId::Other => "",
                    $(HeaderId::$id => $text,)*
                }
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

/// Longest known name.
const LONGEST: usize = 30;

impl HeaderId {
    /// The id of a field name, in any case.
    pub fn of(name: &[u8]) -> HeaderId {
        if name.len() > LONGEST {
            return HeaderId::Other;
        }
        let slots = &SLOTS[bucket(name)];
        for &id in slots {
            if id == HeaderId::Other {
                break;
            }
            let known = id.name().as_bytes();
            // Most clients write it as it is written here.
            if known == name || known.eq_ignore_ascii_case(name) {
                return id;
            }
        }
        HeaderId::Other
    }
}

/// Buckets of the table of names; a power of two.
const BUCKETS: usize = 128;
/// Names a bucket can hold.
const DEPTH: usize = 3;

/// The bucket of a name: a mix of its length, first, middle and last byte, blind to case.
const fn bucket(name: &[u8]) -> usize {
    let n = name.len();
    if n == 0 {
        return 0;
    }
    let first = (name[0] | 0x20) as usize;
    let middle = (name[n / 2] | 0x20) as usize;
    let last = (name[n - 1] | 0x20) as usize;
    (n + first * 5 + middle * 17 + last * 3) % BUCKETS
}

/// The table, made at compile time; a bucket that overflows fails the build.
static SLOTS: [[HeaderId; DEPTH]; BUCKETS] = {
    let mut slots = [[HeaderId::Other; DEPTH]; BUCKETS];
    let mut i = 0;
    while i < HeaderId::ALL.len() {
        let (id, name) = HeaderId::ALL[i];
        assert!(name.len() <= LONGEST);
        let b = bucket(name.as_bytes());
        let mut d = 0;
        while !matches!(slots[b][d], HeaderId::Other) {
            d += 1;
        }
        slots[b][d] = id;
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
        }
    }

    #[test]
    fn other_names_are_other() {
        for name in ["", "Hos", "Hosts", "X-Foo", "Content_Length", "Content-Lengtj"] {
            assert_eq!(HeaderId::of(name.as_bytes()), HeaderId::Other, "{name}");
        }
    }
}
