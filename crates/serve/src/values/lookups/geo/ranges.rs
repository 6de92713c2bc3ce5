//! IPv4 ranges. As in nginx, they are kept in pieces that do not cross a /16. A new range may lie inside an existing one, or
//! have the same pieces as an existing one, but not overlap it otherwise.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::RangeTable;

/// The number of addresses of a piece.
const PIECE: u32 = 1 << 16;

/// The pieces by first address, each with its last address and its value.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    pieces: BTreeMap<u32, (u32, u32)>,
    pub(super) default: Option<u32>,
}

/// Reads `first-last`. `None` if it is not a range, or ends with the last address: nginx does not accept such a range.
pub(super) fn parse(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once('-')?;
    let address = |text: &str| match super::parse_address(text.as_bytes()) {
        Some(std::net::IpAddr::V4(address)) if address != Ipv4Addr::BROADCAST => Some(u32::from(address)),
        _ => None,
    };
    let (first, last) = (address(first)?, address(last)?);
    (first <= last).then_some((first, last))
}

fn split(first: u32, last: u32) -> impl Iterator<Item = (u32, u32)> {
    (first / PIECE..=last / PIECE).map(move |high| {
        let start = high * PIECE;
        (start.max(first), (start + (PIECE - 1)).min(last))
    })
}

impl Ranges {
    /// The last piece that begins at or before `address`.
    fn before(&self, address: u32) -> Option<(u32, u32, u32)> {
        self.pieces.range(..=address).next_back().map(|(first, (last, value))| (*first, *last, *value))
    }

    /// Adds a range. Returns the old value if a piece of it existed already, which has the new value now.
    ///
    /// # Errors
    /// The piece that the range overlaps.
    pub(super) fn add(&mut self, first: u32, last: u32, value: u32) -> Result<Option<u32>, (u32, u32)> {
        let mut replaced = None;
        for (first, last) in split(first, last) {
            match self.before(last) {
                Some((start, end, old)) if (start, end) == (first, last) => {
                    replaced.get_or_insert(old);
                }
                Some((start, end, old)) if start <= first && last <= end => {
                    if start < first {
                        self.pieces.insert(start, (first - 1, old));
                    }
                    if last < end {
                        self.pieces.insert(last + 1, (end, old));
                    }
                }
                Some((start, end, _)) if end >= first => return Err((start, end)),
                _ => {}
            }
            self.pieces.insert(first, (last, value));
        }
        Ok(replaced)
    }

    /// Removes a range; returns whether all its pieces existed.
    pub(super) fn delete(&mut self, first: u32, last: u32) -> bool {
        let mut all = true;
        for (first, last) in split(first, last) {
            match self.pieces.get(&first) {
                Some((end, _)) if *end == last => drop(self.pieces.remove(&first)),
                _ => all = false,
            }
        }
        all
    }

    /// The tables for lookups.
    pub(super) fn tables(self) -> (RangeTable<u32>, RangeTable<u128>) {
        let mut parts: Vec<(u32, Option<u32>)> = vec![(0, self.default)];
        let mut begin = |first: u32, value: Option<u32>| match parts.last_mut() {
            Some((start, old)) if *start == first => *old = value,
            Some((_, old)) if *old == value => {}
            _ => parts.push((first, value)),
        };
        for (first, (last, value)) in self.pieces {
            begin(first, Some(value));
            if let Some(next) = last.checked_add(1) {
                begin(next, self.default);
            }
        }
        debug_assert!(parts.is_sorted_by(|one, next| one.0 < next.0), "an address would be looked up in another range");
        (RangeTable(parts.into()), RangeTable(Box::new([(0, self.default)])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_may_lie_in_ranges_but_not_overlap() {
        let range = |text| parse(text).unwrap();
        let mut ranges = Ranges::default();
        let mut add = |text, value| {
            let (first, last) = range(text);
            ranges.add(first, last, value)
        };
        assert_eq!(add("10.0.0.0-10.255.255.255", 0), Ok(None));
        assert_eq!(add("10.1.0.0-10.1.255.255", 1), Ok(Some(0)), "a piece");
        assert_eq!(add("20.0.0.5-20.0.0.9", 2), Ok(None));
        assert_eq!(add("20.0.0.7-20.0.0.8", 3), Ok(None), "inside");
        assert!(add("20.0.0.8-20.0.0.9", 4).is_err());
        assert!(add("20.0.0.0-20.0.0.5", 4).is_err());
        assert_eq!(add("30.0.0.0-30.1.0.5", 5), Ok(None));
        let (first, last) = range("10.2.0.0-10.2.255.255");
        assert!(ranges.delete(first, last));
        assert!(!ranges.delete(first, last));
        let (v4, _) = ranges.tables();
        let of = |text: &str| v4.find(text.parse::<Ipv4Addr>().unwrap().into());
        for (address, wanted) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(0)),
            ("10.1.2.3", Some(1)),
            ("10.2.2.3", None),
            ("10.3.0.0", Some(0)),
            ("10.255.255.255", Some(0)),
            ("11.0.0.0", None),
            ("20.0.0.6", Some(2)),
            ("20.0.0.8", Some(3)),
            ("20.0.0.9", Some(2)),
            ("30.1.0.5", Some(5)),
            ("30.1.0.6", None),
        ] {
            assert_eq!(of(address), wanted, "{address}");
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["10.0.0.9-10.0.0.1", "10.0.0.9", "10.0.0.0/8", "::1-::2", "0.0.0.0-255.255.255.255", "-", "a-b"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("0.0.0.0-255.255.255.254"), Some((0, u32::MAX - 1)));
    }
}
