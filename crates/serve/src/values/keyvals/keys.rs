//! The keys of a zone of key-value pairs: texts, addresses and networks, or the beginnings of texts.
//!
//! All pairs are in one table. A key that stands for many texts is found by looking for each length that keys in the table
//! have, the longest first.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest key in bytes.
pub const MAX_KEY: usize = 1023;

/// The numbers of bits of addresses: of IPv4, of IPv6.
const BITS: [u8; 2] = [32, 128];

/// The kind of keys of a zone (`type=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyvalType {
    /// `string`: the same text.
    Text,
    /// `ip`: an address, or the addresses of a network.
    Address,
    /// `prefix`: texts that begin with it.
    Prefix,
}

impl KeyvalType {
    /// All kinds, by their names.
    pub const ALL: [(&'static str, KeyvalType); 3] =
        [("string", KeyvalType::Text), ("ip", KeyvalType::Address), ("prefix", KeyvalType::Prefix)];
}

/// A key as it stands in the table.
pub type PairKey = Box<[u8]>;

/// The lengths that keys in a table have or had.
#[derive(Debug)]
pub struct Lengths([AtomicU64; (MAX_KEY + 1) / 64]);

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths([const { AtomicU64::new(0) }; (MAX_KEY + 1) / 64])
    }
}

impl Lengths {
    fn add(&self, length: usize) {
        if let Some(word) = self.0.get(length / 64) {
            word.fetch_or(1 << (length % 64), Relaxed);
        }
    }

    /// The lengths from `most` down to `least`.
    fn down(&self, most: usize, least: usize) -> impl Iterator<Item = usize> {
        let has =
            |length: &usize| self.0.get(length / 64).is_some_and(|word| word.load(Relaxed) & 1 << (length % 64) != 0);
        (least..=most.min(MAX_KEY)).rev().filter(has)
    }
}

/// The first place in [`Lengths`] of networks of a family: the place of the whole address range.
fn first(family: usize) -> usize {
    if family == 0 { 0 } else { usize::from(BITS[0]) + 1 }
}

/// A network in the table: the family, the length of the prefix, and the address with the other bits cleared.
fn network(address: IpAddr, length: u8) -> PairKey {
    let mut key = match address {
        IpAddr::V4(address) => [&[0, length], &address.octets()[..]].concat(),
        IpAddr::V6(address) => [&[1, length], &address.octets()[..]].concat(),
    };
    for (index, octet) in key[2..].iter_mut().enumerate() {
        let kept = usize::from(length).saturating_sub(index * 8).min(8);
        // All ones but for the last bits; without any, the shift would be too long.
        *octet &= if kept == 0 { 0 } else { u8::MAX << (8 - kept) };
    }
    key.into()
}

/// The address in a text. An IPv4-mapped address of IPv6 is the address of IPv4.
fn address(text: &[u8]) -> Option<IpAddr> {
    Some(std::str::from_utf8(text).ok()?.parse::<IpAddr>().ok()?.to_canonical())
}

fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

/// The key of a pair that is written as this text, noted among the lengths; `None`: it is no key of this kind.
pub fn of_pair(kind: KeyvalType, text: &str, lengths: &Lengths) -> Option<PairKey> {
    if text.is_empty() || text.len() > MAX_KEY {
        return None;
    }
    match kind {
        KeyvalType::Text => Some(text.as_bytes().into()),
        KeyvalType::Prefix => {
            lengths.add(text.len());
            Some(text.as_bytes().into())
        }
        KeyvalType::Address => {
            let (written, length) = match text.split_once('/') {
                Some((written, length)) => (written, Some(length)),
                None => (text, None),
            };
            let address = written.parse::<IpAddr>().ok()?;
            let address = if length.is_none() { address.to_canonical() } else { address };
            let most = BITS[family(address)];
            let length = match length {
                None => most,
                Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                    length.parse().ok().filter(|length| *length <= most)?
                }
                Some(_) => return None,
            };
            lengths.add(first(family(address)) + usize::from(length));
            Some(network(address, length))
        }
    }
}

