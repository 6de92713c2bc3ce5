//! A group of upstream servers, with all data that a subject which is passed to it needs.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use freerun_upstream::GroupState;
use freerun_upstream::place::ServerPlace;
use freerun_upstream::pool::{IdleCount, KeepAlive};
use freerun_upstream::resolve::Resolver;
use freerun_upstream::{Group, GroupSettings, PeerSettings, PeerSpec, UpstreamAddress, now};

use super::SubjectProtocol;
use super::entries::{ChangeLock, Entries, EntryName, ServerEntry, continued};
use super::known_addresses::KnownAddresses;
use super::server::ServerSetting;
use crate::configuration::state_file::StateFile;
use crate::configuration::zones::{StateBytes, ZoneTable};
use crate::values::Template;

/// The state that survives reloads, kept by the group's name.
#[derive(Debug, Default)]
struct LastingState {
    group: Arc<GroupState>,
    kept: Arc<IdleCount>,
}

impl LastingState {
    /// The state of the group with this key: from the running configuration, from an old binary, or a new one.
    fn of(key: &str, zones: &mut ZoneTable) -> Arc<LastingState> {
        let arrived = zones.arrived(key);
        let lasting = zones.keep(key, || {
            let lasting = LastingState::default();
            if let Some(saved) = arrived {
                lasting.group.restore(&saved, now());
            }
            lasting
        });
        zones.carry(key, &lasting, |lasting| lasting.group.save(now()).map(StateBytes::new));
        lasting
    }
}

/// A group of servers, declared by an `upstream` block or implied by an address.
pub struct Upstream<P: SubjectProtocol> {
    /// The servers, and the method of choosing one.
    pub group: Group,
    /// Number of idle connections that are kept, and their time.
    pub keepalive: KeepAlive,
    /// The number of connections that are kept, for [`Pool::release`](freerun_upstream::pool::Pool::release).
    pub kept: Arc<IdleCount>,
    /// Whether an `upstream` block declares the group.
    pub declared: bool,
    /// The text that the method hashes.
    pub(super) key: Option<Template<P::Subject>>,
    /// The data of the protocol's groups besides that.
    pub extra: P::Extra,
    /// The name of the group's first `zone`: a group that has one can be changed while it serves.
    pub zone: Option<Arc<str>>,
    /// The file that keeps the servers (`state`).
    pub state: Option<Arc<StateFile>>,
    entries: Arc<Entries<P>>,
    resolver: Option<GroupResolver>,
}

// Not derived, because that would demand the trait of the subject.
impl<P: SubjectProtocol> fmt::Debug for Upstream<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Upstream");
        shown.field("group", &self.group).field("keepalive", &self.keepalive).field("entries", &self.entries);
        shown.field("key", &self.key).field("extra", &self.extra).finish_non_exhaustive()
    }
}

/// The resolver for names, and how long an answer may take.
pub type GroupResolver = (Arc<Resolver>, Duration);

/// The parts that a group is made of.
pub struct Plan<P: SubjectProtocol> {
    /// The method of choosing a server.
    pub settings: GroupSettings,
    /// The text that the method hashes.
    pub key: Option<Template<P::Subject>>,
    /// Number of idle connections that are kept, and their time.
    pub keepalive: KeepAlive,
    /// The servers as they are written.
    pub servers: Vec<ServerSetting>,
    /// The resolver for names of servers, if `resolver` sets one.
    pub resolver: Option<GroupResolver>,
    /// The name of the group's first `zone`.
    pub zone: Option<Arc<str>>,
    /// The file that keeps the servers (`state`).
    pub state: Option<StateFile>,
    /// The data of the protocol's groups besides that.
    pub extra: P::Extra,
}

// Not derived, because that would demand the trait of the subject.
impl<P: SubjectProtocol> Default for Plan<P> {
    fn default() -> Plan<P> {
        Plan {
            settings: GroupSettings::default(),
            key: None,
            keepalive: KeepAlive::default(),
            servers: Vec::new(),
            resolver: None,
            zone: None,
            state: None,
            extra: P::Extra::default(),
        }
    }
}

impl<P: SubjectProtocol> Upstream<P> {
    /// A group that continues the group with the same name in the running configuration.
    pub(super) fn new(name: &str, declared: bool, plan: Plan<P>, zones: &mut ZoneTable) -> Arc<Upstream<P>> {
        let Plan { settings, key, keepalive, servers, resolver, zone, state, extra } = plan;
        let kind = if declared { "upstream" } else { "address" };
        let lasting = LastingState::of(&format!("{} {kind} {name}", P::NAME), zones);
        let asked = resolver.as_ref().map(|(resolver, _)| resolver.spec().to_string()).unwrap_or_default();
        let known = |server: &ServerSetting| {
            let ServerPlace::Name(name) = &server.place else { return None };
            let asked = if server.resolve { asked.as_str() } else { "" };
            let service = server.service.as_deref().unwrap_or_default();
            // Without the port: what is known of a name goes on though its port changes.
            Some(zones.keep(&format!("name {} {service} {asked}", name.host), KnownAddresses::default))
        };
        let known: Vec<_> = servers.iter().map(known).collect();
        let list = match &state {
            None => format!("servers of {} {kind} {name}", P::NAME),
            Some(file) => format!("servers of {} in {}", P::NAME, file.path()),
        };
        let running = zones.running::<Entries<P>>(&list);
        let before = running.map(|entries| entries.load()).unwrap_or_default();
        let make = || Entries::new(continued(servers.into_iter().zip(known).collect(), &before));
        let (state, entries) = match state {
            None => (None, zones.renew(&list, make)),
            // The text that was read may be older than the last change: it counts if others have written it.
            Some(file) => {
                let file_key = format!("state of servers {}", file.path());
                match zones.running::<StateFile>(&file_key).filter(|running| !running.is_as_known()) {
                    None => (Some(zones.keep(&file_key, || file)), zones.keep(&list, make)),
                    Some(other) => (Some(zones.renew(&file_key, || file.after(&other))), zones.renew(&list, make)),
                }
            }
        };
        let kept = lasting.kept.clone();
        let mut lock = entries.lock();
        let group = Group::new(name, settings, lasting.group.clone(), peers(&entries.load()));
        let shared = entries.clone();
        let upstream =
            Arc::new(Upstream { group, keepalive, kept, declared, key, extra, zone, state, entries: shared, resolver });
        lock.retain(|group| group.strong_count() > 0);
        lock.push(Arc::downgrade(&upstream));
        drop(lock);
        upstream
    }

