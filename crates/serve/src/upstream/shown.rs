//! The groups of all protocols, for those that show them and know no protocol.

use std::sync::Arc;

use freerun_upstream::Group;

use super::Protocol;
use super::registry::Upstreams;

/// The groups of one protocol.
pub trait AnyGroups: Send + Sync {
    /// Shows each group of the configuration: whether a block declares it, and its servers of which no address is known. They are
    /// in no fixed order.
    fn each(&self, show: &mut dyn FnMut(&Group, bool, Vec<String>));

    /// Shows each group that subjects have computed, by name.
    fn each_computed(&self, show: &mut dyn FnMut(&Group));
}

impl<P: Protocol> AnyGroups for Upstreams<P> {
    fn each(&self, show: &mut dyn FnMut(&Group, bool, Vec<String>)) {
        for upstream in self.all() {
            let unresolved = upstream.servers().filter(|(_, known)| !known).map(|(server, _)| server.text.to_string());
            show(&upstream.group, upstream.declared, unresolved.collect());
        }
    }

    fn each_computed(&self, show: &mut dyn FnMut(&Group)) {
        self.computed().iter().for_each(|upstream| show(&upstream.group));
    }
}

/// The groups of each protocol, by its name ([`Protocol::NAME`]); a part of a generation.
#[derive(Clone, Default)]
pub struct GroupsByProtocol(Vec<(&'static str, Arc<dyn AnyGroups>)>);

impl GroupsByProtocol {
    /// Adds the groups of a protocol.
    pub(super) fn add<P: Protocol>(&mut self, groups: &Arc<Upstreams<P>>) {
        self.0.push((P::NAME, groups.clone()));
    }

    /// The groups of the protocol with this name.
    pub fn of(&self, protocol: &str) -> Option<&dyn AnyGroups> {
        self.0.iter().find(|(name, _)| *name == protocol).map(|(_, groups)| &**groups)
    }
}
