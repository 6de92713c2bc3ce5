//! The set of versions of HTTP that a server speaks at an address.

use freerun_proto::Version;

/// A set of versions of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocols {
    /// HTTP/1, with all of its minor versions.
    pub h1: bool,
    /// HTTP/2.
    pub h2: bool,
    /// HTTP/3.
    pub h3: bool,
}

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols::HTTP1
    }
}

/// The names of the protocols above TLS on TCP, the most preferred first (RFC 7301). HTTP/3 has no TLS below it.
const ALPN: [&[u8]; 4] = [b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];

impl Protocols {
    /// HTTP/1 alone.
    pub const HTTP1: Protocols = Protocols { h1: true, h2: false, h3: false };

    /// The set with HTTP/2 added if `http2` is true.
    pub fn with_http2(self, http2: bool) -> Protocols {
        Protocols { h2: self.h2 | http2, ..self }
    }

    /// The set with HTTP/3 added if `http3` is true. Only addresses with `quic` make use of it.
    pub fn with_http3(self, http3: bool) -> Protocols {
        Protocols { h3: self.h3 | http3, ..self }
    }

    /// The union of both sets.
    pub fn union(self, other: Protocols) -> Protocols {
        Protocols { h1: self.h1 | other.h1, h2: self.h2 | other.h2, h3: self.h3 | other.h3 }
    }

    /// Whether the set has this version.
    pub fn has(self, version: Version) -> bool {
        match version {
            Version::Http09 | Version::Http10 | Version::Http11 => self.h1,
            Version::Http2 => self.h2,
            Version::Http3 => self.h3,
        }
    }

    /// The names that a server offers by ALPN in a TLS handshake on TCP, the most preferred first.
    pub fn alpn(self) -> &'static [&'static [u8]] {
        match (self.h2, self.h1) {
            (true, true) => &ALPN,
            (true, false) => &ALPN[..1],
            (false, true) => &ALPN[1..],
            (false, false) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_offers_by_alpn_what_it_has() {
        let h2 = Protocols { h1: false, h2: true, h3: false };
        let h3 = Protocols { h1: false, h2: false, h3: true };
        assert_eq!(Protocols::HTTP1.alpn(), [&b"http/1.1"[..], b"http/1.0", b"http/0.9"]);
        assert_eq!(Protocols::HTTP1.union(h2).alpn(), ALPN);
        assert_eq!(h2.union(h3).alpn(), [b"h2"]);
        assert!(h3.alpn().is_empty());
    }

    #[test]
    fn a_set_has_the_versions_of_both_that_it_is_the_union_of() {
        let set = Protocols::default().with_http2(true);
        let has = [Version::Http09, Version::Http11, Version::Http2, Version::Http3].map(|version| set.has(version));
        assert_eq!(has, [true, true, true, false]);
        assert_eq!(set.with_http2(false).with_http3(false), set);
        let with_all = set.with_http3(true);
        assert!(with_all.has(Version::Http3) && with_all.alpn() == set.alpn(), "HTTP/3 is not offered on TCP");
        assert!(set.union(with_all).has(Version::Http3));
    }
}
