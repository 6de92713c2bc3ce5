//! A group of upstream servers, with all data that a subject which is passed to it needs.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use freerun_upstream::GroupState;
use freerun_upstream::place::Place;
use freerun_upstream::pool::{Count, KeepAlive};
use freerun_upstream::resolve::Resolver;
use freerun_upstream::{Group, GroupSettings, PeerSettings, PeerSpec, UpstreamAddress, now};

use super::Protocol;
use super::known::Known;
use super::server::Server;
use crate::values::Template;
use crate::zones::{Saved, ZoneTable};

/// The state that survives reloads, kept by the group's name.
#[derive(Debug, Default)]
struct Lasting {
    group: Arc<GroupState>,
    kept: Arc<Count>,
}

impl Lasting {
    /// The state of the group with this key: that of the running configuration, that of an old binary, or a new one.
    fn of(key: &str, zones: &mut ZoneTable) -> Arc<Lasting> {
        let arrived = zones.arrived(key);
        let lasting = zones.keep(key, || {
            let lasting = Lasting::default();
            if let Some(saved) = arrived {
                lasting.group.restore(&saved, now());
            }
            lasting
        });
        zones.carry(key, &lasting, |lasting| lasting.group.save(now()).map(Saved::new));
        lasting
    }
}

/// A group of servers, declared by an `upstream` block or implied by an address.
pub struct Upstream<P: Protocol> {
    /// The servers, and the method of choosing one.
    pub group: Group,
    /// How many connections are kept, and how long.
    pub keepalive: KeepAlive,
    /// The number of connections that are kept, for [`Pool::release`](freerun_upstream::pool::Pool::release).
    pub kept: Arc<Count>,
    /// Whether an `upstream` block declares the group.
    pub declared: bool,
    /// The text that the method hashes.
    pub(super) key: Option<Template<P::Subject>>,
    /// The data of the protocol's groups besides that.
    pub extra: P::Extra,
    servers: Vec<(Server, Option<Arc<Known>>)>,
    resolver: Option<Resolving>,
}

// Not derived, because that would demand the trait of the subject.
impl<P: Protocol> fmt::Debug for Upstream<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Upstream");
        shown.field("group", &self.group).field("keepalive", &self.keepalive).field("servers", &self.servers);
        shown.field("key", &self.key).field("extra", &self.extra).finish_non_exhaustive()
    }
}

/// The resolver for names, and how long an answer may take.
pub type Resolving = (Arc<Resolver>, Duration);

/// The parts that a group is made of.
pub struct Plan<P: Protocol> {
    /// The method of choosing a server.
    pub settings: GroupSettings,
    /// The text that the method hashes.
    pub key: Option<Template<P::Subject>>,
    /// How many connections are kept, and how long.
    pub keepalive: KeepAlive,
    /// The servers as they are written.
    pub servers: Vec<Server>,
    /// The resolver for names of servers, if `resolver` sets one.
    pub resolver: Option<Resolving>,
    /// The data of the protocol's groups besides that.
    pub extra: P::Extra,
}

// Not derived, because that would demand the trait of the subject.
impl<P: Protocol> Default for Plan<P> {
    fn default() -> Plan<P> {
        Plan {
            settings: GroupSettings::default(),
            key: None,
            keepalive: KeepAlive::default(),
            servers: Vec::new(),
            resolver: None,
            extra: P::Extra::default(),
        }
    }
}

impl<P: Protocol> Upstream<P> {
    /// A group that continues the group with the same name in the running configuration.
    pub(super) fn new(name: &str, declared: bool, plan: Plan<P>, zones: &mut ZoneTable) -> Upstream<P> {
        let Plan { settings, key, keepalive, servers, resolver, extra } = plan;
        let kind = if declared { "upstream" } else { "address" };
        let lasting = Lasting::of(&format!("{} {kind} {name}", P::NAME), zones);
        let asked = resolver.as_ref().map(|(resolver, _)| resolver.spec().to_string()).unwrap_or_default();
        let known = |server: &Server| {
            let Place::Name(name) = &server.place else { return None };
            let asked = if server.resolve { asked.as_str() } else { "" };
            let service = server.service.as_deref().unwrap_or_default();
            // Without the port: what is known of a name goes on though its port changes.
            Some(zones.keep(&format!("name {} {service} {asked}", name.host), Known::default))
        };
        let known: Vec<_> = servers.iter().map(known).collect();
        let servers: Vec<_> = servers.into_iter().zip(known).collect();
        let group = Group::new(name, settings, lasting.group.clone(), peers(&servers));
        Upstream { group, keepalive, kept: lasting.kept.clone(), declared, key, extra, servers, resolver }
    }

