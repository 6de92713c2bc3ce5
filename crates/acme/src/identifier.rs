//! Subjects of a certificate: names and addresses.

use std::fmt;
use std::net::IpAddr;

/// Subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identifier {
    /// A host name: lower case, ASCII, without a dot at the end (RFC 8555, section 7.1.4).
    Dns(String),
    /// An address (RFC 8738).
    Ip(IpAddr),
}

/// Reason for which a text is no identifier of a certificate by ACME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentifierError {
    /// There is nothing.
    #[error("an empty name")]
    Empty,
    /// Wildcards need the challenge dns-01, which is not there.
    #[error("wildcard names need the challenge dns-01, which is not supported")]
    Wildcard,
    /// The text is neither a host name nor an address: another character, or a part that is too long.
    #[error("not a host name or an address")]
    Malformed,
}

impl Identifier {
    /// Reads a host name or an address (an IPv6 address with or without brackets). Upper case becomes lower case, and a
    /// dot at the end is dropped.
    ///
    /// # Errors
    ///
    /// For names that no CA issues a certificate for, by the rules of host names (RFC 1123, section 2.1). A name has
    /// letters, digits, `-` and (because it is seen) `_`, in parts of 1 to 63 characters, 253 in all.
    pub fn parse(text: &str) -> Result<Identifier, IdentifierError> {
        if text.is_empty() {
            return Err(IdentifierError::Empty);
        }
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return match (bare, address) {
                (Some(_), IpAddr::V4(_)) => Err(IdentifierError::Malformed),
                _ => Ok(Identifier::Ip(address)),
            };
        }
        if text.starts_with("*.") || (text.starts_with('.') && text.len() > 1) {
            return Err(IdentifierError::Wildcard);
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let part_ok = |part: &str| {
            (1..=63).contains(&part.len())
                && part.bytes().all(allowed)
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        // A last part of digits only is no host name but a broken IPv4 address (RFC 3696, section 2).
        let last_is_number = name.rsplit('.').next().is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        if name.len() > 253 || last_is_number || !name.split('.').all(part_ok) {
            return Err(IdentifierError::Malformed);
        }
        Ok(Identifier::Dns(name.to_ascii_lowercase()))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Dns(name) => f.write_str(name),
            Identifier::Ip(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dns(text: &str) -> Result<Identifier, IdentifierError> {
        Ok(Identifier::Dns(text.to_owned()))
    }

    #[test]
    fn names_and_addresses_are_told_apart() {
        assert_eq!(Identifier::parse("WWW.Example.com."), dns("www.example.com"));
        assert_eq!(Identifier::parse("xn--bcher-kva.example"), dns("xn--bcher-kva.example"));
        assert_eq!(Identifier::parse("localhost"), dns("localhost"));
        assert_eq!(Identifier::parse("192.0.2.7"), Ok(Identifier::Ip(IpAddr::from([192, 0, 2, 7]))));
        let six = Ok(Identifier::Ip(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])));
        assert_eq!(Identifier::parse("2001:DB8::1"), six);
        assert_eq!(Identifier::parse("[2001:db8::1]"), six);
    }

    #[test]
    fn what_no_ca_issues_for_is_refused() {
        assert_eq!(Identifier::parse(""), Err(IdentifierError::Empty));
        assert_eq!(Identifier::parse("*.example.com"), Err(IdentifierError::Wildcard));
        assert_eq!(Identifier::parse(".example.com"), Err(IdentifierError::Wildcard));
        let long_part = format!("{}.com", "a".repeat(64));
        let long = vec!["abcdefg"; 40].join(".");
        for bad in ["a b", "a..b", "-a.com", "a-.com", "~^www\\d", "1.2.3", "[192.0.2.7]", "a/b", "bücher.example", "."]
            .into_iter()
            .chain([long_part.as_str(), long.as_str()])
        {
            assert_eq!(Identifier::parse(bad), Err(IdentifierError::Malformed), "{bad}");
        }
    }
}
