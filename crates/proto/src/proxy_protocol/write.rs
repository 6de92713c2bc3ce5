//! Headers for the servers that a connection is passed on to.

use std::net::{IpAddr, SocketAddr};

use super::{SIGNATURE, SSL, V2_HEAD, named_type};

/// The type of the field with the checksum of the whole header.
const CRC32C: u8 = 0x03;

/// The type of the field that only fills.
const NOOP: u8 = 0x04;

/// The client has connected with TLS, and has shown a certificate on this connection (specification, section 2.2.6).
const CLIENT_SSL: u8 = 0x01;
const CLIENT_CERT_CONN: u8 = 0x02;

/// Error of a header that cannot be written: it, or one of its fields, has no room for its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("PROXY protocol header is too large")]
pub struct TooLarge;

/// Both ends of the connection that a header is about: the client, and the address that it has connected to.
pub type ConnectionEnds = (SocketAddr, SocketAddr);

/// Transport of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A byte stream (TCP).
    Stream,
    /// Datagrams (UDP).
    Datagrams,
}

/// Appends a header of version 1. Without `ends`, which a client on a Unix socket does not have, it says `UNKNOWN`.
pub fn write_v1(ends: Option<ConnectionEnds>, out: &mut Vec<u8>) {
    let Some((client, server)) = ends.map(of_one_family) else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let family = if client.is_ipv4() { '4' } else { '6' };
    let (from, to) = (client.ip(), server.ip());
    let line = format!("PROXY TCP{family} {from} {to} {} {}\r\n", client.port(), server.port());
    out.extend_from_slice(line.as_bytes());
}

/// Both addresses in one family, as a header has them: if they differ, the IPv4 address is mapped (RFC 4291 section
/// 2.5.5.2).
fn of_one_family((client, server): ConnectionEnds) -> ConnectionEnds {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let (client, server) = (plain(client), plain(server));
    if client.is_ipv4() == server.is_ipv4() {
        return (client, server);
    }
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    (mapped(client), mapped(server))
}

/// A header of version 2 that says that the connection is the proxy's own (the command `LOCAL`).
pub const LOCAL: [u8; V2_HEAD] = *b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Facts about the client's TLS session in a header.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsFields<'t> {
    /// Whether the client has shown a certificate.
    pub has_certificate: bool,
    /// Whether that was found good; with no certificate there is nothing to find.
    pub is_verified: bool,
    /// The version of the protocol, `TLSv1.3` for example.
    pub version: &'t [u8],
    /// The common name in the client's certificate.
    pub common_name: Option<&'t [u8]>,
    /// The cipher.
    pub cipher: Option<&'t [u8]>,
    /// The algorithm that this server's certificate is signed with.
    pub signature: Option<&'t [u8]>,
    /// The algorithm of this server's key.
    pub key: Option<&'t [u8]>,
}

/// A header of version 2 that is being written.
#[derive(Debug, Clone)]
pub struct HeaderV2(Vec<u8>);

impl HeaderV2 {
    /// A header without further fields. Without `ends` it leaves the addresses out (`AF_UNSPEC`).
    pub fn new(ends: Option<ConnectionEnds>, carrier: Carrier) -> HeaderV2 {
        let mut bytes = SIGNATURE.to_vec();
        let carried = match carrier {
            Carrier::Stream => 1,
            Carrier::Datagrams => 2,
        };
        // Version 2, a connection that is passed on; the length follows at the end.
        let mut begin = |family: u8| bytes.extend_from_slice(&[0x21, family, 0, 0]);
        match ends.map(of_one_family) {
            None => begin(0),
            Some((client, server)) => {
                begin(if client.is_ipv4() { 0x10 } else { 0x20 } | carried);
                for end in [client, server] {
                    match end.ip() {
                        IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
                        IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
                    }
                }
                for end in [client, server] {
                    bytes.extend_from_slice(&end.port().to_be_bytes());
                }
            }
        }
        HeaderV2(bytes)
    }

