//! Groups of addresses and names that requests compute: kept, so that requests that compute the same share what is known of
//! the servers, and their idle connections.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use arc_swap::ArcSwap;
use freerun_upstream::PeerSpec;

use crate::upstream::group::Upstream;

/// How many parts the table has: adding a group copies one of them.
const PARTS: usize = 32;

/// Most groups in a part, so some two thousand in all. When it is full, one of them is forgotten.
const PART_SIZE: usize = 64;

/// For each resolver the groups of the names that it was asked for.
type Known = HashMap<u64, HashMap<Box<str>, Arc<Upstream>>>;
type Part = ArcSwap<Known>;

/// The groups, by what was computed.
#[derive(Debug)]
pub(super) struct Computed([Part; PARTS]);

impl Default for Computed {
    fn default() -> Computed {
        Computed(std::array::from_fn(|_| Part::default()))
    }
}

impl Computed {
    /// The group of `name`, with these servers, which `asked` has said ([`Resolver::id`]; 0: the name is an address). Those whom
    /// another resolver names are a group of their own. Never waits.
    ///
    /// [`Resolver::id`]: freerun_upstream::resolve::Resolver::id
    pub(super) fn group(&self, name: &str, asked: u64, peers: Vec<PeerSpec>) -> Arc<Upstream> {
        let find = |known: &Known| known.get(&asked)?.get(name).cloned();
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
            let mut next = Known::clone(before);
            if let Some(known) = find(&next) {
                // Another loop was faster.
                kept = known;
                return next;
            }
            if size(&next) >= PART_SIZE {
                forget_one(&mut next);
            }
            next.entry(asked).or_default().insert(name.into(), new.clone());
            kept = new.clone();
            next
        });
        kept
    }

    /// All of them, by name; those of one name in a fixed order of their resolvers.
    pub(super) fn all(&self) -> Vec<Arc<Upstream>> {
        let mut all: Vec<(u64, Arc<Upstream>)> = Vec::new();
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

fn size(known: &Known) -> usize {
    known.values().map(HashMap::len).sum()
}

/// Forgets any of the groups.
fn forget_one(known: &mut Known) {
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
    use freerun_upstream::UpstreamAddress;

    use super::*;

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
        let computed = Computed::default();
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
        let computed = Computed::default();
        let inside = computed.group("a.test:80", 1, peers(&[1]));
        let outside = computed.group("a.test:80", 2, peers(&[2]));
        assert_eq!((&**inside.name(), inside.group.replaced()), ("a.test:80", 0));
        assert!(outside.has(&peers(&[2])) && inside.has(&peers(&[1])));
    }

    #[test]
    fn the_table_is_bounded() {
        let computed = Computed::default();
        for n in 0..5000 {
            computed.group(&format!("n{n}.test:80"), n % 3, peers(&[1]));
        }
        assert!(computed.len() <= PARTS * PART_SIZE);
    }
}
