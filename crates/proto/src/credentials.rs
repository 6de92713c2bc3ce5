//! Credentials of the `Basic` scheme (RFC 7617): name and password in an `Authorization` field.

/// Name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `name:password`, decoded.
    decoded: Vec<u8>,
    /// The place of the colon.
    colon: usize,
}

/// The format leaves passwords out, so that `{:?}` does not put them into logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Credentials({})", self.user().escape_ascii())
    }
}

impl Credentials {
    /// Reads the value of an `Authorization` field. `None`: another scheme, no Base64, no colon, or no name.
    pub fn parse(value: &[u8]) -> Option<Credentials> {
        let (scheme, rest) = value.split_at_checked(b"Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"basic ") {
            return None;
        }
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let decoded = decode_base64(&rest[start..])?;
        let colon = memchr::memchr(b':', &decoded).filter(|colon| *colon > 0)?;
        Some(Credentials { decoded, colon })
    }

    /// The name, never empty and without a colon.
    pub fn user(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// The password, which may be empty and may have colons.
    pub fn password(&self) -> &[u8] {
        &self.decoded[self.colon + 1..]
    }
}

/// Decodes Base64 (RFC 4648 section 4) as nginx does: up to the first `=`, whatever follows it, ignoring left-over
/// bits. `None`: an invalid byte or length.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let text = &text[..memchr::memchr(b'=', text).unwrap_or(text.len())];
    if text.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let mut bits = 0u32;
    let mut count = 0;
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_read() {
        for (value, user, password) in [
            (&b"Basic cGxhaW46c2VjcmV0"[..], &b"plain"[..], &b"secret"[..]),
            (b"basic cGxhaW46c2VjcmV0", b"plain", b"secret"),
            (b"BASIC   cGxhaW46c2VjcmV0", b"plain", b"secret"),
            (b"Basic cGxhaW46c2VjcmV0====", b"plain", b"secret"),
            (b"Basic cGxhaW46", b"plain", b""),
            (b"Basic YTpiOmM=", b"a", b"b:c"),
            (b"Basic YTpiOmM", b"a", b"b:c"),
        ] {
            let credentials = Credentials::parse(value).unwrap();
            assert_eq!((credentials.user(), credentials.password()), (user, password));
        }
    }

    #[test]
    fn anything_else_is_none() {
        for value in [
            &b""[..],
            b"Basic",
            b"Basic ",
            b"Basic x",
            b"Basic cGxhaW4=",
            b"Basic OnNlY3JldA==",
            b"Basic\tcGxhaW46c2VjcmV0",
            b"Basic cGxhaW46c2VjcmV0x",
            b"Basic _-_-cGxhaW46c2VjcmV0",
            b"Bearer cGxhaW46c2VjcmV0",
            b"Basic !!!",
        ] {
            assert_eq!(Credentials::parse(value), None, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let credentials = Credentials::parse(b"Basic cGxhaW46c2VjcmV0").unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(plain)");
    }
}