    /// Appends a field of this type.
    ///
    /// # Errors
    /// The value is longer than a length of two bytes can say.
    pub fn field(&mut self, number: u8, value: &[u8]) -> Result<(), TooLarge> {
        push_field(&mut self.0, number, value)
    }

    /// Appends the field about the client's TLS session.
    ///
    /// # Errors
    /// It is longer than a length of two bytes can say.
    pub fn tls(&mut self, tls: &TlsFields<'_>) -> Result<(), TooLarge> {
        let mut value = vec![CLIENT_SSL];
        if tls.has_certificate {
            value[0] |= CLIENT_CERT_CONN;
        }
        let verify = u32::from(!(tls.has_certificate && tls.is_verified));
        value.extend_from_slice(&verify.to_be_bytes());
        let fields = [
            (0x21, Some(tls.version)),
            (0x22, tls.common_name),
            (0x23, tls.cipher),
            (0x24, tls.signature),
            (0x25, tls.key),
        ];
        for (number, text) in fields {
            if let Some(text) = text {
                push_field(&mut value, number, text)?;
            }
        }
        self.field(SSL, &value)
    }

    /// The whole header, with its checksum.
    ///
    /// # Errors
    /// It is longer than a length of two bytes can say.
    pub fn finish(self) -> Result<Vec<u8>, TooLarge> {
        let HeaderV2(mut bytes) = self;
        push_field(&mut bytes, CRC32C, &[0; 4])?;
        let len = u16::try_from(bytes.len() - V2_HEAD).map_err(|_| TooLarge)?;
        bytes[V2_HEAD - 2..V2_HEAD].copy_from_slice(&len.to_be_bytes());
        // The checksum is computed over the header with zeros in its place.
        let sum = crc32c(&bytes).to_be_bytes();
        let at = bytes.len() - sum.len();
        bytes[at..].copy_from_slice(&sum);
        Ok(bytes)
    }
}

/// Appends a field: type, length, value.
fn push_field(out: &mut Vec<u8>, number: u8, value: &[u8]) -> Result<(), TooLarge> {
    let len = u16::try_from(value.len()).map_err(|_| TooLarge)?;
    out.push(number);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

/// The type of a field that a configuration may add, by a name (`alpn`, `authority`, `unique_id`, `netns`) or a number such
/// as `0xe0`. `None`: there is no such type, or the header has that field by itself.
pub fn own_field(name: &str) -> Option<u8> {
    named_type(name).filter(|number| !matches!(*number, 0 | CRC32C | NOOP | SSL))
}

/// The polynomial of CRC-32C (RFC 3720 section 12.1), with its bits in reverse order.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The checksums of single bytes.
const SUMS: [u32; 256] = {
    let mut sums = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        sums[byte] = sum;
        byte += 1;
    }
    sums
};

