//! Pseudo-header fields of HTTP/2 and HTTP/3.

/// A pseudo-header field: RFC 9113 section 8.3, RFC 9114 section 4.3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Pseudo {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:path`
    Path,
    /// `:authority`
    Authority,
    /// `:status`, of responses alone.
    Status,
    /// `:protocol`, of the extended CONNECT (RFC 8441 section 4, RFC 9220).
    Protocol,
    /// Another name that begins with a colon.
    Unknown,
}

impl Pseudo {
    /// The field with this name, in lower case; `None` for a name that does not begin with a colon.
    pub fn of(name: &[u8]) -> Option<Pseudo> {
        if name.first() != Some(&b':') {
            return None;
        }
        Some(match name {
            b":method" => Pseudo::Method,
            b":scheme" => Pseudo::Scheme,
            b":path" => Pseudo::Path,
            b":authority" => Pseudo::Authority,
            b":status" => Pseudo::Status,
            b":protocol" => Pseudo::Protocol,
            _ => Pseudo::Unknown,
        })
    }

    /// The name with its colon, which alone there is for an unknown one.
    pub const fn name(self) -> &'static str {
        match self {
            Pseudo::Method => ":method",
            Pseudo::Scheme => ":scheme",
            Pseudo::Path => ":path",
            Pseudo::Authority => ":authority",
            Pseudo::Status => ":status",
            Pseudo::Protocol => ":protocol",
            Pseudo::Unknown => ":",
        }
    }
}
