//! Networks: the longest network with an address in it counts.

use std::collections::HashMap;

use freerun_conf::Cidr;

use super::RangeTable;

/// The networks by first address and mask, each with its value.
#[derive(Debug, Default)]
pub(super) struct Networks {
    v4: HashMap<(u32, u32), u32>,
    v6: HashMap<(u128, u128), u32>,
}

impl Networks {
    /// Adds a network, or changes its value: then the old value is returned.
    pub(super) fn add(&mut self, network: Cidr, value: u32) -> Option<u32> {
        match network {
            Cidr::V4(first, mask) => self.v4.insert((first, mask), value),
            Cidr::V6(first, mask) => self.v6.insert((first, mask), value),
        }
    }

    /// Removes a network; returns whether it existed.
    pub(super) fn delete(&mut self, network: Cidr) -> bool {
        match network {
            Cidr::V4(first, mask) => self.v4.remove(&(first, mask)).is_some(),
            Cidr::V6(first, mask) => self.v6.remove(&(first, mask)).is_some(),
        }
    }

    /// The tables for lookups.
    pub(super) fn tables(self) -> (RangeTable<u32>, RangeTable<u128>) {
        let v4 = self.v4.into_iter().map(|((first, mask), value)| (first, first | !mask, value));
        let v6 = self.v6.into_iter().map(|((first, mask), value)| (first, first | !mask, value));
        (flat(v4.collect(), |last: u32| last.checked_add(1)), flat(v6.collect(), |last: u128| last.checked_add(1)))
    }
}

/// Cuts networks, which are nested or disjoint, into parts that lie side by side.
fn flat<A: Ord + Copy>(mut networks: Vec<(A, A, u32)>, after: impl Fn(A) -> Option<A>) -> RangeTable<A> {
    // A network sorts before those inside it.
    networks.sort_by_key(|(first, last, _)| (*first, std::cmp::Reverse(*last)));
    let mut parts: Vec<(A, Option<u32>)> = Vec::new();
    let mut around: Vec<(A, u32)> = Vec::new();
    for (first, last, value) in networks {
        close(&mut parts, &mut around, Some(first), &after);
        begin(&mut parts, first, Some(value));
        around.push((last, value));
    }
    close(&mut parts, &mut around, None, &after);
    debug_assert!(parts.is_sorted_by(|one, next| one.0 < next.0), "an address would be looked up in another network");
    RangeTable(parts.into())
}

/// Ends the networks that lie before `next`: the addresses behind each belong to the network around it.
fn close<A: Ord + Copy>(
    parts: &mut Vec<(A, Option<u32>)>,
    around: &mut Vec<(A, u32)>,
    next: Option<A>,
    after: &impl Fn(A) -> Option<A>,
) {
    while let Some((last, _)) = around.last().copied().filter(|(last, _)| next.is_none_or(|next| *last < next)) {
        around.pop();
        if let Some(start) = after(last) {
            begin(parts, start, around.last().map(|(_, value)| *value));
        }
    }
}

/// Begins a part, which replaces a part with the same first address.
fn begin<A: Ord + Copy>(parts: &mut Vec<(A, Option<u32>)>, first: A, value: Option<u32>) {
    match parts.last_mut() {
        Some((start, old)) if *start == first => *old = value,
        _ => parts.push((first, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_counts() {
        let mut networks = Networks::default();
        let texts =
            ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "10.255.0.0/16", "11.0.0.0/8", "255.255.255.255"];
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(networks.add(Cidr::parse(text).unwrap().0, number as u32), None);
        }
        networks.add(Cidr::parse("12.0.0.0/8").unwrap().0, 9);
        assert!(networks.delete(Cidr::parse("12.0.0.0/8").unwrap().0));
        assert!(!networks.delete(Cidr::parse("12.0.0.0/9").unwrap().0));
        networks.add(Cidr::parse("2001:db8::/32").unwrap().0, 20);
        let (v4, v6) = networks.tables();
        let of = |text: &str| v4.find(text.parse::<std::net::Ipv4Addr>().unwrap().into());
        for (address, wanted) in [
            ("9.255.255.255", 0),
            ("10.0.0.0", 1),
            ("10.1.0.0", 2),
            ("10.1.2.2", 2),
            ("10.1.2.3", 3),
            ("10.1.2.4", 2),
            ("10.2.0.0", 1),
            ("10.255.255.255", 4),
            ("11.0.0.0", 5),
            ("12.0.0.0", 0),
            ("255.255.255.254", 0),
            ("255.255.255.255", 6),
        ] {
            assert_eq!(of(address), Some(wanted), "{address}");
        }
        assert_eq!(v6.find(0x2001_0db8 << 96), Some(20));
        assert_eq!(v6.find(0x2001_0db9 << 96), None);
        assert_eq!(v6.find(0), None);
    }
}
