//! Networks in directives: `192.0.2.0/24`, `2001:db8::/32`, a single address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::cx::Cx;
use crate::node::{Node, Word};
use crate::problem::Problem;

/// A network of IPv4 or IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cidr {
    /// Address and mask of IPv4; the address has no bits outside the mask.
    V4(u32, u32),
    /// Address and mask of IPv6; the address has no bits outside the mask.
    V6(u128, u128),
}

impl Cidr {
    /// Reads `address` or `address/length`; also returns whether the address had bits outside the mask. `None`: the
    /// text is neither.
    pub fn parse(text: &str) -> Option<(Cidr, bool)> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let bits = |most: u32| match length {
            None => Some(most),
            // Leading zeros are allowed, signs are not.
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<u32>().ok().filter(|bits| *bits <= most)
            }
            Some(_) => None,
        };
        if let Some(address) = parse_v4(address) {
            let address = u32::from(address);
            let mask = u32::MAX.checked_shl(32 - bits(32)?).unwrap_or(0);
            return Some((Cidr::V4(address & mask, mask), address & !mask != 0));
        }
        let address = u128::from(address.parse::<Ipv6Addr>().ok()?);
        let mask = u128::MAX.checked_shl(128 - bits(128)?).unwrap_or(0);
        Some((Cidr::V6(address & mask, mask), address & !mask != 0))
    }

    /// Reads a word of a directive, with nginx's warning about meaningless bits. `None`: the word is not a network.
    pub fn of_word(directive: &Node, word: &Word, cx: &mut Cx) -> Option<Cidr> {
        let (cidr, meaningless) = Cidr::parse(&word.text)?;
        if meaningless {
            let message = format!("low address bits of {} are meaningless", word.text);
            cx.warn(Problem::warning(message).at_node(directive).at(word.place));
        }
        Some(cidr)
    }

    /// Whether the network contains the address. An IPv4 address written as IPv6 (`::ffff:a.b.c.d`) counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Cidr::V4(network, mask), IpAddr::V4(address)) => u32::from(address) & mask == *network,
            (Cidr::V6(network, mask), IpAddr::V6(address)) => u128::from(address) & mask == *network,
            _ => false,
        }
    }
}

/// Reads an address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`,
/// `[2001:db8::1]`. The port is 0 if there is none; it cannot be written as 0.
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    if let Some(address) = parse_v4(text) {
        return Some((address, 0).into());
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((address, 0).into());
    }
    let (address, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let address = IpAddr::from(address.parse::<Ipv6Addr>().ok()?);
        match rest {
            "" => return Some((address, 0).into()),
            rest => (address, rest.strip_prefix(':')?),
        }
    } else {
        let (address, port) = text.split_once(':')?;
        (IpAddr::from(parse_v4(address)?), port)
    };
    let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    (port != 0).then_some((address, port).into())
}

/// Parses four decimal numbers; unlike the standard library, this accepts leading zeros, which nginx reads as decimal
/// too.
fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_read() {
        for (text, address, inside) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.1/032", "192.0.2.1", true),
            ("010.0.0.0/8", "10.255.0.1", true),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "::1", true),
            ("::/0", "127.0.0.1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("127.0.0.0/8", "::ffff:127.0.0.1", true),
        ] {
            let (cidr, meaningless) = Cidr::parse(text).unwrap();
            assert!(!meaningless, "{text}");
            assert_eq!(cidr.contains(address.parse().unwrap()), inside, "{text} {address}");
        }
    }

    #[test]
    fn host_bits_are_told_and_do_not_count() {
        for (text, address) in [("127.0.0.1/8", "127.9.9.9"), ("10.0.0.0/0", "1.2.3.4"), ("2001::1/16", "2001:1::")] {
            let (cidr, meaningless) = Cidr::parse(text).unwrap();
            assert!(meaningless && cidr.contains(address.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "x",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.3.",
            "1.2.3.4/",
            "1.2.3.4/33",
            "1.2.3.4/+8",
            "1.2.3.4/-1",
            "1.2.3.4/8/8",
            "10.0.0.0/255.0.0.0",
            "0/0",
            "[::1]",
            "::1/129",
            "::1/",
            "localhost",
            "1.2.3.4 ",
            "+1.2.3.4",
            "1.2.3.4/99999999999999999999",
        ] {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_with_ports_are_read() {
        for (text, address) in [
            ("1.2.3.4", Some("1.2.3.4:0")),
            ("01.2.3.4", Some("1.2.3.4:0")),
            ("1.2.3.4:5678", Some("1.2.3.4:5678")),
            ("::1", Some("[::1]:0")),
            ("[::1]", Some("[::1]:0")),
            ("[2001:db8::1]:80", Some("[2001:db8::1]:80")),
            ("1.2.3.4:0", None),
            ("1.2.3.4:99999", None),
            ("1.2.3.4:+1", None),
            ("1.2.3.4:", None),
            ("[::1]:", None),
            ("[::1]x", None),
            ("[1.2.3.4]", None),
            ("1.2.3", None),
            ("x", None),
            ("", None),
            ("unix:", None),
        ] {
            assert_eq!(parse_address(text).map(|address| address.to_string()).as_deref(), address, "{text}");
        }
    }
}
