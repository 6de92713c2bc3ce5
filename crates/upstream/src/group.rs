//! A group of servers: `upstream name { … }`, or the group that a `proxy_pass` to an address makes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::address::UpstreamAddress;
use crate::balance::Tier;
use crate::group_state::{GroupState, ServerKey};
use crate::health::OutlierRules;
use crate::lease::Lease;
use crate::method::Method;
use crate::peer::{Peer, PeerSettings};
use crate::query::{ClientBinding, NoPeer, Query, TriedServers};

/// The configuration of a group, apart from its servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupSettings {
    /// The method that chooses the next server.
    pub method: Method,
    /// The settings of the queue (`queue`); `None`: requests do not wait for a server.
    pub queue: Option<QueueSettings>,
    /// The rules of the outlier detection; `None`: it is off.
    pub outlier: Option<OutlierRules>,
}

/// The settings of `queue number [timeout=time]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSettings {
    /// The most requests that wait at a time.
    pub length: u32,
    /// The longest wait of a request.
    pub timeout: Duration,
}

/// The description of a server from which a group makes its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSpec {
    /// The address of the server.
    pub address: UpstreamAddress,
    /// The server as the configuration names it, without parameters. All servers that one name resolves to share this
    /// name.
    pub server: Arc<str>,
    /// The settings of the server.
    pub settings: PeerSettings,
}

/// The servers of a group at one time.
#[derive(Debug)]
pub struct PeerSet {
    /// Servers that are asked first.
    pub primary: Tier,
    /// Servers that are asked when no primary server can be (`backup`).
    pub backup: Tier,
}

impl PeerSet {
    /// All servers, the `backup` servers last.
    pub fn peers(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.primary.peers.iter().chain(&self.backup.peers)
    }
}

/// A group of servers.
#[derive(Debug)]
pub struct Group {
    /// The name of the `upstream` block, or the address as written in the directive.
    pub name: Arc<str>,
    /// The configuration of the group.
    pub settings: GroupSettings,
    state: Arc<GroupState>,
    set: ArcSwap<PeerSet>,
    /// Number of times that the servers were replaced.
    replaced: AtomicU64,
}

impl Group {
    /// Makes a group. `state` is the state of the group with this name in the running configuration, or a new one; the
    /// state of servers whose address stays is kept.
    pub fn new(name: &str, settings: GroupSettings, state: Arc<GroupState>, peers: Vec<PeerSpec>) -> Group {
        let set = ArcSwap::from_pointee(build(&settings, &state, peers, None));
        Group { name: name.into(), settings, state, set, replaced: AtomicU64::new(0) }
    }

    /// The current servers of the group.
    pub fn peers(&self) -> Arc<PeerSet> {
        self.set.load_full()
    }

    /// Replaces the servers. Leases of removed servers stay valid; the state of an address that stays is kept.
    pub fn replace(&self, peers: Vec<PeerSpec>) {
        let before = self.set.load_full();
        self.set.store(Arc::new(build(&self.settings, &self.state, peers, Some(&before))));
        self.replaced.fetch_add(1, Relaxed);
    }

    /// Number of times that the servers of the group were replaced.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Relaxed)
    }

    /// Chooses a server that was not tried yet, and counts the connection.
    ///
    /// # Errors
    /// There is no server to choose; see [`NoPeer`].
    pub fn pick(&self, query: &Query<'_>, tried: &mut TriedServers) -> Result<Lease, NoPeer> {
        let set = self.set.load();
        let tiers = [&set.primary, &set.backup];
        let bound = |tier: &&Tier, bound| tier.bound(bound, query.now, tried);
        // A client may be tied to the very server that it has, but a route only decides within the servers whose turn it is.
        let (own, route) = match query.sticky {
            Some(own @ ClientBinding::Id(_)) => (tiers.iter().find_map(|tier| bound(tier, own)), None),
            route => (None, route),
        };
        let lease = own.or_else(|| {
            tiers.iter().find_map(|tier| {
                let routed = route.and_then(|route| bound(tier, route));
                routed.or_else(|| tier.pick(self.settings.method, query, tried))
            })
        });
        if let Some(lease) = lease {
            tried.add(lease.peer().id);
            return Ok(lease);
        }
        if tried.count() > 0 && set.peers().all(|peer| peer.settings.down || tried.has(peer.id)) {
            return Err(NoPeer::AllTried);
        }
        let only_full = |peer: &Arc<Peer>| !tried.has(peer.id) && peer.usable(query.now) && peer.full();
        if self.settings.queue.is_some() && set.peers().any(only_full) {
            return Err(NoPeer::Wait);
        }
        Err(NoPeer::NoneLive)
    }

    /// The state that is kept over reloads.
    pub fn state(&self) -> &Arc<GroupState> {
        &self.state
    }

    /// Number of requests that wait for a server.
    pub fn waiting(&self) -> u32 {
        self.state.queue.waiting()
    }

    /// Number of requests that found the queue full.
    pub fn overflows(&self) -> u64 {
        self.state.queue.overflows()
    }
}

fn build(settings: &GroupSettings, state: &Arc<GroupState>, specs: Vec<PeerSpec>, before: Option<&PeerSet>) -> PeerSet {
    let mut seen: HashMap<UpstreamAddress, usize> = HashMap::new();
    let keys: Vec<ServerKey> = specs
        .iter()
        .map(|spec| {
            let nth = seen.entry(spec.address.clone()).or_default();
            *nth += 1;
            (spec.address.clone(), *nth)
        })
        .collect();
    let single = specs.len() == 1;
    let ages = matches!(settings.method, Method::LeastTime { inflight: true, .. });
    let held = if before.is_some() { state.held_back() } else { 0 };
    let lives = state.lives(&keys, held);
    let outlier = settings.outlier.clone().map(Arc::new);
    let peers = specs.into_iter().zip(lives).map(|(spec, live)| {
        let name: Arc<str> = spec.address.to_string().into();
        let PeerSpec { address, server, settings } = spec;
        let route = settings.route.clone().unwrap_or_else(|| crate::peer::route_of(&name));
        let outlier = outlier.clone();
        let state = state.clone();
        Arc::new(Peer { address, name, server, settings, route, live, outlier, state, single, ages })
    });
    let (backup, primary) = peers.partition(|peer| peer.settings.backup);
    PeerSet {
        primary: Tier::new(settings.method, primary, before.map(|set| &set.primary)),
        backup: Tier::new(settings.method, backup, before.map(|set| &set.backup)),
    }
}
