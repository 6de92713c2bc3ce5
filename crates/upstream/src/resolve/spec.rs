//! The settings of `resolver`.

use std::fmt;
use std::time::Duration;

use crate::place::ServerPlace;

/// A name server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NameServer {
    /// The place of the name server; a name is looked up by the system when the server is first asked.
    pub place: ServerPlace,
}

/// The settings of `resolver address … [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=name]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResolverSpec {
    /// The name servers, asked in turn.
    pub servers: Vec<NameServer>,
    /// Validity of answers, overriding their own time to live.
    pub valid: Option<Duration>,
    /// Whether IPv4 addresses are asked for.
    pub ipv4: bool,
    /// Whether IPv6 addresses are asked for.
    pub ipv6: bool,
    /// The name under which `status` shows the counters.
    pub status_zone: Option<Box<str>>,
}

impl fmt::Display for ResolverSpec {
    /// Prints all settings on one line: equal settings print the same.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for server in &self.servers {
            write!(formatter, "{} ", server.place)?;
        }
        write!(formatter, "valid={:?} ipv4={} ipv6={} zone={:?}", self.valid, self.ipv4, self.ipv6, self.status_zone)
    }
}
