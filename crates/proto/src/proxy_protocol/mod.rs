//! The PROXY protocol, versions 1 and 2: a header about the client's connection, which a proxy sends before the first
//! byte of the connection that it passes on.
//!
//! The source is HAProxy's specification, "The PROXY protocol". As in nginx, addresses of version 1 are not parsed
//! (they stay text), and of version 2 only TCP over IPv4 and IPv6 is understood. For anything else the addresses are
//! unknown.

pub mod write;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest header that is accepted, in bytes; nginx's limit.
pub const MAX_HEADER: usize = 4096;

/// The first twelve bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The length of the signature with version, command, family and length, in bytes.
const V2_HEAD: usize = 16;

/// The content of a header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyHeader {
    /// Both ends of the client's connection; `None` if the proxy does not know or does not say.
    pub ends: Option<Ends>,
    /// Further fields of version 2, as they came: type, length in two bytes, value.
    pub tlvs: Vec<u8>,
}

/// Both ends of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Address of the client, as text; not necessarily a valid one.
    pub client: String,
    /// Port of the client.
    pub client_port: u16,
    /// Address that the client connected to.
    pub server: String,
    /// Port that the client connected to.
    pub server_port: u16,
}

/// Reason for which a header cannot be read. The texts are nginx's, without the header's bytes, which the caller has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The header is malformed.
    #[error("broken header")]
    Broken,
    /// The header of version 2 has another version number.
    #[error("unknown PROXY protocol version: {0}")]
    Version(u8),
    /// The header is longer than [`MAX_HEADER`].
    #[error("header is too large")]
    TooLarge,
}

/// Reads a header at the beginning of `bytes`: returns its content, and its length. `None`: more bytes are needed.
///
/// # Errors
/// See [`ProxyError`]; returned as soon as no further bytes can make the header valid.
pub fn parse(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyError> {
    let start = bytes.len().min(SIGNATURE.len());
    let parsed = if bytes[..start] == SIGNATURE[..start] { version_2(bytes, [0x11, 0x21]) } else { version_1(bytes) }?;
    match parsed {
        None if bytes.len() >= MAX_HEADER => Err(ProxyError::TooLarge),
        parsed => Ok(parsed),
    }
}

/// Reads the header at the beginning of a datagram: returns its content, and its length. It is of version 2, because
/// version 1 knows no datagrams, and about datagrams; about anything else the addresses are unknown.
///
/// # Errors
/// There is no whole header.
pub fn parse_datagram(bytes: &[u8]) -> Result<(ProxyHeader, usize), ProxyError> {
    if !bytes.starts_with(SIGNATURE) {
        return Err(ProxyError::Broken);
    }
    version_2(bytes, [0x12, 0x22])?.ok_or(ProxyError::Broken)
}

/// A version 1 header, read from its beginning.
struct TextHeader<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// `Ok(None)`: the bytes end too early.
type ParseResult<T> = Result<Option<T>, ProxyError>;

impl<'b> TextHeader<'b> {
    fn expect(&mut self, text: &[u8]) -> ParseResult<()> {
        let rest = &self.bytes[self.at..];
        let len = rest.len().min(text.len());
        if rest[..len] != text[..len] {
            return Err(ProxyError::Broken);
        }
        self.at += len;
        Ok((len == text.len()).then_some(()))
    }

    /// The bytes up to `end`; all of them have to satisfy `fits`.
    fn word(&mut self, end: u8, fits: fn(&u8) -> bool) -> ParseResult<&'b [u8]> {
        let rest = &self.bytes[self.at..];
        match rest.iter().position(|byte| !fits(byte)) {
            None => Ok(None),
            Some(len) if rest[len] == end => {
                self.at += len + 1;
                Ok(Some(&rest[..len]))
            }
            Some(_) => Err(ProxyError::Broken),
        }
    }

    fn address(&mut self) -> ParseResult<String> {
        let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':');
        Ok(self.word(b' ', is_part)?.map(|address| address.iter().map(|byte| char::from(*byte)).collect()))
    }

    fn port(&mut self, end: u8) -> ParseResult<u16> {
        let Some(digits) = self.word(end, u8::is_ascii_digit)? else { return Ok(None) };
        let port = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        port.map(Some).ok_or(ProxyError::Broken)
    }
}

