//! The specification of a listening socket: its key, its options, and the addresses that the `listen` directive names.
//!
//! [`setting`] is the directive itself, [`addresses`] are the addresses of all servers together, and [`generation_sockets`] the sockets of
//! a generation. [`hosts`] are names in the configuration that the master looks up, [`address`] is one end of a connection.

pub mod address;
pub mod addresses;
pub mod generation_sockets;
pub mod hosts;
pub mod setting;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use freerun_conf::{bytes_of, parse_size, parse_time};
use freerun_runtime::net::udp::DatagramOptions;
use rustc_hash::FxHasher;

use crate::listen::address::Address;
use crate::listen::hosts::Hosts;

/// The transport protocol of a listening socket: two sockets with the same address and port but different protocols are
/// distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Protocol {
    /// Connected byte streams: TCP, or a Unix socket.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// The identity of a listening socket across configurations and binaries: `127.0.0.1:53` for TCP and for UDP are two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct ListenKey {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The address, as [`ListenSpec::name`].
    pub name: String,
}

impl fmt::Display for ListenKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Stream => formatter.write_str(&self.name),
            Protocol::Datagram => write!(formatter, "udp:{}", self.name),
        }
    }
}

/// The value of `so_keepalive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Keepalive {
    /// `off`.
    Off,
    /// `on`, with the idle time in seconds, the seconds between probes and the number of probes; the system's values
    /// apply where they are `None`.
    On(Option<u32>, Option<u32>, Option<u32>),
}

/// The specification of a listening socket. Two different ones for the same address are an error.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ListenSpec {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Whether its datagrams are packets of QUIC, which belong to connections and not to addresses of clients.
    pub quic: bool,
    /// The name of the [`Service`](crate::accept::service::Service) that takes its connections.
    pub service: String,
    /// The name: `127.0.0.1:80`, `[::]:80` or `unix:/path`. Messages use it, too.
    pub name: String,
    /// The IP address; `None` for a Unix socket.
    pub ip: Option<SocketAddr>,
    /// The length of the queue of connections that are not yet accepted.
    pub backlog: i32,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf: Option<u32>,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf: Option<u32>,
    /// `SO_KEEPALIVE`.
    pub so_keepalive: Option<Keepalive>,
    /// `IPV6_V6ONLY`.
    pub ipv6only: bool,
    /// Whether each loop has a socket of its own, because `reuseport` is set; see [`ListenSpec::is_sharded`].
    pub reuseport: bool,
    /// Whether the directive names a range of ports that this one belongs to.
    pub in_range: bool,
    /// `TCP_DEFER_ACCEPT`.
    pub deferred: bool,
    /// The length of the `TCP_FASTOPEN` queue.
    pub fastopen: Option<u32>,
    /// Whether clients may use several paths at a time (Multipath TCP, RFC 8684).
    pub multipath: bool,
}

/// The error of a value without a port, where there is no default one.
const NO_PORT: &str = "no port";

/// nginx's backlog on Linux.
const BACKLOG: i32 = 511;

/// The most sockets of an address for QUIC: one byte of a connection ID says which of them has the connection.
const MOST_OF_QUIC: usize = 255;

impl ListenSpec {
    /// A socket for byte streams with nginx's default options, whose connections this service takes.
    pub fn new(service: &str, ip: Option<SocketAddr>, name: String) -> ListenSpec {
        ListenSpec {
            protocol: Protocol::Stream,
            quic: false,
            service: service.to_owned(),
            name,
            ip,
            backlog: BACKLOG,
            rcvbuf: None,
            sndbuf: None,
            so_keepalive: None,
            ipv6only: true,
            reuseport: false,
            in_range: false,
            deferred: false,
            fastopen: None,
            multipath: false,
        }
    }

    /// Whether it specifies the same socket as `other`, whatever their options.
    pub fn is_same_socket(&self, other: &ListenSpec) -> bool {
        self.protocol == other.protocol && self.name == other.name
    }

    /// Number of sockets that a worker with `loops` loops has for the address: one, from which all loops accept connections,
    /// or one for each loop ([`ListenSpec::is_sharded`]).
    pub fn sockets(&self, loops: usize) -> usize {
        let most = if self.quic { MOST_OF_QUIC } else { usize::MAX };
        if self.is_sharded() { loops.clamp(1, most) } else { 1 }
    }

    /// Whether there is a socket for each loop: with `reuseport`, and for datagrams.
    ///
    /// Datagrams of one client are to come to the loop that has its session. Only sockets of their own see to that, by the
    /// kernel's hash of both addresses, or by the connection ID of QUIC. So there is one for each loop in any case, unless there are many ports anyway. The
    /// ports of a range have one socket each, and belong to one loop each, in turn.
    pub fn is_sharded(&self) -> bool {
        self.reuseport || self.protocol == Protocol::Datagram && !self.in_range
    }

