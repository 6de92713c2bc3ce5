//! Control messages (cmsg(3)) beside a datagram, read and written as bytes: a header of length, level and type, the
//! value, and padding up to a multiple of a `size_t`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ECN, Ecn};

/// The room for the control messages of one datagram. Received messages need at most 120 bytes on a machine of 64 bits.
/// They are the address (40), ECN (24, twice on a socket for both families) and the size of segments (24).
const ROOM: usize = 160;

/// The length of a header, padding included.
const HEADER: usize = align(size_of::<libc::cmsghdr>());

const fn align(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

/// The control messages of one datagram.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; ROOM],
}

/// The information that the kernel gives with a datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DatagramFacts {
    /// The address that it was sent to: the one to answer from.
    pub(super) to: Option<IpAddr>,
    /// The ECN bits of its IP header.
    pub(super) ecn: Ecn,
    /// The size of the datagrams that the kernel has put together.
    pub(super) segment: Option<usize>,
}

impl Control {
    /// The room for control messages.
    pub(super) const EMPTY: Control = Control { bytes: [0; ROOM] };

    /// The number of bytes for which it has room.
    pub(super) const ROOM: usize = ROOM;

    /// Appends a control message at `at`, and returns where it ends.
    fn put(&mut self, at: usize, level: libc::c_int, kind: libc::c_int, value: &[u8]) -> usize {
        let len = HEADER + value.len();
        let end = at + HEADER + align(value.len());
        debug_assert!(end <= ROOM, "a datagram has more control messages than there is room for");
        self.bytes[at..end].fill(0);
        self.bytes[at..at + size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
        let (level_at, kind_at) =
            (at + std::mem::offset_of!(libc::cmsghdr, cmsg_level), at + std::mem::offset_of!(libc::cmsghdr, cmsg_type));
        self.bytes[level_at..level_at + 4].copy_from_slice(&level.to_ne_bytes());
        self.bytes[kind_at..kind_at + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes[at + HEADER..at + len].copy_from_slice(value);
        end
    }

    /// Writes what the kernel is to know about a datagram to a peer of the IPv6 family or of IPv4. Returns the length.
    pub(super) fn write(&mut self, is_ipv6: bool, from: Option<IpAddr>, ecn: Ecn, segment: Option<u16>) -> usize {
        let mut len = 0;
        match from {
            Some(IpAddr::V4(ip)) => {
                // struct in_pktinfo (ip(7)): the interface, the address to send from, the address of the header.
                let mut value = [0; size_of::<libc::in_pktinfo>()];
                value[4..8].copy_from_slice(&ip.octets());
                len = self.put(len, libc::SOL_IP, libc::IP_PKTINFO, &value);
            }
            Some(IpAddr::V6(ip)) => {
                // struct in6_pktinfo (ipv6(7)): the address, the interface.
                let mut value = [0; size_of::<libc::in6_pktinfo>()];
                value[..16].copy_from_slice(&ip.octets());
                len = self.put(len, libc::SOL_IPV6, libc::IPV6_PKTINFO, &value);
            }
            None => {}
        }
        if ecn != 0 {
            let value = libc::c_int::from(ecn & ECN).to_ne_bytes();
            len = if is_ipv6 {
                self.put(len, libc::SOL_IPV6, libc::IPV6_TCLASS, &value)
            } else {
                self.put(len, libc::SOL_IP, libc::IP_TOS, &value)
            };
        }
        if let Some(segment) = segment {
            len = self.put(len, libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        len
    }

    /// Reads what the kernel has written, of this length.
    pub(super) fn read(&self, len: usize) -> DatagramFacts {
        let mut facts = DatagramFacts::default();
        let mut rest = &self.bytes[..len.min(ROOM)];
        while let Some((head, _)) = rest.split_at_checked(HEADER) {
            let number = |at: usize| {
                let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                bytes.map_or(0, libc::c_int::from_ne_bytes)
            };
            let size: [u8; size_of::<usize>()] = match head[..size_of::<usize>()].try_into() {
                Ok(size) => size,
                Err(_) => break,
            };
            let size = usize::from_ne_bytes(size);
            let Some(value) = rest.get(HEADER..size) else { break };
            let level = number(std::mem::offset_of!(libc::cmsghdr, cmsg_level));
            let kind = number(std::mem::offset_of!(libc::cmsghdr, cmsg_type));
            facts.note(level, kind, value);
            rest = rest.get(align(size)..).unwrap_or_default();
        }
        facts
    }
}

impl DatagramFacts {
    fn note(&mut self, level: libc::c_int, kind: libc::c_int, value: &[u8]) {
        let number = || value.get(..4).and_then(|bytes| bytes.try_into().ok()).map(libc::c_int::from_ne_bytes);
        match (level, kind) {
            (libc::SOL_IP, libc::IP_PKTINFO) => {
                // The second field is the address to answer from: the header's address, unless that is a multicast or a
                // broadcast address.
                let octets: Option<[u8; 4]> = value.get(4..8).and_then(|bytes| bytes.try_into().ok());
                self.to = octets.map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
            }
            (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                let octets: Option<[u8; 16]> = value.get(..16).and_then(|bytes| bytes.try_into().ok());
                self.to = octets.map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
            }
            // Of IPv4 it is one byte, of IPv6 a number of four.
            (libc::SOL_IP, libc::IP_TOS) => self.ecn = value.first().copied().unwrap_or_default() & ECN,
            (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                self.ecn = number().and_then(|number| u8::try_from(number).ok()).unwrap_or_default() & ECN;
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment = number().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let mut control = Control::EMPTY;
        for from in ["192.0.2.7", "2001:db8::7"] {
            let from: IpAddr = from.parse().unwrap();
            let len = control.write(from.is_ipv6(), Some(from), 2, None);
            assert_eq!(control.read(len), DatagramFacts { to: Some(from), ecn: 2, segment: None });
        }
        assert_eq!(control.write(false, None, 0, None), 0);
        assert_eq!(control.read(0), DatagramFacts::default());
    }

    #[test]
    fn all_of_them_fit_and_a_message_that_is_cut_is_none() {
        let mut control = Control::EMPTY;
        let from: IpAddr = "2001:db8::7".parse().unwrap();
        let len = control.write(true, Some(from), 3, Some(1200));
        assert!(len <= ROOM);
        // `UDP_SEGMENT` is sent only; the rest is there at any length that holds it.
        for cut in 0..=len {
            let facts = control.read(cut);
            assert_eq!(facts.to.is_some(), cut >= HEADER + 20, "{cut}");
            assert_eq!(facts.segment, None);
        }
        // A length that cannot be true ends the reading.
        control.bytes[..size_of::<usize>()].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(control.read(len), DatagramFacts::default());
        control.bytes[..size_of::<usize>()].copy_from_slice(&0_usize.to_ne_bytes());
        assert_eq!(control.read(len), DatagramFacts::default());
    }
}
