//! The address of an engine, as `zone_sync_engine` writes it.

use std::fmt;

/// The port of an engine without one in its address.
const ENGINE_PORT: u16 = 6379;

/// The port of a sentinel without one in its address.
const SENTINEL_PORT: u16 = 26379;

/// The most hosts of an address.
const MAX_HOSTS: usize = 16;

/// The way to an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineHosts {
    /// A single server: its host and port.
    Single(String, u16),
    /// A server below this path, a Unix socket.
    Unix(String),
    /// Sentinels, which know where the primary of this name is.
    Sentinels {
        /// The name of the primary.
        name: String,
        /// The sentinels: hosts and ports.
        sentinels: Vec<(String, u16)>,
    },
}

/// The address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAddress {
    /// Whether it is reached by TLS (`rediss://`).
    pub is_tls: bool,
    /// Its hosts.
    pub hosts: EngineHosts,
    /// The number of its database.
    pub database: i64,
}

/// The reason why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The scheme is another one.
    #[error("it begins with \"redis://\", \"rediss://\" (TLS) or \"unix:\"")]
    Scheme,
    /// A user or a password stands in it.
    #[error("user and password are the parameters \"user=\" and \"password_file=\"")]
    Credentials,
    /// A host or a port is wrong.
    #[error("\"{0}\" is no host with a port")]
    Host(String),
    /// The number of the database is wrong.
    #[error("\"{0}\" is no number of a database")]
    Database(String),
    /// There are too many hosts.
    #[error("it has at most {MAX_HOSTS} hosts")]
    TooMany,
    /// Several hosts are named, and they are no sentinels.
    #[error("several hosts are sentinels: \"topology=sentinel:NAME\" is missing")]
    NoSentinels,
    /// A Unix socket cannot be a sentinel.
    #[error("sentinels have hosts and ports")]
    UnixSentinel,
}

impl EngineAddress {
    /// Whether sentinels say where the primary is.
    pub fn has_sentinels(&self) -> bool {
        matches!(self.hosts, EngineHosts::Sentinels { .. })
    }

    /// Reads an address: `redis://host[:port][,host[:port]…][/database]`, the same with `rediss`, or `unix:/path`. With the
    /// name of a primary the hosts are sentinels.
    ///
    /// # Errors
    /// [`AddressError`], in words for the configuration.
    pub fn parse(text: &str, primary: Option<&str>) -> Result<EngineAddress, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match primary {
                Some(_) => Err(AddressError::UnixSentinel),
                None if path.is_empty() => Err(AddressError::Host(path.to_owned())),
                None => Ok(EngineAddress { is_tls: false, hosts: EngineHosts::Unix(path.to_owned()), database: 0 }),
            };
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let is_tls = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => return Err(AddressError::Scheme),
        };
        if rest.contains('@') {
            return Err(AddressError::Credentials);
        }
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            number => match number.parse::<u16>() {
                Ok(number) => i64::from(number),
                Err(_) => return Err(AddressError::Database(number.to_owned())),
            },
        };
        let port = if primary.is_some() { SENTINEL_PORT } else { ENGINE_PORT };
        let hosts: Vec<(String, u16)> =
            hosts.split(',').map(|host| host_and_port(host, port)).collect::<Result<_, _>>()?;
        if hosts.len() > MAX_HOSTS {
            return Err(AddressError::TooMany);
        }
        let hosts = match (primary, <[_; 1]>::try_from(hosts)) {
            (Some(name), hosts) => {
                let sentinels = hosts.map_or_else(|hosts| hosts, Vec::from);
                EngineHosts::Sentinels { name: name.to_owned(), sentinels }
            }
            (None, Ok([(host, port)])) => EngineHosts::Single(host, port),
            (None, Err(_)) => return Err(AddressError::NoSentinels),
        };
        Ok(EngineAddress { is_tls, hosts, database })
    }
}

/// The host and the port of a text; without a port it is `port`. Addresses of IPv6 are in brackets.
fn host_and_port(text: &str, port: u16) -> Result<(String, u16), AddressError> {
    let wrong = || AddressError::Host(text.to_owned());
    let (host, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']').ok_or_else(wrong)?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().map_err(|_| wrong())?,
        None if rest.is_empty() => port,
        _ => return Err(wrong()),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    if host.is_empty() || port == 0 || !host.bytes().all(is_host) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        match &self.hosts {
            EngineHosts::Single(host, port) => {
                write!(to, "{scheme}://{}{}", HostPort(host, *port), Database(self.database))
            }
            EngineHosts::Unix(path) => write!(to, "unix:{path}"),
            EngineHosts::Sentinels { name, sentinels } => {
                write!(to, "{scheme}://")?;
                for (index, (host, port)) in sentinels.iter().enumerate() {
                    write!(to, "{}{}", if index == 0 { "" } else { "," }, HostPort(host, *port))?;
                }
                write!(to, "{} (sentinels of \"{name}\")", Database(self.database))
            }
        }
    }
}

/// The number of a database as it stands at the end of an address; the first one is left out.
struct Database(i64);

impl fmt::Display for Database {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(to, "/{}", self.0) }
    }
}

/// A host and a port as they are written together.
pub(crate) struct HostPort<'h>(pub(crate) &'h str, pub(crate) u16);

impl fmt::Display for HostPort<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort(host, port) = self;
        if host.contains(':') { write!(to, "[{host}]:{port}") } else { write!(to, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, primary: Option<&str>) -> Result<String, String> {
        EngineAddress::parse(text, primary).map(|address| address.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_read() {
        let cases = [
            ("redis://10.0.0.1", None, "redis://10.0.0.1:6379"),
            ("redis://state.example:7000/3", None, "redis://state.example:7000/3"),
            ("rediss://[::1]:7000", None, "rediss://[::1]:7000"),
            ("unix:/run/redis.sock", None, "unix:/run/redis.sock"),
            ("redis://a,b:1", Some("main"), "redis://a:26379,b:1 (sentinels of \"main\")"),
            ("redis://a", Some("main"), "redis://a:26379 (sentinels of \"main\")"),
        ];
        for (text, primary, expected) in cases {
            assert_eq!(shown(text, primary).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(EngineAddress::parse("redis://a/3", None).map(|address| address.database), Ok(3));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "a:1", "http://a", "redis://", "redis://:1", "redis://a:0", "redis://a:x", "redis://a:1:2"] {
            assert!(shown(text, None).is_err(), "{text}");
        }
        for text in ["redis://[::1", "redis://[::1]x", "redis://a b", "redis://a/b", "redis://a/-1", "unix:"] {
            assert!(shown(text, None).is_err(), "{text}");
        }
        assert_eq!(EngineAddress::parse("redis://u:p@a", None), Err(AddressError::Credentials));
        assert_eq!(EngineAddress::parse("redis://a,b", None), Err(AddressError::NoSentinels));
        assert_eq!(EngineAddress::parse("unix:/a", Some("m")), Err(AddressError::UnixSentinel));
        assert_eq!(
            EngineAddress::parse(&format!("redis://{}", ["a"; 17].join(",")), Some("m")),
            Err(AddressError::TooMany)
        );
    }
}
