//! Maps a key to a server: by the hash of the Perl library Cache::Memcached, by ketama's points as
//! Cache::Memcached::Fast sets them, or by a client's address as nginx does.

use std::collections::HashMap;
use std::sync::Arc;

use freerun_conf::bytes_of;
use smallvec::SmallVec;

use crate::peer::Peer;

/// Number of places that are tried for a key before round robin decides.
pub(super) const TRIES: u32 = 21;

/// The number of points that a server has on the circle for each unit of its weight.
const POINTS: usize = 160;

/// The most points of a group. Beyond it all servers get fewer, in the same proportion.
const MAX_POINTS: usize = 1 << 20;

const CRC: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// CRC-32 as in IEEE 802.3, computed piece by piece.
#[derive(Clone, Copy)]
struct Crc(u32);

impl Crc {
    fn new() -> Crc {
        Crc(!0)
    }

    fn add(self, bytes: &[u8]) -> Crc {
        Crc(bytes.iter().fold(self.0, |crc, byte| (crc >> 8) ^ CRC[((crc ^ u32::from(*byte)) & 0xff) as usize]))
    }

    fn end(self) -> u32 {
        !self.0
    }
}

/// The shares of servers by weight: each number below the sum of all weights belongs to one server.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The sum of the weights up to and including each server.
    ends: Box<[u64]>,
}

impl Shares {
    pub(super) fn new(peers: &[Arc<Peer>]) -> Shares {
        let ends = peers.iter().scan(0, |sum, peer| {
            *sum += u64::from(peer.configured());
            Some(*sum)
        });
        Shares { ends: ends.collect() }
    }

    /// The sum of all weights.
    pub(super) fn total(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// The server that the number belongs to.
    pub(super) fn owner(&self, number: u64) -> usize {
        debug_assert!(number < self.total(), "number {number} belongs to no server");
        self.ends.partition_point(|&end| end <= number)
    }
}

/// The sequence of numbers that a key yields, as in Cache::Memcached: each is the sum of those before and its own.
pub(super) struct KeySequence<'k> {
    key: &'k [u8],
    sum: u32,
    tries: u32,
}

impl<'k> KeySequence<'k> {
    pub(super) fn new(key: &'k [u8]) -> KeySequence<'k> {
        KeySequence { key, sum: 0, tries: 0 }
    }
}

impl Iterator for KeySequence<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let crc = match self.tries {
            0 => Crc::new(),
            again => Crc::new().add(again.to_string().as_bytes()),
        };
        self.sum = self.sum.wrapping_add((crc.add(self.key).end() >> 16) & 0x7fff);
        self.tries += 1;
        Some(u64::from(self.sum))
    }
}

/// The sequence of numbers that a client's address yields for `ip_hash`, as nginx computes them: each goes on from the
/// one before.
pub(super) struct AddressSequence<'k> {
    octets: &'k [u8],
    value: u32,
}

impl<'k> AddressSequence<'k> {
    /// The value that the calculation begins with.
    const START: u32 = 89;
    /// The factor of the value for each octet.
    const FACTOR: u32 = 113;
    /// The number of different values.
    const VALUES: u32 = 6271;

    /// `address` has 4 or 16 octets. Of IPv4, the first three count; all clients without an address (`unix:`) are alike.
    pub(super) fn new(address: &'k [u8]) -> AddressSequence<'k> {
        let octets = match address.len() {
            4 => &address[..3],
            16 => address,
            _ => &[0; 3],
        };
        AddressSequence { octets, value: AddressSequence::START }
    }
}

impl Iterator for AddressSequence<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let step = |value, octet: &u8| (value * AddressSequence::FACTOR + u32::from(*octet)) % AddressSequence::VALUES;
        self.value = self.octets.iter().fold(self.value, step);
        Some(u64::from(self.value))
    }
}

/// The circle of points for `hash … consistent`.
#[derive(Debug, Default)]
pub(super) struct Circle {
    /// The points with the number of the server that each belongs to, sorted.
    points: Box<[(u32, u32)]>,
    /// The peers of each server: a name that resolves to several addresses has one place on the circle.
    servers: Vec<SmallVec<[u32; 2]>>,
}

