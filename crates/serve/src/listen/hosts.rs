//! Names in the configuration itself (`listen NAME:80`, `set_real_ip_from NAME`): the master looks them up while it
//! reads it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The addresses of hosts whose names a configuration needs at once; lives in its context. The master looks them up and
/// notes them; the worker has the notes, so that both read the same.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// The function that asks the system, which may wait. If it is `None`, only known addresses are used.
    pub lookup: Option<fn(&str) -> Vec<IpAddr>>,
    /// The known addresses.
    pub known: BTreeMap<String, Vec<IpAddr>>,
}

impl Hosts {
    /// The addresses of a host; empty if it was not found.
    pub fn addresses(&mut self, host: &str) -> Vec<IpAddr> {
        if let Some(known) = self.known.get(host) {
            return known.clone();
        }
        let Some(lookup) = self.lookup else { return Vec::new() };
        let found = lookup(host);
        self.known.insert(host.to_owned(), found.clone());
        found
    }
}