/// The one way to write a key of this kind: all texts that stand for the same have the same. `None`: it is no key.
pub fn canonical(kind: KeyvalType, text: &str) -> Option<String> {
    let place = of_pair(kind, text, &Lengths::default())?;
    if kind != KeyvalType::Address {
        return Some(text.to_owned());
    }
    let (family, length) = (usize::from(*place.first()?), *place.get(1)?);
    let address = match place.get(2..)? {
        octets if octets.len() == 4 => IpAddr::from(<[u8; 4]>::try_from(octets).ok()?),
        octets => IpAddr::from(<[u8; 16]>::try_from(octets).ok()?),
    };
    Some(if length == BITS[family] { address.to_string() } else { format!("{address}/{length}") })
}

/// Finds the most particular key that stands for `text`: `find` looks into the table.
pub fn look_up<T>(kind: KeyvalType, text: &[u8], lengths: &Lengths, find: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    match kind {
        KeyvalType::Text => find(text),
        KeyvalType::Prefix => lengths.down(text.len(), 1).find_map(|length| find(&text[..length])),
        KeyvalType::Address => {
            let address = address(text)?;
            let first = first(family(address));
            let most = first + usize::from(BITS[family(address)]);
            lengths.down(most, first).find_map(|place| find(&network(address, (place - first) as u8)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The first of the keys that is found for each of the texts.
    fn found(kind: KeyvalType, keys: &[&'static str], texts: &[&str]) -> Vec<Option<&'static str>> {
        let lengths = Lengths::default();
        let pair = |key: &'static str| (of_pair(kind, key, &lengths).expect("a key"), key);
        let table: HashMap<PairKey, &str> = keys.iter().copied().map(pair).collect();
        texts.iter().map(|text| look_up(kind, text.as_bytes(), &lengths, |key| table.get(key).copied())).collect()
    }

    #[test]
    fn texts_are_found_as_they_are() {
        let all = found(KeyvalType::Text, &["a", "ab"], &["a", "ab", "abc", "A", ""]);
        assert_eq!(all, [Some("a"), Some("ab"), None, None, None]);
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let all = found(KeyvalType::Prefix, &["/a", "/a/b", "x"], &["/a", "/a/b/c", "/a/c", "/", "", "x/a"]);
        assert_eq!(all, [Some("/a"), Some("/a/b"), Some("/a"), None, None, Some("x")]);
        let long = "l".repeat(5000);
        assert_eq!(found(KeyvalType::Prefix, &["l"], &[&long]), [Some("l")]);
    }

    #[test]
    fn the_smallest_network_is_found() {
        let keys = ["10.0.0.0/8", "10.1.2.3", "2001:db8::/32", "::1", "10.1.0.0/16"];
        let texts =
            ["10.9.9.9", "10.1.2.3", "10.1.9.9", "2001:db8:1::1", "::1", "::2", "11.0.0.1", "::ffff:10.1.2.3", "x"];
        let expected = [
            Some("10.0.0.0/8"),
            Some("10.1.2.3"),
            Some("10.1.0.0/16"),
            Some("2001:db8::/32"),
            Some("::1"),
            None,
            None,
            Some("10.1.2.3"),
            None,
        ];
        assert_eq!(found(KeyvalType::Address, &keys, &texts), expected);
        assert_eq!(found(KeyvalType::Address, &["0.0.0.0/0"], &["1.2.3.4", "::1"]), [Some("0.0.0.0/0"), None]);
    }

    #[test]
    fn texts_that_stand_for_the_same_have_one_form() {
        for (text, form) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("2001:DB8:0::1/32", "2001:db8::/32"),
            ("0:0::1", "::1"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(canonical(KeyvalType::Address, text).as_deref(), Some(form), "{text}");
        }
        assert_eq!(canonical(KeyvalType::Text, "10.1.2.3/8").as_deref(), Some("10.1.2.3/8"));
        assert_eq!((canonical(KeyvalType::Address, "x"), canonical(KeyvalType::Prefix, "")), (None, None));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let lengths = Lengths::default();
        let long = "k".repeat(MAX_KEY + 1);
        for text in ["", &long] {
            assert_eq!(of_pair(KeyvalType::Text, text, &lengths), None);
        }
        for text in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "::/129", "10.0.0/8", "/8"] {
            assert_eq!(of_pair(KeyvalType::Address, text, &lengths), None, "{text}");
        }
        // The bits behind the prefix do not count.
        assert_eq!(
            of_pair(KeyvalType::Address, "10.1.2.3/8", &lengths),
            of_pair(KeyvalType::Address, "10.0.0.0/8", &lengths)
        );
    }
}
