//! What is known of the addresses of a server that is written as a name.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwapOption;

/// An address of a server that is written as a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// Where it is.
    pub(super) address: SocketAddr,
    /// Its share, by which the server's own weight is multiplied.
    pub(super) weight: u32,
    /// Whether others have a better priority.
    pub(super) later: bool,
}

/// The addresses of the hosts that are named by the services of a name.
pub(super) type Hosts = HashMap<Box<str>, Arc<[IpAddr]>>;

/// What is known of a server's name. Goes on over reloads.
#[derive(Debug, Default)]
pub(super) struct Known {
    targets: ArcSwapOption<Vec<Target>>,
    /// With `service`: what the targets were made of.
    hosts: ArcSwapOption<Hosts>,
}

impl Known {
    /// The addresses; `None`: it was not looked up yet, or not found.
    pub(super) fn targets(&self) -> Option<Arc<Vec<Target>>> {
        self.targets.load_full()
    }

    /// The addresses of the hosts that services named, when it was looked up last.
    pub(super) fn hosts(&self) -> Option<Arc<Hosts>> {
        self.hosts.load_full()
    }

    /// This is what was found.
    pub(super) fn set(&self, mut targets: Vec<Target>, hosts: Hosts) {
        // Name servers answer in another order each time.
        targets.sort_unstable();
        targets.dedup();
        self.targets.store(Some(Arc::new(targets)));
        self.hosts.store(Some(Arc::new(hosts)));
    }

    /// There is no such name any more. Says whether it was known.
    pub(super) fn forget(&self) -> bool {
        self.hosts.store(None);
        self.targets.swap(None).is_some()
    }
}