/// Continues if the bytes are complete.
macro_rules! there {
    ($read:expr) => {
        match $read? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn version_1(bytes: &[u8]) -> ParseResult<(ProxyHeader, usize)> {
    let mut line = TextHeader { bytes, at: 0 };
    there!(line.expect(b"PROXY "));
    if line.bytes[line.at..].first() == Some(&b'U') {
        there!(line.expect(b"UNKNOWN"));
        // The rest of the line is to be ignored.
        let rest = &bytes[line.at..];
        return Ok(memchr::memmem::find(rest, b"\r\n").map(|len| (ProxyHeader::default(), line.at + len + 2)));
    }
    there!(line.expect(b"TCP"));
    match bytes.get(line.at) {
        None => return Ok(None),
        Some(b'4' | b'6') => line.at += 1,
        Some(_) => return Err(ProxyError::Broken),
    }
    there!(line.expect(b" "));
    let client = there!(line.address());
    let server = there!(line.address());
    let client_port = there!(line.port(b' '));
    let server_port = there!(line.port(b'\r'));
    there!(line.expect(b"\n"));
    let ends = Some(Ends { client, client_port, server, server_port });
    Ok(Some((ProxyHeader { ends, tlvs: Vec::new() }, line.at)))
}

/// Reads a header of version 2, which has addresses if it is about one of these: IPv4 or IPv6, with the transport.
fn version_2(bytes: &[u8], [ipv4, ipv6]: [u8; 2]) -> ParseResult<(ProxyHeader, usize)> {
    let Some(&[version_and_command, family, high, low]) = bytes.get(SIGNATURE.len()..V2_HEAD) else {
        return match bytes.get(SIGNATURE.len()).map(|byte| byte >> 4) {
            Some(version) if version != 2 => Err(ProxyError::Version(version)),
            _ => Ok(None),
        };
    };
    match version_and_command >> 4 {
        2 => {}
        version => return Err(ProxyError::Version(version)),
    }
    let len = V2_HEAD + usize::from(u16::from_be_bytes([high, low]));
    if len > MAX_HEADER {
        return Err(ProxyError::TooLarge);
    }
    let Some(body) = bytes.get(V2_HEAD..len) else { return Ok(None) };
    // Command 0 is about the proxy's own connection; others do not exist.
    let is_proxied = version_and_command & 15 == 1;
    let address_len = match family {
        family if family == ipv4 => 4,
        family if family == ipv6 => 16,
        _ => 0,
    };
    if !is_proxied || address_len == 0 {
        return Ok(Some((ProxyHeader::default(), len)));
    }
    let split = body.split_at_checked(2 * address_len + 4).ok_or(ProxyError::Broken)?;
    let (addresses, tlvs) = split;
    let address = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(octets), _) => IpAddr::from(Ipv4Addr::from(octets)).to_string(),
        (_, Ok(octets)) => IpAddr::from(Ipv6Addr::from(octets)).to_string(),
        _ => String::new(),
    };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    let ends = Ends {
        client: address(&addresses[..address_len]),
        client_port: port(2 * address_len),
        server: address(&addresses[address_len..2 * address_len]),
        server_port: port(2 * address_len + 2),
    };
    Ok(Some((ProxyHeader { ends: Some(ends), tlvs: tlvs.to_vec() }, len)))
}

/// The type of the field that contains those about TLS.
const SSL: u8 = 0x20;
/// The bytes before those fields: one byte of flags, four of the result of verifying.
const SSL_HEAD: usize = 5;

impl ProxyHeader {
    /// A field by the name that `$proxy_protocol_tlv_…` has for it: `alpn`, `authority`, `unique_id`, `ssl`, `netns`,
    /// or a number such as `0xe0`. With `ssl_` in front they are the fields about TLS: `ssl_version`, `ssl_cn`,
    /// `ssl_cipher`, `ssl_sig_alg`, `ssl_key_alg`, `ssl_0x21`. There is also `ssl_verify`, in decimal.
    pub fn tlv(&self, name: &str) -> Option<std::borrow::Cow<'_, [u8]>> {
        let Some(name) = name.strip_prefix("ssl_") else {
            return find(&self.tlvs, named_type(name)?).map(Into::into);
        };
        let (head, fields) = find(&self.tlvs, SSL)?.split_at_checked(SSL_HEAD)?;
        let number = match name {
            "verify" => {
                let verified = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
                return Some(verified.to_string().into_bytes().into());
            }
            "version" => 0x21,
            "cn" => 0x22,
            "cipher" => 0x23,
            "sig_alg" => 0x24,
            "key_alg" => 0x25,
            number => type_number(number)?,
        };
        find(fields, number).map(Into::into)
    }
}

/// The type of a field by its name or number.
fn named_type(name: &str) -> Option<u8> {
    Some(match name {
        "alpn" => 0x01,
        "authority" => 0x02,
        "unique_id" => 0x05,
        "ssl" => SSL,
        "netns" => 0x30,
        number => type_number(number)?,
    })
}

fn type_number(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("0x")?;
    // `from_str_radix` accepts a sign. There may be zeros in front.
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The first field of that type. If a field is longer than the rest, fields behind it are not found.
fn find(mut tlvs: &[u8], number: u8) -> Option<&[u8]> {
    while let [this, high, low, rest @ ..] = tlvs {
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *this == number {
            return Some(value);
        }
        tlvs = rest;
    }
    None
}

#[cfg(test)]
mod tests;
