//! The `listen` directive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, parse_size, parse_time};
use freerun_serve::hosts::Hosts;

use crate::request::Address;

/// `so_keepalive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Keepalive {
    /// `off`
    Off,
    /// `on`, with the system's values where none are given: seconds idle, seconds between probes, probes.
    On(Option<u32>, Option<u32>, Option<u32>),
}

/// How a listening socket is made. What differs between two of them for one address is an error.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ListenSpec {
    /// `127.0.0.1:80`, `[::]:80` or `unix:/path`: also what messages call it.
    pub name: String,
    /// The IP address; `None` for a Unix socket.
    pub ip: Option<SocketAddr>,
    /// Length of the queue of connections not yet accepted.
    pub backlog: i32,
    /// `SO_RCVBUF` in bytes.
    pub rcvbuf: Option<u32>,
    /// `SO_SNDBUF` in bytes.
    pub sndbuf: Option<u32>,
    /// `SO_KEEPALIVE`.
    pub so_keepalive: Option<Keepalive>,
    /// `IPV6_V6ONLY`.
    pub ipv6only: bool,
    /// One socket for each loop.
    pub reuseport: bool,
    /// `TCP_DEFER_ACCEPT`.
    pub deferred: bool,
    /// `TCP_FASTOPEN` queue length.
    pub fastopen: Option<u32>,
}

/// nginx's backlog on Linux.
const BACKLOG: i32 = 511;

impl ListenSpec {
    fn new(ip: Option<SocketAddr>, name: String) -> ListenSpec {
        ListenSpec {
            name,
            ip,
            backlog: BACKLOG,
            rcvbuf: None,
            sndbuf: None,
            so_keepalive: None,
            ipv6only: true,
            reuseport: false,
            deferred: false,
            fastopen: None,
        }
    }

    /// Port 80 on all IPv4 addresses (8000 without the rights for that): what a server without `listen` gets.
    pub fn default_for(privileged: bool) -> ListenSpec {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, if privileged { 80 } else { 8000 }));
        ListenSpec::new(Some(address), address.to_string())
    }

    /// The path of a Unix socket.
    pub fn unix_path(&self) -> Option<&str> {
        self.name.strip_prefix("unix:")
    }

    /// The address as connections know it.
    pub fn address(&self) -> Address {
        match self.ip {
            Some(address) => Address::Ip(address),
            None => Address::Unix(Arc::from(self.name.as_str())),
        }
    }

    /// Whether it stands for every address of its family.
    pub fn is_wildcard(&self) -> bool {
        self.ip.is_some_and(|address| address.ip().is_unspecified())
    }
}

/// Where a directive is written, for problems found after reading.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// What the caret points at.
    pub place: Place,
    /// The line that is named.
    pub end: Place,
    /// Position in reading order.
    pub order: u32,
}

/// One `listen` directive; a range of ports makes several addresses.
#[derive(Debug, Clone)]
pub struct ListenSetting {
    /// One for each port.
    pub specs: Vec<ListenSpec>,
    /// `default_server`
    pub default_server: bool,
    /// `proxy_protocol`
    pub proxy_protocol: bool,
    /// Where it is written.
    pub written: Written,
    /// Whether any parameter concerns the socket itself: such an address is bound by its own, and only one `listen`
    /// for it may say so.
    pub has_options: bool,
}