    /// A group of servers that a subject has computed.
    pub(super) fn computed(name: &str, peers: Vec<PeerSpec>) -> Upstream<P> {
        Upstream {
            group: Group::new(name, GroupSettings::default(), Arc::default(), peers),
            keepalive: KeepAlive::default(),
            kept: Arc::default(),
            declared: false,
            key: None,
            extra: P::Extra::default(),
            servers: Vec::new(),
            resolver: None,
        }
    }

    /// The name of the group: that of the block, or host and port.
    pub fn name(&self) -> &Arc<str> {
        &self.group.name
    }

    /// The servers as they are written, and whether any address of each is known.
    pub fn servers(&self) -> impl Iterator<Item = (&Server, bool)> {
        self.servers.iter().map(|(server, known)| {
            (server, known.as_ref().is_none_or(|known| known.targets().is_some_and(|targets| !targets.is_empty())))
        })
    }

    /// The servers that are written as names, with their numbers.
    pub(super) fn named(&self) -> impl Iterator<Item = (usize, (&Server, &Arc<Known>))> {
        self.servers.iter().enumerate().filter_map(|(index, (server, known))| Some((index, (server, known.as_ref()?))))
    }

    /// The server with this number, if it is written as a name.
    pub(super) fn server(&self, index: usize) -> Option<(&Server, &Arc<Known>)> {
        let (server, known) = self.servers.get(index)?;
        Some((server, known.as_ref()?))
    }

    /// The resolver for names, and how long an answer may take.
    pub(super) fn resolver(&self) -> Option<(&Arc<Resolver>, Duration)> {
        self.resolver.as_ref().map(|(resolver, timeout)| (resolver, *timeout))
    }

    /// Replaces the servers by those of the currently known addresses, if they differ. The addresses of a name may be
    /// shared with other groups, and have been found for one of them.
    pub(super) fn rebuild(&self) {
        let peers = peers(&self.servers);
        if !self.has(&peers) {
            self.group.replace(peers);
        }
    }

    /// Whether it has exactly these servers, in any order: name servers change the order with each answer.
    pub(super) fn has(&self, peers: &[PeerSpec]) -> bool {
        let set = self.group.peers();
        let now: HashSet<_> =
            set.peers().map(|peer| (&peer.address, peer.settings.weight, peer.settings.backup)).collect();
        let then: HashSet<_> =
            peers.iter().map(|spec| (&spec.address, spec.settings.weight, spec.settings.backup)).collect();
        set.peers().count() == peers.len() && now == then
    }
}

/// The servers of the group, as far as their addresses are known.
fn peers(servers: &[(Server, Option<Arc<Known>>)]) -> Vec<PeerSpec> {
    let mut all = Vec::new();
    for (server, known) in servers {
        match (&server.place, known) {
            (Place::Address(address), _) => all.push(spec(server, address.clone(), server.settings.clone())),
            (Place::Name(name), Some(known)) => {
                for target in known.targets().iter().flat_map(|targets| targets.iter()) {
                    let mut address = target.address;
                    if server.service.is_none() {
                        address.set_port(name.port);
                    }
                    let mut settings = server.settings.clone();
                    // For a backup server with several services, those with the best priority are the backup.
                    if target.later && settings.backup {
                        continue;
                    }
                    settings.backup |= target.later;
                    settings.weight = settings.weight.saturating_mul(target.weight);
                    all.push(spec(server, address.into(), settings));
                }
            }
            (Place::Name(_), None) => {}
        }
    }
    all
}

fn spec(server: &Server, address: UpstreamAddress, settings: PeerSettings) -> PeerSpec {
    PeerSpec { address, server: server.text.clone(), settings }
}
