//! A group with all that requests need of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::Place as At;
use freerun_http::zones::ZoneTable;
use freerun_upstream::GroupState;
use freerun_upstream::idle::{Count, KeepAlive};
use freerun_upstream::place::Place;
use freerun_upstream::resolve::Resolver;
use freerun_upstream::{Group, GroupSettings, PeerSettings, PeerSpec, UpstreamAddress};

use crate::upstream::methods::Choice;
use crate::upstream::names::Known;
use crate::upstream::server::Server;

/// What goes on over reloads: kept by the group's name.
#[derive(Debug, Default)]
struct Lasting {
    group: Arc<GroupState>,
    idle: Arc<Count>,
}

/// A group of servers, declared by an `upstream` block or implied by an address.
#[derive(Debug)]
pub struct Upstream {
    /// The servers, and how one is chosen.
    pub group: Group,
    /// How connections are kept.
    pub keepalive: KeepAlive,
    /// How many are idle, for [`Idle::put`](freerun_upstream::idle::Idle::put).
    pub idle: Arc<Count>,
    /// Whether an `upstream` block declares it.
    pub declared: bool,
    /// What a choice depends on, apart from the servers.
    pub choice: Choice,
    servers: Vec<(Server, Option<Arc<Known>>)>,
    resolver: Option<(Arc<Resolver>, Duration)>,
}

/// What a group is made of.
pub(super) struct Plan<'a> {
    pub(super) name: &'a str,
    pub(super) declared: bool,
    /// How a server is chosen, and what that depends on.
    pub(super) settings: (GroupSettings, Choice),
    pub(super) keepalive: KeepAlive,
    pub(super) servers: Vec<Server>,
    /// Who is asked for names, and how long that may take.
    pub(super) resolver: Option<(Arc<Resolver>, Duration)>,
}

impl Upstream {
    /// A group that continues the one of its name in the running configuration.
    pub(super) fn new(plan: Plan<'_>, zones: &mut ZoneTable) -> Upstream {
        let Plan { name, declared, settings: (settings, choice), keepalive, servers, resolver } = plan;
        let kind = if declared { "upstream" } else { "address" };
        let lasting: Arc<Lasting> = zones.keep(&format!("{kind} {name}"), Lasting::default);
        let asked = resolver.as_ref().map(|(resolver, _)| resolver.spec().to_string()).unwrap_or_default();
        let known = |server: &Server| {
            let Place::Name(name) = &server.place else { return None };
            let asked = if server.resolve { asked.as_str() } else { "" };
            let service = server.service.as_deref().unwrap_or_default();
            Some(zones.keep(&format!("name {name} {service} {asked}"), Known::default))
        };
        let known: Vec<_> = servers.iter().map(known).collect();
        let servers: Vec<_> = servers.into_iter().zip(known).collect();
        let group = Group::new(name, settings, lasting.group.clone(), peers(&servers));
        Upstream { group, keepalive, idle: lasting.idle.clone(), declared, choice, servers, resolver }
    }

    /// A group of servers that a request has computed.
    pub(super) fn computed(name: &str, peers: Vec<PeerSpec>) -> Upstream {
        Upstream {
            group: Group::new(name, GroupSettings::default(), Arc::default(), peers),
            keepalive: KeepAlive::default(),
            idle: Arc::default(),
            declared: false,
            choice: Choice::default(),
            servers: Vec::new(),
            resolver: None,
        }
    }

    /// Its name: that of the block, or host and port.
    pub fn name(&self) -> &Arc<str> {
        &self.group.name
    }

    /// Its servers as they are written, and whether any address of each is known.
    pub fn servers(&self) -> impl Iterator<Item = (&Server, bool)> {
        self.servers.iter().map(|(server, known)| {
            (server, known.as_ref().is_none_or(|known| known.targets().is_some_and(|targets| !targets.is_empty())))
        })
    }

    /// The servers that are written as names, with their numbers.
    pub(super) fn named(&self) -> impl Iterator<Item = (usize, (&Server, &Arc<Known>))> {
        self.servers.iter().enumerate().filter_map(|(index, (server, known))| Some((index, (server, known.as_ref()?))))
    }

    /// One of them.
    pub(super) fn server(&self, index: usize) -> Option<(&Server, &Arc<Known>)> {
        let (server, known) = self.servers.get(index)?;
        Some((server, known.as_ref()?))
    }

    /// Who is asked for names, and how long that may take.
    pub(super) fn resolver(&self) -> Option<(&Arc<Resolver>, Duration)> {
        self.resolver.as_ref().map(|(resolver, timeout)| (resolver, *timeout))
    }

    /// Takes over what is known of names now, if that is something else than before. What is known of a name may be
    /// shared with other groups, and have come from there.
    pub(super) fn rebuild(&self) {
        let peers = peers(&self.servers);
        if !self.has(&peers) {
            self.group.replace(peers);
        }
    }

    /// Whether it has exactly these servers, in whatever order: name servers change it with each answer.
    pub(super) fn has(&self, peers: &[PeerSpec]) -> bool {
        let set = self.group.peers();
        let now: HashSet<_> =
            set.peers().map(|peer| (&peer.address, peer.settings.weight, peer.settings.backup)).collect();
        let then: HashSet<_> =
            peers.iter().map(|spec| (&spec.address, spec.settings.weight, spec.settings.backup)).collect();
        set.peers().count() == peers.len() && now == then
    }
}

/// The servers that those written stand for, as far as their addresses are known.
fn peers(servers: &[(Server, Option<Arc<Known>>)]) -> Vec<PeerSpec> {
    let mut all = Vec::new();
    for (server, known) in servers {
        match (&server.place, known) {
            (Place::Address(address), _) => all.push(spec(server, address.clone(), server.settings.clone())),
            (Place::Name(_), Some(known)) => {
                for target in known.targets().iter().flat_map(|targets| targets.iter()) {
                    let mut settings = server.settings.clone();
                    // Of a backup server's services, those of the best priority are the backup.
                    if target.later && settings.backup {
                        continue;
                    }
                    settings.backup |= target.later;
                    settings.weight = settings.weight.saturating_mul(target.weight);
                    all.push(spec(server, target.address.into(), settings));
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

/// A server for an address without parameters.
pub(super) fn plain(place: Place, written: At) -> Server {
    let text = place.to_string().into();
    Server { place, text, written, settings: PeerSettings::default(), resolve: false, service: None }
}
