//! Addresses of the internet families, as the kernel writes and reads them (ip(7), ipv6(7)).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The bytes of an address: as many as `sockaddr_in6` has, the larger of the two. All fields are read and written as
/// bytes, so that no pointer is needed.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct SocketName([u8; size_of::<libc::sockaddr_in6>()]);

/// The length of an IPv4 address's `sockaddr_in`.
const IPV4: usize = size_of::<libc::sockaddr_in>();

impl SocketName {
    /// The room for an address that is to be received.
    pub(super) const EMPTY: SocketName = SocketName([0; size_of::<libc::sockaddr_in6>()]);

    /// The number of bytes for which it has room.
    pub(super) const ROOM: usize = size_of::<libc::sockaddr_in6>();

    /// The address in the kernel's form, with its length.
    pub(super) fn of(address: SocketAddr) -> (SocketName, usize) {
        let mut name = SocketName::EMPTY;
        let bytes = &mut name.0;
        bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
        let (family, len) = match address {
            SocketAddr::V4(address) => {
                bytes[4..8].copy_from_slice(&address.ip().octets());
                (libc::AF_INET, IPV4)
            }
            SocketAddr::V6(address) => {
                // As in std: the flow label is what the caller has there, in network order already.
                bytes[4..8].copy_from_slice(&address.flowinfo().to_ne_bytes());
                bytes[8..24].copy_from_slice(&address.ip().octets());
                bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
                (libc::AF_INET6, SocketName::ROOM)
            }
        };
        bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        (name, len)
    }

    /// The address that the kernel has written, of this length. `None` if it is of another family, or there is none.
    pub(super) fn address(&self, len: usize) -> Option<SocketAddr> {
        let bytes = &self.0;
        let family = libc::c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        match family {
            libc::AF_INET if len >= IPV4 => {
                let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
                Some(SocketAddr::V4(SocketAddrV4::new(ip, port)))
            }
            libc::AF_INET6 if len >= SocketName::ROOM => {
                let octets: [u8; 16] = bytes[8..24].try_into().ok()?;
                let (ip, scope) = (Ipv6Addr::from(octets), word(24));
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, word(4), scope)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was() {
        for text in ["192.0.2.1:53", "[2001:db8::1]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let (name, len) = SocketName::of(address);
            assert_eq!(name.address(len), Some(address));
            assert_eq!(name.address(len - 1), None, "cut short");
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, 3));
        let (name, len) = SocketName::of(scoped);
        assert_eq!(name.address(len), Some(scoped));
        assert_eq!(SocketName::EMPTY.address(0), None);
    }
}
