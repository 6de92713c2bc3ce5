//! The place of a server as a configuration writes it: an address, a name with a port, the path of a Unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use freerun_conf::{bytes_of, path_of};

use crate::address::UpstreamAddress;

/// The longest path of a Unix socket in bytes (unix(7), without the final zero).
const MAX_UNIX_PATH: usize = 107;

/// The place of a server: an address, or a name to be looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServerPlace {
    /// A known address.
    Address(UpstreamAddress),
    /// A name whose addresses have to be looked up.
    Name(HostName),
}

/// A host name and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName {
    /// The host name, in lower case.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerPlace::Address(address) => address.fmt(formatter),
            ServerPlace::Name(name) => name.fmt(formatter),
        }
    }
}

/// A place as it was written in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceText {
    /// The place of the server.
    pub place: ServerPlace,
    /// The host without its port, in lower case; `unix:/path` for a Unix socket.
    pub host: Box<str>,
    /// The port, if one was written.
    pub port: Option<u16>,
}

/// Parses `host`, `host:port`, `[v6]:port` or `unix:/path`. The port is `default_port` where none is written; without a
/// default a port has to be written.
///
/// # Errors
/// nginx's text for what is wrong, to be followed by ` in upstream "TEXT"`.
pub fn parse(text: &str, default_port: Option<u16>) -> Result<PlaceText, &'static str> {
    if let Some(path) = text.get(..5).filter(|start| start.eq_ignore_ascii_case("unix:")).map(|_| &text[5..]) {
        return match bytes_of(path).len() {
            0 => Err("no path in the unix domain socket"),
            1..=MAX_UNIX_PATH => {
                let place = ServerPlace::Address(UpstreamAddress::Unix(path_of(path).into()));
                Ok(PlaceText { place, host: format!("unix:{path}").into(), port: None })
            }
            _ => Err("too long path in the unix domain socket"),
        };
    }
    if text.contains(['/', '?']) {
        return Err("invalid host");
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("invalid host")?;
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err("invalid host"),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(|port| number_of_port(port).ok_or("invalid port")).transpose()?;
    if host.is_empty() {
        return Err("no host");
    }
    let effective = port.or(default_port);
    let host = host.to_ascii_lowercase();
    let place = match (host.parse::<IpAddr>(), text.starts_with('[')) {
        (Ok(ip), bracketed) if ip.is_ipv6() == bracketed => {
            ServerPlace::Address(SocketAddr::new(ip, effective.ok_or("no port")?).into())
        }
        (_, true) => return Err("invalid IPv6 address"),
        _ => ServerPlace::Name(HostName { host: host.as_str().into(), port: effective.ok_or("no port")? }),
    };
    let host = if text.starts_with('[') { format!("[{host}]").into() } else { host.into() };
    Ok(PlaceText { place, host, port })
}

/// Parses a port: decimal digits, from 1.
fn number_of_port(text: &str) -> Option<u16> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_nginx_reads_them() {
        for (text, place, host, port) in [
            ("127.0.0.1", "127.0.0.1:80", "127.0.0.1", None),
            ("127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("[::1]", "[::1]:80", "[::1]", None),
            ("[::1]:81", "[::1]:81", "[::1]", Some(81)),
            ("Back-End", "back-end:80", "back-end", None),
            ("a.example:65535", "a.example:65535", "a.example", Some(65535)),
            ("unix:/run/A.sock", "unix:/run/A.sock", "unix:/run/A.sock", None),
            ("unix:/a:b", "unix:/a:b", "unix:/a:b", None),
            ("1.2.3", "1.2.3:80", "1.2.3", None),
        ] {
            let written = parse(text, Some(80)).unwrap();
            assert_eq!((written.place.to_string().as_str(), &*written.host, written.port), (place, host, port));
        }
        assert!(matches!(parse("a", Some(80)).unwrap().place, ServerPlace::Name(_)));
    }

    #[test]
    fn what_is_no_place_is_refused_in_nginx_words() {
        let long = format!("unix:/{}", "x".repeat(107));
        for (text, why) in [
            ("", "no host"),
            (":80", "no host"),
            ("[::1", "invalid host"),
            ("[::1]:80x", "invalid port"),
            ("::1", "invalid port"),
            ("127.0.0.1:99999", "invalid port"),
            ("127.0.0.1:", "invalid port"),
            ("127.0.0.1:0", "invalid port"),
            ("127.0.0.1:+1", "invalid port"),
            ("http://x", "invalid host"),
            ("a?b", "invalid host"),
            ("[::1]x", "invalid host"),
            ("[zz]:80", "invalid IPv6 address"),
            ("127.0.0.1:80:80", "invalid port"),
            ("127.0.0.1/x", "invalid host"),
            ("unix:", "no path in the unix domain socket"),
            (&long, "too long path in the unix domain socket"),
        ] {
            assert_eq!(parse(text, Some(80)), Err(why), "{text}");
        }
        assert_eq!(parse("localhost", None), Err("no port"));
    }
}
