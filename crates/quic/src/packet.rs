//! The part of a packet that every version of QUIC has (RFC 8999): by it a datagram finds its connection.

/// The bit of a packet's first byte that says that its header is a long one (RFC 8999 section 5.1).
const LONG_HEADER: u8 = 0x80;

/// The bits of the first byte that have the type of a packet with a long header, and the type of an Initial packet
/// (RFC 9000 section 17.2.2).
const TYPE: u8 = 0x30;
const INITIAL: u8 = 0x00;

/// The longest connection ID (RFC 9000 section 17.2).
pub const LONGEST_ID: usize = 20;

/// The smallest datagram that a client may begin a connection with (RFC 9000 section 14.1).
pub const SMALLEST_INITIAL: usize = 1200;

/// The first packet of a datagram, as far as it says where the datagram belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHead<'d> {
    /// The version; `None` of a packet with a short header, which belongs to a connection that is known.
    pub version: Option<u32>,
    /// The connection ID of the receiver. Of a short header it is as long as this server's connection IDs are.
    pub destination: &'d [u8],
    /// Whether it is an Initial packet, with which clients begin connections.
    pub is_initial: bool,
}

impl<'d> PacketHead<'d> {
    /// The head of a datagram's first packet. `own_ids` is the length of this server's connection IDs. `None` if it is no
    /// packet.
    pub fn parse(datagram: &'d [u8], own_ids: usize) -> Option<PacketHead<'d>> {
        let (first, rest) = datagram.split_first()?;
        if first & LONG_HEADER == 0 {
            return Some(PacketHead { version: None, destination: rest.get(..own_ids)?, is_initial: false });
        }
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first()?;
        let destination = rest.get(..usize::from(*length))?;
        let version = u32::from_be_bytes(*version);
        Some(PacketHead { version: Some(version), destination, is_initial: version != 0 && first & TYPE == INITIAL })
    }
}

/// Reads an integer of variable length (RFC 9000 section 16) from the front of `bytes`.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let length = 1_usize << (first >> 6);
    let (read, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let high = u64::from(first & 0x3f);
    Some(read[1..].iter().fold(high, |value, byte| value << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_headers_are_read() {
        let short = [0x40, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let head = PacketHead::parse(&short, 8).unwrap();
        assert_eq!((head.version, head.destination, head.is_initial), (None, &short[1..9], false));
        let long = [0xc3, 0, 0, 0, 1, 3, 7, 8, 9, 0, 0];
        let head = PacketHead::parse(&long, 8).unwrap();
        assert_eq!((head.version, head.destination, head.is_initial), (Some(1), &[7, 8, 9][..], true));
        let handshake = [0xe3, 0, 0, 0, 1, 0];
        assert!(!PacketHead::parse(&handshake, 8).unwrap().is_initial);
        for cut in 0..9 {
            assert_eq!(PacketHead::parse(&long[..cut], 8), None, "{cut}");
        }
        assert_eq!(PacketHead::parse(&short[..8], 8), None);
    }

    /// The examples of RFC 9000 appendix A.1.
    #[test]
    fn integers_of_every_length_are_read() {
        let examples: [(&[u8], u64); 5] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in examples {
            let mut rest = bytes;
            assert_eq!(varint(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(varint(&mut &bytes[..bytes.len() - 1]), None);
        }
    }
}
