//! Groups of addresses and names that subjects compute. They are kept, so that subjects that compute the same name
//! share the state of its servers, and the connections to them.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_upstream::PeerSpec;

use super::SubjectProtocol;
use super::group::Upstream;

/// The number of parts of the table: adding a group copies one of them.
const PARTS: usize = 32;

/// The largest number of groups in a part, which makes about two thousand in all. When it is full, one group is
/// dropped.
const PART_SIZE: usize = 64;

/// The groups of each resolver, by the names that it was asked for.
type GroupsByResolver<P> = HashMap<u64, HashMap<Box<str>, Arc<Upstream<P>>>>;
type GroupShard<P> = ArcSwap<GroupsByResolver<P>>;

/// The groups, by the computed text.
#[derive(Debug)]
pub(super) struct ComputedGroups<P: SubjectProtocol>([GroupShard<P>; PARTS]);

impl<P: SubjectProtocol> Default for ComputedGroups<P> {
    fn default() -> ComputedGroups<P> {
        ComputedGroups(std::array::from_fn(|_| ArcSwap::from_pointee(GroupsByResolver::new())))
    }
}

impl<P: SubjectProtocol> ComputedGroups<P> {
    /// The group of `name`, with these servers, as the resolver `asked` has returned them ([`Resolver::id`]; 0 if the
    /// name is an address). Each resolver has its own group for a name. Never waits.
    ///
    /// [`Resolver::id`]: freerun_upstream::resolve::Resolver::id
    pub(super) fn group(&self, name: &str, asked: u64, peers: Vec<PeerSpec>) -> Arc<Upstream<P>> {
        let find = |known: &GroupsByResolver<P>| known.get(&asked)?.get(name).cloned();
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        let part = &self.0[hash as usize % PARTS];
        if let Some(known) = find(&part.load()) {
            if !known.has(&peers) {
                known.group.replace(peers);
            }
            return known;
        }
        let new = Arc::new(Upstream::computed(name, peers));
        let mut kept = new.clone();
        part.rcu(|before| {
            let mut next = GroupsByResolver::<P>::clone(before);
            if let Some(known) = find(&next) {
                // Another loop was faster.
                kept = known;
                return next;
            }
            if size(&next) >= PART_SIZE {
                forget_one(&mut next);
            }
            next.entry(asked).or_default().insert(name.into(), new.clone());
            debug_assert!(size(&next) <= PART_SIZE, "a part of the table has outgrown its limit");
            kept = new.clone();
            next
        });
        kept
    }

    /// All groups, by name; those with the same name in a fixed order of their resolvers.
    pub(super) fn all(&self) -> Vec<Arc<Upstream<P>>> {
        let mut all: Vec<(u64, Arc<Upstream<P>>)> = Vec::new();
        for part in &self.0 {
            for (asked, groups) in part.load().iter() {
                all.extend(groups.values().map(|group| (*asked, group.clone())));
            }
        }
        all.sort_by(|(one, group), (other, next)| group.name().cmp(next.name()).then(one.cmp(other)));
        all.into_iter().map(|(_, group)| group).collect()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.iter().map(|part| size(&part.load())).sum()
    }
}

fn size<P: SubjectProtocol>(known: &GroupsByResolver<P>) -> usize {
    known.values().map(HashMap::len).sum()
}

/// Drops any one of the groups.
fn forget_one<P: SubjectProtocol>(known: &mut GroupsByResolver<P>) {
    let Some((asked, groups)) = known.iter_mut().next() else { return };
    let (asked, any) = (*asked, groups.keys().next().cloned());
    if let Some(any) = any {
        groups.remove(&any);
    }
    if groups.is_empty() {
        known.remove(&asked);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use freerun_runtime::log::Level;
    use freerun_upstream::UpstreamAddress;

    use super::*;
    use crate::configuration::services::Services;
    use crate::listen::address::Address;
    use crate::values::captures::Captures;
    use crate::values::subject::Subject;

    /// A subject without properties: the table uses only names and servers.
    struct Nobody;

    impl Subject for Nobody {
        fn context(&self) -> String {
            String::new()
        }

        fn peer(&self) -> &Address {
            unreachable!()
        }

        fn local(&self) -> Address {
            unreachable!()
        }

        fn captures(&self) -> &Captures {
            unreachable!()
        }

        fn services(&self) -> &Services {
            unreachable!()
        }

        fn log(&self, _: Level, _: fmt::Arguments<'_>) {}

        fn is_logged(&self) -> bool {
            false
        }
    }

    #[derive(Debug, Clone, Default)]
    struct Silence;

    impl SubjectProtocol for Silence {
        type Subject = Nobody;
        type Extra = ();

        const NAME: &'static str = "silence";
        const DEFAULT_PORT: Option<u16> = None;
    }

    fn peers(lasts: &[u8]) -> Vec<PeerSpec> {
        let spec = |last: &u8| PeerSpec {
            address: UpstreamAddress::Ip(([127, 0, 0, *last], 80).into()),
            server: "a.test:80".into(),
            settings: Default::default(),
        };
        lasts.iter().map(spec).collect()
    }

    #[test]
    fn the_same_name_is_the_same_group_and_follows_its_addresses() {
        let computed = ComputedGroups::<Silence>::default();
        let first = computed.group("a.test:80", 1, peers(&[1, 2]));
        let again = computed.group("a.test:80", 1, peers(&[2, 1]));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(first.group.replaced(), 0);
        computed.group("a.test:80", 1, peers(&[2, 3]));
        assert_eq!(first.group.replaced(), 1);
        assert_eq!(first.group.peers().peers().count(), 2);
    }

    #[test]
    fn each_resolver_has_its_own_group_of_a_name() {
        let computed = ComputedGroups::<Silence>::default();
        let inside = computed.group("a.test:80", 1, peers(&[1]));
        let outside = computed.group("a.test:80", 2, peers(&[2]));
        assert_eq!((&**inside.name(), inside.group.replaced()), ("a.test:80", 0));
        assert!(outside.has(&peers(&[2])) && inside.has(&peers(&[1])));
    }

    #[test]
    fn the_table_is_bounded() {
        let computed = ComputedGroups::<Silence>::default();
        for n in 0..5000 {
            computed.group(&format!("n{n}.test:80"), n % 3, peers(&[1]));
        }
        assert!(computed.len() <= PARTS * PART_SIZE);
    }
}
