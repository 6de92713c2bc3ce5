//! The servers of a group as they are written, which may change while the group serves.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arc_swap::ArcSwap;
use freerun_upstream::live::next_id;
use freerun_upstream::place::ServerPlace;

use super::SubjectProtocol;
use super::group::Upstream;
use super::known_addresses::KnownAddresses;
use super::server::ServerSetting;

/// A server as it is written, in the list of a group.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// A number that no other entry of the configuration has, and no server of the process. It goes on over a reload if the
    /// server is still there.
    pub number: u32,
    /// The server.
    pub server: ServerSetting,
    /// The addresses of its name, if it is written as one.
    pub(super) known: Option<Arc<KnownAddresses>>,
}

impl ServerEntry {
    /// An entry for a server that is added while the group serves.
    pub fn new(server: ServerSetting) -> ServerEntry {
        let known = matches!(server.place, ServerPlace::Name(_)).then(Arc::default);
        ServerEntry { number: next_id(), server, known }
    }

    /// The entry with another server in its place. What is known of a name goes on if the name stays.
    #[must_use]
    pub fn with_server(&self, server: ServerSetting) -> ServerEntry {
        let asked = |server: &ServerSetting| match &server.place {
            ServerPlace::Name(name) => Some((name.host.clone(), server.service.clone(), server.resolve)),
            ServerPlace::Address(_) => None,
        };
        if asked(&server) == asked(&self.server) {
            ServerEntry { server, ..self.clone() }
        } else {
            ServerEntry { number: self.number, ..ServerEntry::new(server) }
        }
    }

    /// The addresses of its name with the entry's number, if it is written as a name.
    pub(super) fn name(&self) -> Option<EntryName> {
        Some(EntryName { number: self.number, known: self.known.clone()? })
    }
}

/// The entries for these servers, with the known addresses of their names, instead of the entries `before`. A server that was
/// among them keeps its number, whatever else has changed about it.
pub(super) fn continued(
    servers: Vec<(ServerSetting, Option<Arc<KnownAddresses>>)>,
    before: &[ServerEntry],
) -> Vec<ServerEntry> {
    let same = |server: &ServerSetting| (server.place.clone(), server.service.clone());
    let mut numbers: HashMap<_, VecDeque<u32>> = HashMap::new();
    for entry in before {
        numbers.entry(same(&entry.server)).or_default().push_back(entry.number);
    }
    let entry = |(server, known)| {
        let number = numbers.get_mut(&same(&server)).and_then(VecDeque::pop_front);
        ServerEntry { number: number.unwrap_or_else(next_id), server, known }
    };
    servers.into_iter().map(entry).collect()
}

/// The name that an entry is written as, for the task that looks it up: an entry that gets another name has another one.
#[derive(Debug, Clone)]
pub(super) struct EntryName {
    pub(super) number: u32,
    /// The addresses.
    pub(super) known: Arc<KnownAddresses>,
}

impl PartialEq for EntryName {
    fn eq(&self, other: &EntryName) -> bool {
        self.number == other.number && Arc::ptr_eq(&self.known, &other.known)
    }
}

/// The list of a group. Configurations that have the same group with the same `state` share it, also while one is built to
/// replace the other. A change of the list is in the groups of all of them when it is done.
pub(super) struct Entries<P: SubjectProtocol> {
    list: ArcSwap<Vec<ServerEntry>>,
    /// The groups that have joined. Locked while the list, or the servers of a group that it stands for, are replaced: one
    /// change is over before the next one begins. No loop takes it.
    groups: Mutex<Vec<Weak<Upstream<P>>>>,
}

// Not derived, because that would demand the trait of the subject.
impl<P: SubjectProtocol> fmt::Debug for Entries<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.load().fmt(formatter)
    }
}

/// The right to change a list, with the groups that have joined.
pub(super) type ChangeLock<'e, P> = MutexGuard<'e, Vec<Weak<Upstream<P>>>>;

impl<P: SubjectProtocol> Entries<P> {
    /// A list with these entries.
    pub(super) fn new(list: Vec<ServerEntry>) -> Entries<P> {
        Entries { list: ArcSwap::from_pointee(list), groups: Mutex::default() }
    }

    /// The entries as they are now.
    pub(super) fn load(&self) -> Arc<Vec<ServerEntry>> {
        self.list.load_full()
    }

    /// Waits until nobody else changes anything.
    pub(super) fn lock(&self) -> ChangeLock<'_, P> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the entries.
    pub(super) fn store(&self, _: &ChangeLock<'_, P>, list: Vec<ServerEntry>) {
        self.list.store(Arc::new(list));
    }
}

#[cfg(test)]
mod tests {
    use freerun_upstream::PeerSettings;

    use super::*;

    fn servers(texts: &[&str]) -> Vec<(ServerSetting, Option<Arc<KnownAddresses>>)> {
        let server = |text: &&str| ServerSetting::new(text, Some(80), None, false, PeerSettings::default()).unwrap();
        texts.iter().map(|text| (server(text), None)).collect()
    }

    #[test]
    fn servers_that_stay_keep_their_numbers() {
        let numbers = |entries: &[ServerEntry]| -> Vec<u32> { entries.iter().map(|entry| entry.number).collect() };
        let before = continued(servers(&["10.0.0.1", "10.0.0.2", "10.0.0.2", "a.test"]), &[]);
        let [one, two, again, name] = numbers(&before)[..] else { panic!("{before:?}") };
        let after = continued(servers(&["a.test:80", "10.0.0.3", "10.0.0.2:80", "10.0.0.2", "10.0.0.2"]), &before);
        let [name_then, new, two_then, again_then, third] = numbers(&after)[..] else { panic!("{after:?}") };
        assert_eq!((name_then, two_then, again_then), (name, two, again));
        let known = [one, two, again, name];
        assert!(!known.contains(&new) && !known.contains(&third) && new != third, "{after:?}");
    }
}