    /// A group of servers that a subject has computed.
    pub(super) fn computed(name: &str, peers: Vec<PeerSpec>) -> Upstream<P> {
        Upstream {
            group: Group::new(name, GroupSettings::default(), Arc::default(), peers),
            keepalive: KeepAlive::off(),
            kept: Arc::default(),
            declared: false,
            key: None,
            extra: P::Extra::default(),
            zone: None,
            state: None,
            entries: Arc::new(Entries::new(Vec::new())),
            resolver: None,
        }
    }

    /// The name of the group: the name of the block, or host and port.
    pub fn name(&self) -> &Arc<str> {
        &self.group.name
    }

    /// The servers as they are written.
    pub fn entries(&self) -> Arc<Vec<ServerEntry>> {
        self.entries.load()
    }

    /// The servers as they are written, and whether any address of each is known.
    pub fn servers(&self) -> impl Iterator<Item = (ServerSetting, bool)> {
        let is_known =
            |known: &Arc<KnownAddresses>| known.targets().is_some_and(|targets: Arc<Vec<_>>| !targets.is_empty());
        let all: Vec<_> = self.entries.load().iter().cloned().collect();
        all.into_iter().map(move |entry| (entry.server, entry.known.as_ref().is_none_or(is_known)))
    }

    /// The servers that are written as names, with these names.
    pub(super) fn named(&self) -> Vec<(EntryName, ServerSetting)> {
        self.entries.load().iter().filter_map(|entry| Some((entry.name()?, entry.server.clone()))).collect()
    }

    /// The server whose entry has this name, if there still is one.
    pub(super) fn server(&self, name: &EntryName) -> Option<ServerSetting> {
        let entries = self.entries.load();
        let entry = entries.iter().find(|entry| entry.number == name.number)?;
        (entry.name().as_ref() == Some(name)).then(|| entry.server.clone())
    }

    /// The resolver for names, and how long an answer may take.
    pub(super) fn resolver(&self) -> Option<(&Arc<Resolver>, Duration)> {
        self.resolver.as_ref().map(|(resolver, timeout)| (resolver, *timeout))
    }

    /// Changes the entries by `change`, which has no effect if it returns `false`, and then the servers of all groups that have
    /// these entries. Returns the groups, with the new names, whose addresses have to be looked up.
    pub(super) fn change(
        &self,
        change: &mut dyn FnMut(&mut Vec<ServerEntry>) -> bool,
    ) -> Vec<(Arc<Upstream<P>>, Vec<EntryName>)> {
        let lock = self.entries.lock();
        let before = self.entries.load();
        let mut next = (*before).clone();
        if !change(&mut next) {
            return Vec::new();
        }
        let known: HashMap<u32, &ServerEntry> = before.iter().map(|entry| (entry.number, entry)).collect();
        let old = |name: &EntryName| known.get(&name.number).and_then(|entry| entry.name());
        let is_new = |name: &EntryName| old(name).as_ref() != Some(name);
        let new: Vec<EntryName> = next.iter().filter_map(ServerEntry::name).filter(is_new).collect();
        self.entries.store(&lock, next);
        let groups = lock.iter().filter_map(Weak::upgrade).map(|group| (group, new.clone()));
        groups.inspect(|(group, _)| group.refresh(&lock, false)).collect()
    }

    /// Replaces the servers by servers for the currently known addresses, if they differ. The addresses of a name may be
    /// shared with other groups, and have been found for one of them.
    pub(super) fn rebuild(&self) {
        self.refresh(&self.entries.lock(), true);
    }

    /// Replaces the servers by those that the entries stand for now; with `if_others` only if there are others.
    fn refresh(&self, _: &ChangeLock<'_, P>, if_others: bool) {
        let peers = peers(&self.entries.load());
        if !if_others || !self.has(&peers) {
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
fn peers(entries: &[ServerEntry]) -> Vec<PeerSpec> {
    let mut all = Vec::new();
    for ServerEntry { number, server, known } in entries {
        let settings = || PeerSettings { entry: *number, ..server.settings.clone() };
        match (&server.place, known) {
            (ServerPlace::Address(address), _) => all.push(spec(server, address.clone(), settings())),
            (ServerPlace::Name(name), Some(known)) => {
                for target in known.targets().iter().flat_map(|targets| targets.iter()) {
                    let mut address = target.address;
                    if server.service.is_none() {
                        address.set_port(name.port);
                    }
                    let mut settings = settings();
                    // For a backup server with several services, those with the best priority are the backup.
                    if target.later && settings.backup {
                        continue;
                    }
                    settings.backup |= target.later;
                    settings.weight = settings.weight.saturating_mul(target.weight);
                    all.push(spec(server, address.into(), settings));
                }
            }
            (ServerPlace::Name(_), None) => {}
        }
    }
    all
}

fn spec(server: &ServerSetting, address: UpstreamAddress, settings: PeerSettings) -> PeerSpec {
    PeerSpec { address, server: server.text.clone(), settings }
}
