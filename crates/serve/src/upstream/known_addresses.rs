//! The addresses of a server that is written as a name, as far as they are known.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// An address of a server that is written as a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KnownAddress {
    /// The address and port.
    pub(super) address: SocketAddr,
    /// The weight of the service: a factor for the server's own weight.
    pub(super) weight: u32,
    /// Whether others have a better priority.
    pub(super) later: bool,
}

/// The addresses of the hosts that the services of a name refer to.
pub(super) type ServiceHosts = HashMap<Box<str>, Arc<[IpAddr]>>;

/// The known addresses of a server's name. They survive reloads.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    targets: ArcSwapOption<Vec<KnownAddress>>,
    /// The addresses of the hosts that the targets were made of, with `service`.
    hosts: ArcSwapOption<ServiceHosts>,
}

impl KnownAddresses {
    /// The addresses; `None` if the name was not looked up yet, or not found.
    pub(super) fn targets(&self) -> Option<Arc<Vec<KnownAddress>>> {
        self.targets.load_full()
    }

    /// The addresses of the hosts that services named in the last lookup.
    pub(super) fn hosts(&self) -> Option<Arc<ServiceHosts>> {
        self.hosts.load_full()
    }

    /// Stores the result of a lookup.
    pub(super) fn set(&self, mut targets: Vec<KnownAddress>, hosts: ServiceHosts) {
        // Name servers answer in another order each time.
        targets.sort_unstable();
        self.targets.store(Some(Arc::new(targets)));
        self.hosts.store(Some(Arc::new(hosts)));
    }

    /// Removes the addresses, because the name does not exist any more. Returns whether there were any.
    pub(super) fn forget(&self) -> bool {
        self.hosts.store(None);
        self.targets.swap(None).is_some()
    }
}