    /// The sockets that the loop at this place takes connections or datagrams from, for these numbers of loops and sockets.
    /// Connections of a single socket are taken by all loops, its datagrams by one. Where there were more loops before, each
    /// loop may have several sockets.
    pub fn sockets_of(&self, place: usize, loops: usize, sockets: usize) -> impl Iterator<Item = usize> + use<> {
        let loops = loops.max(1);
        let first = match (sockets, self.protocol) {
            (0, _) => None,
            (1, Protocol::Datagram) => {
                let port = self.ip.map_or(0, |address| usize::from(address.port()));
                (port % loops == place).then_some(0)
            }
            (_, Protocol::Datagram) => (place < sockets).then_some(place),
            (_, Protocol::Stream) => Some(place % sockets),
        };
        first.into_iter().flat_map(move |first| (first..sockets).step_by(loops))
    }

    /// The key that identifies the socket.
    pub fn key(&self) -> ListenKey {
        ListenKey { protocol: self.protocol, name: self.name.clone() }
    }

    /// Whether the other specification is of the same socket, perhaps with other options.
    pub fn has_key_of(&self, other: &ListenSpec) -> bool {
        (self.protocol, &self.name) == (other.protocol, &other.name)
    }

    /// A number that stands for the address: addresses take turns in a pool by it.
    pub fn lane(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.name.hash(&mut hasher);
        hasher.finish()
    }

    /// The path of a Unix socket.
    pub fn unix_path(&self) -> Option<&str> {
        self.name.strip_prefix("unix:")
    }

    /// The address in the form that connections have.
    pub fn address(&self) -> Address {
        match self.ip {
            Some(address) => Address::Ip(address),
            None => Address::Unix(Arc::from(self.name.as_str())),
        }
    }

    /// The address that a client has sent to: this one, unless it is a wildcard. The `socket` knows it then.
    pub fn local(&self, socket: impl FnOnce() -> Option<SocketAddr>) -> Address {
        match self.address() {
            Address::Ip(address) if address.ip().is_unspecified() => Address::Ip(socket().unwrap_or(address)),
            address => address,
        }
    }

    /// Whether it is the wildcard address of its family.
    pub fn is_wildcard(&self) -> bool {
        self.ip.is_some_and(|address| address.ip().is_unspecified())
    }

    /// The facts that the kernel is to tell about each datagram, for a socket that takes datagrams. They are its destination, if
    /// the socket has all addresses, and for QUIC whether the way is congested. Packets of QUIC stay whole on their way (RFC
    /// 9000 section 14). The socket needs these before it is bound: they are missing for a datagram that has come
    /// earlier.
    pub fn datagram_options(&self) -> DatagramOptions {
        DatagramOptions { destination: self.is_wildcard(), ecn: self.quic, gro: true, unfragmented: self.quic }
    }