impl Circle {
    pub(super) fn new(peers: &[Arc<Peer>]) -> Circle {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut servers: Vec<SmallVec<[u32; 2]>> = Vec::new();
        let mut points = Vec::new();
        let wanted: usize = peers.iter().map(|peer| peer.configured() as usize * POINTS).sum();
        for (index, peer) in peers.iter().enumerate() {
            let number = *numbers.entry(&peer.server).or_insert_with(|| {
                servers.push(SmallVec::new());
                servers.len() - 1
            });
            let first = servers[number].is_empty();
            servers[number].push(index as u32);
            if !first {
                continue;
            }
            let mut count = peer.configured() as usize * POINTS;
            if wanted > MAX_POINTS {
                count = (count as u128 * MAX_POINTS as u128 / wanted as u128).max(1) as usize;
            }
            let (host, port) = host_and_port(&peer.server);
            let named = Crc::new().add(&bytes_of(host)).add(&[0]).add(port.as_bytes());
            let mut point = 0u32;
            for _ in 0..count {
                point = named.add(&point.to_le_bytes()).end();
                points.push((point, number as u32));
            }
        }
        points.sort_by_key(|&(point, _)| point);
        points.dedup_by_key(|&mut (point, _)| point);
        debug_assert!(points.len() <= MAX_POINTS + servers.len(), "a circle has {} points", points.len());
        Circle { points: points.into(), servers }
    }

    /// The servers in the order in which the key meets them, each as its peers.
    pub(super) fn from(&self, key: &[u8]) -> impl Iterator<Item = &[u32]> {
        let hash = Crc::new().add(key).end();
        let start = self.points.partition_point(|&(point, _)| point < hash);
        let round = self.points[start..].iter().chain(&self.points[..start]);
        round.map(|&(_, server)| self.servers[server as usize].as_slice())
    }
}

/// Splits a server, as the configuration names it, into host and port as nginx does for the circle.
fn host_and_port(server: &str) -> (&str, &str) {
    if let Some(path) = server.strip_prefix("unix:") {
        return (path, "");
    }
    match server.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (server, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(Crc::new().add(b"1234").add(b"56789").end(), 0xcbf4_3926);
    }

    #[test]
    fn keys_give_the_numbers_of_cache_memcached() {
        let number = |text: &str| u64::from((Crc::new().add(text.as_bytes()).end() >> 16) & 0x7fff);
        let numbers: Vec<u64> = KeySequence::new(b"key").take(3).collect();
        assert_eq!(numbers[0], number("key"));
        assert_eq!(numbers[1], number("key") + number("1key"));
        assert_eq!(numbers[2], number("key") + number("1key") + number("2key"));
    }

    #[test]
    fn only_the_network_of_a_client_counts() {
        let first = |address: &[u8]| AddressSequence::new(address).next();
        assert_eq!(first(&[10, 1, 2, 3]), first(&[10, 1, 2, 200]));
        assert_ne!(first(&[10, 1, 2, 3]), first(&[10, 1, 3, 3]));
        assert_ne!(first(&[9; 16]), first(&[9; 4]));
        assert_eq!(first(b""), first(&[0; 4]));
        // ((89 * 113 + 1) * 113 * 113) % 6271, and the same from there.
        let numbers: Vec<u64> = AddressSequence::new(&[1, 0, 0, 9]).take(2).collect();
        assert_eq!(numbers, [522, 1464]);
    }

    #[test]
    fn servers_are_taken_apart() {
        for (server, parts) in [
            ("127.0.0.1:80", ("127.0.0.1", "80")),
            ("name", ("name", "")),
            ("[::1]:81", ("[::1]", "81")),
            ("[::1]", ("[::1]", "")),
            ("unix:/a:b", ("/a:b", "")),
        ] {
            assert_eq!(host_and_port(server), parts);
        }
    }
}