/// The checksum CRC-32C of some bytes (RFC 3720 section 12.1).
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| (sum >> 8) ^ SUMS[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_protocol::parse;

    fn ends(client: &str, server: &str) -> Option<ConnectionEnds> {
        Some((client.parse().unwrap(), server.parse().unwrap()))
    }

    #[test]
    fn checksums_are_those_of_rfc_3720() {
        // Appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|n| n as u8)), 0x46dd_794e);
    }

    #[test]
    fn lines_name_both_ends_in_one_family() {
        for (ends, line) in [
            (ends("192.0.2.9:5555", "198.51.100.3:443"), "PROXY TCP4 192.0.2.9 198.51.100.3 5555 443\r\n"),
            (ends("[2001:db8::9]:1", "[::1]:2"), "PROXY TCP6 2001:db8::9 ::1 1 2\r\n"),
            (ends("[::ffff:192.0.2.9]:1", "192.0.2.1:2"), "PROXY TCP4 192.0.2.9 192.0.2.1 1 2\r\n"),
            (ends("192.0.2.9:1", "[::1]:2"), "PROXY TCP6 ::ffff:192.0.2.9 ::1 1 2\r\n"),
            (None, "PROXY UNKNOWN\r\n"),
        ] {
            let mut out = Vec::new();
            write_v1(ends, &mut out);
            assert_eq!(String::from_utf8(out.clone()).unwrap(), line);
            assert_eq!(parse(&out).unwrap().unwrap().1, out.len());
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (ends, client) in [
            (ends("192.0.2.9:5555", "198.51.100.3:443"), Some(("192.0.2.9", 5555))),
            (ends("[2001:db8::9]:5555", "[::1]:443"), Some(("2001:db8::9", 5555))),
            (None, None),
        ] {
            let mut header = HeaderV2::new(ends, Carrier::Stream);
            header.field(0x01, b"h2").unwrap();
            header.field(0xe0, b"").unwrap();
            let tls = TlsFields {
                has_certificate: true,
                is_verified: true,
                version: b"TLSv1.3",
                common_name: Some(b"client"),
                key: Some(b"RSA2048"),
                ..TlsFields::default()
            };
            header.tls(&tls).unwrap();
            let bytes = header.finish().unwrap();
            let (read, len) = parse(&bytes).unwrap().unwrap();
            assert_eq!(len, bytes.len());
            let named = read.ends.as_ref().map(|ends| (ends.client.as_str(), ends.client_port));
            assert_eq!(named, client);
            if client.is_none() {
                continue;
            }
            for (name, value) in [
                ("alpn", Some(&b"h2"[..])),
                ("0xe0", Some(b"")),
                ("ssl_version", Some(b"TLSv1.3")),
                ("ssl_cn", Some(b"client")),
                ("ssl_key_alg", Some(b"RSA2048")),
                ("ssl_verify", Some(b"0")),
                ("ssl_cipher", None),
                ("authority", None),
            ] {
                assert_eq!(read.tlv(name).as_deref(), value, "{name}");
            }
            // The sum of a whole header in which the sum's field is zero is what stands in that field.
            let at = bytes.len() - 4;
            let zeroed = [&bytes[..at], &[0; 4]].concat();
            assert_eq!(crc32c(&zeroed).to_be_bytes(), bytes[at..]);
        }
    }

    #[test]
    fn a_connection_of_the_proxy_itself_names_no_client() {
        let (read, len) = parse(&LOCAL).unwrap().unwrap();
        assert_eq!((read.ends, len), (None, LOCAL.len()));
    }

    #[test]
    fn datagrams_say_so() {
        let bytes = HeaderV2::new(ends("192.0.2.9:1", "192.0.2.1:2"), Carrier::Datagrams).finish().unwrap();
        assert_eq!(bytes[V2_HEAD - 3], 0x12);
        let bytes = HeaderV2::new(ends("[::1]:1", "[::1]:2"), Carrier::Datagrams).finish().unwrap();
        assert_eq!(bytes[V2_HEAD - 3], 0x22);
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let mut header = HeaderV2::new(None, Carrier::Stream);
        assert_eq!(header.field(0xe0, &[0; 65536]), Err(TooLarge));
        header.field(0xe0, &[0; 65535 - 3 - 7]).unwrap();
        assert_eq!(header.clone().finish().unwrap().len(), V2_HEAD + 65535);
        header.field(0xe1, b"").unwrap();
        assert_eq!(header.finish(), Err(TooLarge));
    }

    #[test]
    fn fields_of_the_header_itself_cannot_be_added() {
        for (name, number) in [
            ("alpn", Some(0x01)),
            ("authority", Some(0x02)),
            ("unique_id", Some(0x05)),
            ("netns", Some(0x30)),
            ("0xE0", Some(0xe0)),
            ("ssl", None),
            ("0x20", None),
            ("0x03", None),
            ("0x4", None),
            ("0x0", None),
            ("0x100", None),
            ("crc32c", None),
            ("", None),
        ] {
            assert_eq!(own_field(name), number, "{name}");
        }
    }
}
