//! The addresses that a configuration listens at, and the free addresses of the trial.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket};
use std::ops::RangeInclusive;

use crate::commands::explain::{address_of, split_port};

/// The most addresses that are mapped.
const MAX_ADDRESSES: usize = 1000;

/// The tries to find a port that is free for TCP and for UDP.
const TRIES: usize = 50;

/// The last numbers of the loopback addresses of IPv4 that are tried for a wildcard, beginning with 127.0.0.1.
const LOOPBACKS: RangeInclusive<u8> = 1..=254;

/// The address that a `listen` names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenAddress {
    /// An IP address with its port.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(String),
}

impl ListenAddress {
    /// The addresses of the first parameter of a `listen`: a name may have several, and there may be a range of ports.
    ///
    /// # Errors
    /// It is no address, or its name has none.
    pub fn of(text: &str, default_port: Option<u16>) -> Result<Vec<ListenAddress>, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(vec![ListenAddress::Unix(path.to_owned())]);
        }
        let wrong = || format!("\"listen {text}\" names no address");
        let (host, ports) = match split_port(text) {
            (_, None) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => ("*", Some(text)),
            parts => parts,
        };
        let (first, last) = match ports {
            None => default_port.map(|port| (port, port)).ok_or_else(wrong)?,
            Some(ports) => {
                let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
                first.parse().ok().zip(last.parse().ok()).ok_or_else(wrong)?
            }
        };
        let hosts: Vec<IpAddr> = match address_of(host) {
            _ if host == "*" => vec![Ipv4Addr::UNSPECIFIED.into()],
            Some(ip) => vec![ip],
            None => {
                let found = (host, first).to_socket_addrs().map_err(|error| format!("{}: {error}", wrong()))?;
                found.map(|address| address.ip()).collect()
            }
        };
        let all = hosts.iter().flat_map(|ip| (first..=last).map(|port| ListenAddress::Ip((*ip, port).into())));
        Ok(all.take(MAX_ADDRESSES + 1).collect())
    }
}

/// The sockets that keep a port free of others.
#[derive(Debug)]
struct ReservedPort {
    _stream: TcpListener,
    _datagrams: Option<UdpSocket>,
}

/// The addresses of the configuration, each with its address in the trial. No two have the same.
#[derive(Debug, Default)]
pub struct TrialAddresses {
    mapped: BTreeMap<ListenAddress, ListenAddress>,
    /// The addresses of the configuration that have a socket of UDP, too.
    with_datagrams: BTreeSet<ListenAddress>,
    /// Sockets that keep the ports free of others until the server binds them.
    reserved: Vec<ReservedPort>,
}

impl TrialAddresses {
    /// Says that the configuration listens at this address for datagrams: the address that will stand for it has to be free
    /// for these as well. It has to be said before the address is mapped.
    pub fn expect_datagrams(&mut self, address: ListenAddress) {
        debug_assert!(!self.mapped.contains_key(&address), "the port of {address:?} is chosen");
        self.with_datagrams.insert(address);
    }

    /// The address that stands for this one; Unix sockets are in `folder`.
    ///
    /// # Errors
    /// There are too many, or there is no free port.
    pub fn map(&mut self, address: &ListenAddress, folder: &str) -> Result<ListenAddress, String> {
        if let Some(known) = self.mapped.get(address) {
            return Ok(known.clone());
        }
        if self.mapped.len() >= MAX_ADDRESSES {
            return Err(format!("the configuration listens at more than {MAX_ADDRESSES} addresses"));
        }
        let free = match address {
            ListenAddress::Unix(_) => ListenAddress::Unix(format!("{folder}/{}.sock", self.mapped.len())),
            ListenAddress::Ip(ip) => {
                ListenAddress::Ip(self.reserve(ip.is_ipv6(), self.with_datagrams.contains(address))?)
            }
        };
        self.mapped.insert(address.clone(), free.clone());
        Ok(free)
    }

    /// Finds a port of the loopback interface that is free. A machine without IPv6 has the address of IPv4 for both.
    ///
    /// # Errors
    /// There is none.
    fn reserve(&mut self, is_ipv6: bool, has_datagrams: bool) -> Result<SocketAddr, String> {
        let all = [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
        // The second loopback address is tried when the first one cannot be bound.
        let loopbacks = if is_ipv6 { &all[..] } else { &all[1..] };
        for (ip, _) in loopbacks.iter().flat_map(|ip| (0..TRIES).map(move |number| (*ip, number))) {
            let Ok(stream) = TcpListener::bind((ip, 0)) else { continue };
            let Ok(address) = stream.local_addr() else { continue };
            let datagrams = match has_datagrams.then(|| UdpSocket::bind(address)).transpose() {
                Ok(datagrams) => datagrams,
                // Somebody else has the port for datagrams.
                Err(_) => continue,
            };
            self.reserved.push(ReservedPort { _stream: stream, _datagrams: datagrams });
            return Ok(address);
        }
        Err("there is no free port at the loopback addresses".to_owned())
    }

    /// Gives the ports up, for the server to bind them.
    pub fn release(&mut self) {
        self.reserved.clear();
    }

    /// The IP address that stands for one of the configuration.
    pub fn get(&self, address: SocketAddr) -> Option<SocketAddr> {
        match self.mapped.get(&ListenAddress::Ip(address)) {
            Some(ListenAddress::Ip(mapped)) => Some(*mapped),
            _ => None,
        }
    }

    /// The address at which a client of this machine reaches the socket of an address of the configuration. Who listens at a
    /// wildcard is reached at a loopback address, but only where no other socket listens. `None`: there is
    /// no such address.
    pub fn reached(&self, written: SocketAddr) -> Option<SocketAddr> {
        let at = |ip: IpAddr| SocketAddr::new(ip, written.port());
        let is_free = |address: &SocketAddr| !self.mapped.contains_key(&ListenAddress::Ip(*address));
        match written.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => {
                LOOPBACKS.map(|last| at(Ipv4Addr::new(127, 0, 0, last).into())).find(is_free)
            }
            IpAddr::V6(ip) if ip.is_unspecified() => Some(at(Ipv6Addr::LOCALHOST.into())).filter(is_free),
            _ => Some(written),
        }
    }