    /// Applies an option of the `listen` directive that concerns the socket itself, such as `backlog=number`. Returns
    /// whether it is one.
    ///
    /// # Errors
    /// nginx's message about its value.
    pub fn apply_option(&mut self, option: &str) -> Result<bool, String> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let bad = || format!("invalid {name} \"{option}\"");
        match (name, value) {
            ("bind", None) => {}
            ("backlog", Some(value)) => {
                self.backlog = value.parse().ok().filter(|backlog| *backlog > 0).ok_or_else(bad)?;
            }
            ("rcvbuf", Some(value)) => self.rcvbuf = Some(buffer(value).ok_or_else(bad)?),
            ("sndbuf", Some(value)) => self.sndbuf = Some(buffer(value).ok_or_else(bad)?),
            ("fastopen", Some(value)) => self.fastopen = Some(value.parse().map_err(|_| bad())?),
            ("deferred", None) => self.deferred = true,
            ("reuseport", None) => self.reuseport = true,
            ("multipath", None) if self.ip.is_none() => {
                return Err(format!("multipath is not supported on addr \"{}\"", self.name));
            }
            ("multipath", None) => self.multipath = true,
            ("ipv6only", Some(value @ ("on" | "off"))) => {
                // It means nothing for other addresses, and nginx takes it.
                if self.ip.is_some_and(|address| address.is_ipv6()) {
                    self.ipv6only = value == "on";
                }
            }
            ("so_keepalive", Some(value)) => {
                let keepalive = keepalive(value).ok_or_else(|| format!("invalid so_keepalive value: \"{value}\""))?;
                self.so_keepalive = Some(keepalive);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn buffer(text: &str) -> Option<u32> {
    parse_size(text).and_then(|size| u32::try_from(size).ok())
}

fn keepalive(text: &str) -> Option<Keepalive> {
    match text {
        "on" => return Some(Keepalive::On(None, None, None)),
        "off" => return Some(Keepalive::Off),
        _ => {}
    }
    let mut parts = text.split(':');
    let seconds = |part: &str| match part {
        "" => Some(None),
        part => parse_time(part).and_then(|time| u32::try_from(time.as_secs()).ok()).map(Some),
    };
    let idle = seconds(parts.next()?)?;
    let interval = seconds(parts.next()?)?;
    let count = match parts.next()? {
        "" => None,
        part => Some(part.parse().ok()?),
    };
    (parts.next().is_none() && (idle, interval, count) != (None, None, None))
        .then_some(Keepalive::On(idle, interval, count))
}

/// The sockets of a `listen` value: one for each port of a range, and for each address of a host's name. A value without
/// a port has the default one.
///
/// # Errors
/// The value is not an address, in nginx's words.
pub fn specs(
    service: &str,
    text: &str,
    default_port: Option<&'static str>,
    hosts: &mut Hosts,
) -> Result<Vec<ListenSpec>, &'static str> {
    if let Some(path) = text.get(..5).filter(|start| start.eq_ignore_ascii_case("unix:")).map(|_| &text[5..]) {
        if path.is_empty() {
            return Err("no path in the unix domain socket");
        }
        if bytes_of(path).len() > 107 {
            return Err("too long path in the unix domain socket");
        }
        return Ok(vec![ListenSpec::new(service, None, format!("unix:{path}"))]);
    }
    let (ip, ports) = if let Some(rest) = text.strip_prefix('[') {
        let (ip, rest) = rest.split_once(']').ok_or("invalid host")?;
        let ip = IpAddr::V6(ip.parse::<Ipv6Addr>().map_err(|_| "invalid IPv6 address")?);
        let ports = match rest.strip_prefix(':') {
            Some(ports) => ports,
            None if rest.is_empty() => default_port.ok_or(NO_PORT)?,
            None => return Err("invalid host"),
        };
        (vec![ip], ports)
    } else if let Some((host, ports)) = text.split_once(':') {
        // The port is checked first, as in nginx.
        port_range(ports)?;
        (host_addresses(host, hosts)?, ports)
    } else if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && !text.is_empty() {
        (vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)], text)
    } else {
        let addresses = host_addresses(text, hosts)?;
        (addresses, default_port.ok_or(NO_PORT)?)
    };
    let (first, last) = port_range(ports)?;
    let every = ip.iter().flat_map(|ip| (first..=last).map(move |port| SocketAddr::new(*ip, port)));
    let in_range = first != last;
    let specs =
        every.map(|address| ListenSpec { in_range, ..ListenSpec::new(service, Some(address), address.to_string()) });
    // A box has no room for more of them, which each of many servers would have.
    Ok(specs.collect::<Box<[_]>>().into_vec())
}

fn port_range(ports: &str) -> Result<(u16, u16), &'static str> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0).ok_or("invalid port");
    let (first, last) = match ports.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(ports)?, port(ports)?),
    };
    if first > last { Err("invalid port range") } else { Ok((first, last)) }
}