impl Value for ListenSetting {
    const SHAPE: Shape = Shape::at_least(1, "address[:port] | port | unix:path [parameters]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ListenSetting, Problem> {
        let word = &directive.args[0];
        let mut specs = addresses(&word.text, cx.extensions.get_or_default()).map_err(|why| {
            Problem::new(format!("{why} in \"{}\" of the \"listen\" directive", word.text)).at(word.place)
        })?;
        let mut default_server = false;
        let mut proxy_protocol = false;
        let mut has_options = false;
        for parameter in &directive.args[1..] {
            let text = parameter.text.as_str();
            let invalid = || Problem::new(format!("invalid parameter \"{text}\"")).at(parameter.place);
            if matches!(text, "default_server" | "default") {
                default_server = true;
                continue;
            }
            if text == "proxy_protocol" {
                proxy_protocol = true;
                continue;
            }
            has_options = true;
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let bad = || Problem::new(format!("invalid {name} \"{text}\"")).at(parameter.place);
            for spec in &mut specs {
                match (name, value) {
                    ("bind", None) => {}
                    ("backlog", Some(value)) => {
                        spec.backlog = value.parse().ok().filter(|backlog| *backlog != 0).ok_or_else(bad)?;
                    }
                    ("rcvbuf", Some(value)) => spec.rcvbuf = Some(buffer(value).ok_or_else(bad)?),
                    ("sndbuf", Some(value)) => spec.sndbuf = Some(buffer(value).ok_or_else(bad)?),
                    ("fastopen", Some(value)) => {
                        spec.fastopen = Some(value.parse().map_err(|_| bad())?);
                    }
                    ("deferred", None) => spec.deferred = true,
                    ("reuseport", None) => spec.reuseport = true,
                    ("ipv6only", Some(value @ ("on" | "off"))) => {
                        if !spec.ip.is_some_and(|address| address.is_ipv6()) {
                            return Err(Problem::new(format!("ipv6only is not supported on addr \"{}\"", spec.name))
                                .at(parameter.place));
                        }
                        spec.ipv6only = value == "on";
                    }
                    ("ipv6only", Some(value)) => {
                        return Err(Problem::new(format!("invalid ipv6only flags \"{value}\"")).at(parameter.place));
                    }
                    ("so_keepalive", Some(value)) => {
                        spec.so_keepalive = Some(keepalive(value).ok_or_else(|| {
                            Problem::new(format!("invalid so_keepalive value: \"{value}\"")).at(parameter.place)
                        })?);
                    }
                    ("ssl" | "http2" | "quic" | "multipath", None) => {
                        return Err(Problem::new(format!("the \"{name}\" parameter is not supported yet"))
                            .at(parameter.place)
                            .hint(match name {
                                "ssl" => {
                                    "freerun does not have TLS yet; without the parameter it speaks plain HTTP there"
                                }
                                _ => "freerun does not have it yet; remove the parameter",
                            }));
                    }
                    _ => return Err(invalid()),
                }
            }
        }
        let written = Written { place: word.place, end: directive.end, order: directive.order };
        Ok(ListenSetting { specs, default_server, proxy_protocol, written, has_options })
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

/// The addresses that a `listen` value stands for.
fn addresses(text: &str, hosts: &mut Hosts) -> Result<Vec<ListenSpec>, &'static str> {
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err("no path in the unix domain socket");
        }
        if path.len() > 107 {
            return Err("too long path in the unix domain socket");
        }
        return Ok(vec![ListenSpec::new(None, text.to_owned())]);
    }
    let (ip, ports) = if let Some(rest) = text.strip_prefix('[') {
        let (ip, rest) = rest.split_once(']').ok_or("invalid host")?;
        let ip = IpAddr::V6(ip.parse::<Ipv6Addr>().map_err(|_| "invalid IPv6 address")?);
        (vec![ip], rest.strip_prefix(':').map_or(if rest.is_empty() { Ok("80") } else { Err("invalid host") }, Ok)?)
    } else if let Some((host, ports)) = text.split_once(':') {
        // The port is looked at first, as nginx does.
        port_range(ports)?;
        (host_addresses(host, hosts)?, ports)
    } else if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && !text.is_empty() {
        (vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)], text)
    } else {
        (host_addresses(text, hosts)?, "80")
    };
    let (first, last) = port_range(ports)?;
    let every = ip.iter().flat_map(|ip| (first..=last).map(move |port| SocketAddr::new(*ip, port)));
    Ok(every.map(|address| ListenSpec::new(Some(address), address.to_string())).collect())
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
                // Some systems do not list it anywhere.
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
        addresses(text, &mut Hosts { lookup: None, known })
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
    fn keepalive_takes_three_optional_parts() {
        assert_eq!(keepalive("30m::10"), Some(Keepalive::On(Some(1800), None, Some(10))));
        assert_eq!(keepalive("::"), None);
        assert_eq!(keepalive("1"), None);
    }
}
