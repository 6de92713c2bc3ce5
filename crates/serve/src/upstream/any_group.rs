//! The groups of all protocols, for those that show and change them and know no protocol.

use std::sync::Arc;

use freerun_runtime::log::ErrorLog;
use freerun_upstream::Group;

use super::SubjectProtocol;
use super::entries::ServerEntry;
use super::group::Upstream;
use super::names::look_up_one;
use super::registry::Upstreams;
use crate::configuration::state_file::StateFile;

/// A group of servers of any protocol.
pub trait AnyGroup: Send + Sync {
    /// The servers.
    fn group(&self) -> &Group;

    /// Whether a block declares it.
    fn is_declared(&self) -> bool;

    /// The name of its zone; a group that has one can be changed.
    fn zone(&self) -> Option<&Arc<str>>;

    /// The file that keeps its servers, if there is one.
    fn state(&self) -> Option<&Arc<StateFile>>;

    /// The servers as they are written.
    fn entries(&self) -> Arc<Vec<ServerEntry>>;

    /// The servers without a known address, as they are written.
    fn unresolved(&self) -> Vec<String>;

    /// Whether it has a resolver for names.
    fn resolves(&self) -> bool;

    /// The port of servers that are written without one; `None`: it is required.
    fn default_port(&self) -> Option<u16>;

    /// Changes the servers as `change` changes the entries; none, if that returns `false`. The change is in effect when this
    /// returns, also in other configurations that keep the servers in the same file. It waits for others who change the group
    /// at the same time, so a loop never calls it; names are looked up elsewhere.
    fn change(self: Arc<Self>, log: &ErrorLog, change: &mut dyn FnMut(&mut Vec<ServerEntry>) -> bool);
}

impl<P: SubjectProtocol> AnyGroup for Upstream<P> {
    fn group(&self) -> &Group {
        &self.group
    }

    fn is_declared(&self) -> bool {
        self.declared
    }

    fn zone(&self) -> Option<&Arc<str>> {
        self.zone.as_ref()
    }

    fn state(&self) -> Option<&Arc<StateFile>> {
        self.state.as_ref()
    }

    fn entries(&self) -> Arc<Vec<ServerEntry>> {
        Upstream::entries(self)
    }

    fn unresolved(&self) -> Vec<String> {
        self.servers().filter(|(_, known)| !known).map(|(server, _)| server.text.to_string()).collect()
    }

    fn resolves(&self) -> bool {
        self.resolver().is_some()
    }

    fn default_port(&self) -> Option<u16> {
        P::DEFAULT_PORT
    }

    fn change(self: Arc<Self>, log: &ErrorLog, change: &mut dyn FnMut(&mut Vec<ServerEntry>) -> bool) {
        for (group, names) in Upstream::change(&self, change) {
            for name in names {
                look_up_one(&group, name, log, None);
            }
        }
    }
}

/// The groups of one protocol.
pub trait AnyGroups: Send + Sync {
    /// The groups of the configuration, in no fixed order.
    fn all(&self) -> Vec<Arc<dyn AnyGroup>>;

    /// The number of these groups and of their servers, for an estimate of the length of an answer.
    fn count(&self) -> usize;

    /// The group that a block of this name declares.
    fn declared(&self, name: &str) -> Option<Arc<dyn AnyGroup>>;

    /// Shows each group that subjects have computed, by name.
    fn each_computed(&self, show: &mut dyn FnMut(&Group));
}

impl<P: SubjectProtocol> AnyGroups for Upstreams<P> {
    fn all(&self) -> Vec<Arc<dyn AnyGroup>> {
        Upstreams::all(self).map(|group| group.clone() as Arc<dyn AnyGroup>).collect()
    }

    fn count(&self) -> usize {
        let all = Upstreams::all(self);
        all.map(|upstream| 1 + upstream.group.peers().peers().count().max(upstream.entries().len())).sum()
    }

    fn declared(&self, name: &str) -> Option<Arc<dyn AnyGroup>> {
        Upstreams::declared(self, name).map(|group| group.clone() as Arc<dyn AnyGroup>)
    }

    fn each_computed(&self, show: &mut dyn FnMut(&Group)) {
        self.computed().iter().for_each(|upstream| show(&upstream.group));
    }
}

/// The groups of each protocol, by its name ([`SubjectProtocol::NAME`]); a part of a generation.
#[derive(Clone, Default)]
pub struct GroupsByProtocol(Vec<(&'static str, Arc<dyn AnyGroups>)>);

impl GroupsByProtocol {
    /// Adds the groups of a protocol.
    pub(super) fn add<P: SubjectProtocol>(&mut self, groups: &Arc<Upstreams<P>>) {
        self.0.push((P::NAME, groups.clone()));
    }

    /// The groups of the protocol with this name.
    pub fn of(&self, protocol: &str) -> Option<&dyn AnyGroups> {
        self.0.iter().find(|(name, _)| *name == protocol).map(|(_, groups)| &**groups)
    }

    /// The number of groups of all protocols, and of their servers.
    pub fn count(&self) -> usize {
        self.0.iter().map(|(_, groups)| groups.count()).sum()
    }
}