fn host_addresses(host: &str, hosts: &mut Hosts) -> Result<Vec<IpAddr>, &'static str> {
    match host {
        "" => Err("no host"),
        "*" => Ok(vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)]),
        host => match host.parse::<Ipv4Addr>() {
            Ok(ip) => Ok(vec![IpAddr::V4(ip)]),
            Err(_) => match hosts.addresses(host) {
                found if !found.is_empty() => Ok(found),
                // Some systems do not list this name anywhere.
                _ if host == "localhost" => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
                _ => Err("host not found"),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Result<Vec<String>, &'static str> {
        let known = [("two.test".to_owned(), vec!["127.0.0.2".parse().unwrap(), "::2".parse().unwrap()])].into();
        specs("http", text, Some("80"), &mut Hosts { lookup: None, known })
            .map(|specs| specs.into_iter().map(|spec| spec.name).collect())
    }

    #[test]
    fn every_form_of_an_address_is_understood() {
        assert_eq!(names("8080").unwrap(), ["0.0.0.0:8080"]);
        assert_eq!(names("*:8080").unwrap(), ["0.0.0.0:8080"]);
        assert_eq!(names("127.0.0.1").unwrap(), ["127.0.0.1:80"]);
        assert_eq!(names("[::1]:81").unwrap(), ["[::1]:81"]);
        assert_eq!(names("[::]").unwrap(), ["[::]:80"]);
        assert_eq!(names("localhost:1-3").unwrap(), ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]);
        assert_eq!(names("unix:/run/x.sock").unwrap(), ["unix:/run/x.sock"]);
        assert_eq!(names("two.test:81").unwrap(), ["127.0.0.2:81", "[::2]:81"]);
        assert_eq!(names("two.test").unwrap(), ["127.0.0.2:80", "[::2]:80"]);
    }

    #[test]
    fn bad_addresses_are_refused() {
        for (text, why) in [
            ("0", "invalid port"),
            ("65536", "invalid port"),
            ("3-1", "invalid port range"),
            ("unix:", "no path in the unix domain socket"),
            ("[::1", "invalid host"),
            ("[::1]x", "invalid host"),
            ("no.such.host:80", "host not found"),
            (":80", "no host"),
        ] {
            assert_eq!(names(text), Err(why), "{text}");
        }
    }

    #[test]
    fn a_service_without_a_default_port_needs_one() {
        let read = |text| specs("stream", text, None, &mut Hosts::default()).map(|specs| specs[0].name.clone());
        assert_eq!(read("127.0.0.1:7").as_deref(), Ok("127.0.0.1:7"));
        assert_eq!(read("7").as_deref(), Ok("0.0.0.0:7"));
        for text in ["127.0.0.1", "[::1]", "localhost", "*"] {
            assert_eq!(read(text), Err("no port"), "{text}");
        }
    }

    #[test]
    fn keepalive_takes_three_optional_parts() {
        assert_eq!(keepalive("30m::10"), Some(Keepalive::On(Some(1800), None, Some(10))));
        assert_eq!(keepalive("::"), None);
        assert_eq!(keepalive("1"), None);
    }

    #[test]
    fn tcp_and_udp_of_one_address_are_two() {
        let tcp = ListenSpec::new("http", Some("127.0.0.1:53".parse().unwrap()), "127.0.0.1:53".to_owned());
        let udp = ListenSpec { protocol: Protocol::Datagram, ..tcp.clone() };
        assert_ne!(tcp.key(), udp.key());
        assert_eq!((tcp.key().to_string(), udp.key().to_string()), ("127.0.0.1:53".into(), "udp:127.0.0.1:53".into()));
    }

    #[test]
    fn each_loop_has_a_socket_for_datagrams_or_each_port_of_a_range_has_a_loop() {
        let four = specs("stream", "127.0.0.1:10-13", None, &mut Hosts::default()).unwrap();
        let udp = |spec: &ListenSpec| ListenSpec { protocol: Protocol::Datagram, ..spec.clone() };
        let of = |spec: &ListenSpec, loops: usize, sockets: usize| -> Vec<Vec<usize>> {
            (0..loops).map(|place| spec.sockets_of(place, loops, sockets).collect()).collect()
        };
        for (number, spec) in four.iter().enumerate() {
            assert_eq!((spec.sockets(4), udp(spec).sockets(4)), (1, 1));
            assert_eq!(of(spec, 3, 1), [[0], [0], [0]]);
            let having: Vec<_> = (0..4).filter(|place| of(&udp(spec), 4, 1)[*place] == [0]).collect();
            assert_eq!(having, [(10 + number) % 4]);
        }
        let one = udp(&ListenSpec { in_range: false, ..four[0].clone() });
        assert_eq!(one.sockets(4), 4);
        assert_eq!(of(&one, 5, 4), [vec![0], vec![1], vec![2], vec![3], vec![]]);
        let range = ListenSpec { reuseport: true, ..udp(&four[0]) };
        assert_eq!((range.sockets(4), range.sockets(0)), (4, 1));
        assert_eq!(of(&one, 1, 0), [[0; 0]]);
        // A byte chooses among the sockets of QUIC.
        let quic = ListenSpec { quic: true, ..one.clone() };
        assert_eq!((quic.sockets(4), quic.sockets(1000)), (4, 255));
        assert_eq!((one.sockets(1000), quic.sockets_of(255, 1000, 255).count()), (1000, 0));
        // Of more loops there were more sockets, which all stay in use.
        let shared = ListenSpec { reuseport: true, ..four[0].clone() };
        for spec in [&one, &shared] {
            assert_eq!(of(spec, 2, 5), [vec![0, 2, 4], vec![1, 3]]);
            assert_eq!(of(spec, 1, 3), [[0, 1, 2]]);
        }
        assert_eq!(of(&shared, 3, 2), [[0], [1], [0]]);
    }
}
