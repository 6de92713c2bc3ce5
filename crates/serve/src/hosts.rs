//! Names in the configuration itself (`listen NAME:80`, `set_real_ip_from NAME`): looked up while it is read, by the master.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The addresses of hosts that a configuration names where it needs them at once; lives in its context. The master looks them up
/// and notes them; the worker has the notes, so that both read the same.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// Asks the system; may wait. `None`: only what is known counts.
    pub lookup: Option<fn(&str) -> Vec<IpAddr>>,
    /// What is known.
    pub known: BTreeMap<String, Vec<IpAddr>>,
}

impl Hosts {
    /// The addresses of a host; none: it was not found.
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
