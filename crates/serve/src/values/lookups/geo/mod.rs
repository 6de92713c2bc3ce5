//! `geo`: a variable whose value depends on the client's address.

mod ranges;
mod tree;

use std::net::{IpAddr, Ipv4Addr};

use freerun_conf::{Cidr, Cx, Node, Problem, Shape, text_of};

use self::ranges::Ranges;
use self::tree::Networks;
use super::blocks::{Blocks, Lookup};
use super::variable_name;
use crate::listen::address::Address;
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, VariableReference, VariableTable};

/// The addresses of a block while it is read.
enum AddressRanges {
    /// No address has been read.
    Nothing,
    Networks(Networks),
    Ranges(Ranges),
}

/// The value of `geo`.
pub type Geos<S> = Blocks<Geo<S>>;

/// A `geo` block.
pub struct Geo<S> {
    /// The variable with the address, if it is not the client's.
    source: Option<VariableReference<S>>,
    v4: RangeTable<u32>,
    v6: RangeTable<u128>,
    values: Vec<Box<[u8]>>,
    proxies: Vec<Cidr>,
    recursive: bool,
    volatile: bool,
}

/// Parts of the address space, each with its first address and its value, in order.
#[derive(Debug, Default)]
struct RangeTable<A>(Box<[(A, Option<u32>)]>);

impl<A: Ord + Copy> RangeTable<A> {
    fn find(&self, address: A) -> Option<u32> {
        let after = self.0.partition_point(|(first, _)| *first <= address);
        self.0.get(after.checked_sub(1)?)?.1
    }
}

impl<S: Subject> Lookup for Geo<S> {
    type Subject = S;

    const SHAPE: Shape = Shape::between(1, 2, "[$address] $variable { network value; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Geo<S>, Problem> {
        let source = match &*directive.args {
            [source, _] => {
                let name = variable_name(source)?;
                Some(cx.extensions.get_or_default::<VariableTable<S>>().resolve(name, source.place))
            }
            _ => None,
        };
        if let Some(name) = directive.args.last() {
            variable_name(name)?;
        }
        let mut geo = Geo {
            source,
            v4: RangeTable::default(),
            v6: RangeTable::default(),
            values: Vec::new(),
            proxies: Vec::new(),
            recursive: false,
            volatile: false,
        };
        let mut reading = AddressRanges::Nothing;
        for entry in directive.children() {
            let added = geo.add(entry, &mut reading, cx);
            added.map_err(|problem| match problem.reported {
                Some(_) => problem,
                None => problem.reported_at(entry.end),
            })?;
        }
        match reading {
            AddressRanges::Nothing => {}
            AddressRanges::Networks(networks) => (geo.v4, geo.v6) = networks.tables(),
            AddressRanges::Ranges(ranges) => (geo.v4, geo.v6) = ranges.tables(),
        }
        Ok(geo)
    }
}