    /// Whether a socket of this name, as [`ListenSpec`](freerun_serve::listen::ListenSpec) has it, stands for another one.
    pub fn has_mapped(&self, name: &str) -> bool {
        self.mapped.values().any(|mapped| match mapped {
            ListenAddress::Ip(address) => address.to_string() == name,
            ListenAddress::Unix(path) => name.strip_prefix("unix:") == Some(path.as_str()),
        })
    }

    /// The addresses of the configuration, each with its address in the trial.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&ListenAddress, &ListenAddress)> {
        self.mapped.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listens_become_addresses() {
        let of = |text: &str| -> Vec<String> {
            let all = ListenAddress::of(text, Some(80)).unwrap_or_default();
            let shown = |address: &ListenAddress| match address {
                ListenAddress::Ip(address) => address.to_string(),
                ListenAddress::Unix(path) => format!("unix:{path}"),
            };
            all.iter().map(shown).collect()
        };
        for (text, expected) in [
            ("81", &["0.0.0.0:81"][..]),
            ("*:81", &["0.0.0.0:81"]),
            ("192.0.2.1", &["192.0.2.1:80"]),
            ("192.0.2.1:81", &["192.0.2.1:81"]),
            ("[::]:81", &["[::]:81"]),
            ("[::1]", &["[::1]:80"]),
            ("127.0.0.1:81-83", &["127.0.0.1:81", "127.0.0.1:82", "127.0.0.1:83"]),
            ("unix:/run/a.sock", &["unix:/run/a.sock"]),
            ("127.0.0.1:x", &[]),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        assert!(ListenAddress::of("192.0.2.1", None).is_err());
    }

    #[test]
    fn each_address_has_one_of_its_own() {
        let mut addresses = TrialAddresses::default();
        let of = |text: &str| ListenAddress::of(text, Some(80)).expect("an address").remove(0);
        let first = addresses.map(&of("80"), "/t").expect("a port");
        assert_eq!(addresses.map(&of("*:80"), "/t"), Ok(first.clone()));
        let second = addresses.map(&of("127.0.0.1:80"), "/t").expect("a port");
        assert_ne!(first, second);
        let ListenAddress::Ip(address) = &second else { panic!("{second:?}") };
        assert!(address.ip().is_loopback() && addresses.has_mapped(&address.to_string()));
        assert_eq!(addresses.get("127.0.0.1:80".parse().expect("an address")), Some(*address));
        assert_eq!(addresses.map(&of("unix:/run/x"), "/t"), Ok(ListenAddress::Unix("/t/2.sock".to_owned())));
        assert!(addresses.has_mapped("unix:/t/2.sock") && !addresses.has_mapped("0.0.0.0:80"));
    }

    #[test]
    fn a_wildcard_is_reached_where_nothing_else_listens() {
        let mut addresses = TrialAddresses::default();
        for text in ["80", "127.0.0.1:80", "127.0.0.2:80", "127.0.0.1:81", "82", "[::]:80", "[::]:81", "[::1]:81"] {
            for address in ListenAddress::of(text, None).expect("an address") {
                addresses.map(&address, "/t").expect("a port");
            }
        }
        let reached = |text: &str| addresses.reached(text.parse().expect("an address")).map(|found| found.to_string());
        for (written, expected) in [
            ("0.0.0.0:80", Some("127.0.0.3:80")),
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("127.0.0.2:80", Some("127.0.0.2:80")),
            ("0.0.0.0:82", Some("127.0.0.1:82")),
            ("[::]:80", Some("[::1]:80")),
            ("[::]:81", None),
            ("[::1]:81", Some("[::1]:81")),
        ] {
            assert_eq!(reached(written).as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn ports_are_kept_for_datagrams_only_where_they_come() {
        let mut addresses = TrialAddresses::default();
        let of = |text: &str| ListenAddress::of(text, Some(80)).expect("an address").remove(0);
        addresses.expect_datagrams(of("443"));
        for (text, is_kept) in [("80", false), ("443", true)] {
            let ListenAddress::Ip(address) = addresses.map(&of(text), "/t").expect("a port") else { panic!("{text}") };
            // Nobody else may have it; the port of the other one may be anybody's by chance, but is none of the trial's.
            assert_eq!(addresses.reserved.last().is_some_and(|port| port._datagrams.is_some()), is_kept, "{text}");
            assert!(!is_kept || UdpSocket::bind(address).is_err(), "{text}");
            assert!(TcpListener::bind(address).is_err(), "{text}");
        }
    }
}