impl<S: Subject> Geo<S> {
    fn add(&mut self, entry: &Node, reading: &mut AddressRanges, cx: &mut Cx) -> Result<(), Problem> {
        let place = entry.name.place;
        let invalid = |text: &str| Problem::new(format!("invalid network \"{text}\"")).at(place);
        let value = match (&*entry.args, entry.name.as_str()) {
            ([], "ranges") => {
                match reading {
                    AddressRanges::Nothing => *reading = AddressRanges::Ranges(Ranges::default()),
                    AddressRanges::Ranges(_) => {}
                    AddressRanges::Networks(_) => {
                        let message = "the \"ranges\" directive must be the first directive inside \"geo\" block";
                        return Err(Problem::new(message).at(place));
                    }
                }
                return Ok(());
            }
            ([], "proxy_recursive") => {
                self.recursive = true;
                return Ok(());
            }
            ([], "volatile") => {
                self.volatile = true;
                return Ok(());
            }
            ([word], "proxy") => {
                let cidr = Cidr::of_word(entry, word, cx).ok_or_else(|| invalid(&word.text).at(word.place))?;
                self.proxies.push(cidr);
                return Ok(());
            }
            ([value], _) => value,
            _ => return Err(Problem::new("invalid number of the geo parameters").at(place)),
        };
        if let AddressRanges::Nothing = reading {
            *reading = AddressRanges::Networks(Networks::default());
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let deletes = entry.name.text == "delete";
        let word = if deletes { value } else { &entry.name };
        if !deletes {
            self.values.push(value.bytes().into());
        }
        let values = &self.values;
        let duplicate = |what: &str, old: u32| {
            let old = values.get(old as usize).map_or(&b""[..], |old| old);
            let (new, old) = (&value.text, text_of(old));
            let message = format!("duplicate {what} \"{}\", value: \"{new}\", old value: \"{old}\"", word.text);
            Problem::warning(message).at_node(entry)
        };
        match reading {
            AddressRanges::Nothing => {}
            AddressRanges::Ranges(ranges) if word.text == "default" && !deletes => ranges.default = Some(number),
            AddressRanges::Ranges(ranges) => {
                let (first, last) = ranges::parse(&word.text)
                    .ok_or_else(|| Problem::new(format!("invalid range \"{}\"", word.text)).at(word.place))?;
                if deletes {
                    if !ranges.delete(first, last) {
                        let message = format!("no address range \"{}\" to delete", word.text);
                        cx.warn(Problem::warning(message).at_node(entry));
                    }
                } else {
                    let old = ranges.add(first, last, number).map_err(|(first, last)| {
                        let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(last));
                        Problem::new(format!("range \"{}\" overlaps \"{first}-{last}\"", word.text)).at(word.place)
                    })?;
                    if let Some(old) = old {
                        cx.warn(duplicate("range", old));
                    }
                }
            }
            AddressRanges::Networks(networks) if word.text == "default" && !deletes => {
                for all in [Cidr::V4(0, 0), Cidr::V6(0, 0)] {
                    if let Some(old) = networks.add(all, number) {
                        cx.warn(duplicate("network", old));
                    }
                }
            }
            AddressRanges::Networks(networks) => {
                let cidr = Cidr::of_word(entry, word, cx).ok_or_else(|| invalid(&word.text).at(word.place))?;
                if deletes {
                    if !networks.delete(cidr) {
                        let message = format!("no network \"{}\" to delete", word.text);
                        cx.warn(Problem::warning(message).at_node(entry));
                    }
                } else if let Some(old) = networks.add(cidr, number) {
                    cx.warn(duplicate("network", old));
                }
            }
        }
        Ok(())
    }

    /// The address to look up. An invalid address counts as 255.255.255.255, as in nginx.
    fn address(&self, subject: &S) -> IpAddr {
        const NONE: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
        let address = match &self.source {
            Some(source) => source.get(subject).and_then(|text| parse_address(&text)).unwrap_or(NONE),
            None => match subject.peer() {
                Address::Ip(address) => address.ip(),
                Address::Unix(_) => NONE,
            },
        };
        if self.proxies.is_empty() {
            return address;
        }
        let is_proxy = |address| self.proxies.iter().any(|proxy| proxy.contains(address));
        subject.forwarded(address, is_proxy, self.recursive)
    }
}

/// Parses an address; numbers of an IPv4 address may have leading zeros.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    match Cidr::parse(text)? {
        _ if text.contains('/') => None,
        (Cidr::V4(address, _), _) => Some(Ipv4Addr::from(address).into()),
        (Cidr::V6(address, _), _) => Some(std::net::Ipv6Addr::from(address).into()),
    }
}

impl<S: Subject> Compute<S> for Geo<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        let number = match self.address(subject).to_canonical() {
            IpAddr::V4(address) => self.v4.find(address.into()),
            IpAddr::V6(address) => self.v6.find(address.into()),
        };
        number.map_or_else(|| ComputeResult::Text(Vec::new()), ComputeResult::Entry)
    }

    fn entry(&self, number: u32) -> &[u8] {
        self.values.get(number as usize).map_or(b"", |value| value)
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}
