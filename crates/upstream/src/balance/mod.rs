//! Choice of the next server.

#[cfg(test)]
mod bound_tests;
mod cycle;
mod hash;
mod round_robin;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::clock::Millis;
use crate::lease::Lease;
use crate::method::{Method, Two};
use crate::peer::Peer;
use crate::query::{ClientBinding, Query, TriedServers};
use crate::random::Random;
use cycle::{Cycle, CycleChoice, ServerTurn};
use hash::{AddressSequence, Circle, KeySequence, Shares};
use round_robin::{Candidate, Candidates, RoundRobin};

/// Servers that are chosen from together: the primary or the `backup` servers of a group.
#[derive(Debug)]
pub struct Tier {
    /// The servers, in the order of the configuration.
    pub peers: Vec<Arc<Peer>>,
    turns: RoundRobin,
    /// The turns of many servers that all have the same weight.
    cycle: Option<Cycle>,
    shares: Shares,
    circle: Circle,
    /// Indexes of the servers, ordered by the route that clients bound to them present.
    by_route: Box<[u32]>,
    /// Indexes of the servers, ordered by their numbers.
    by_id: Box<[u32]>,
}

impl Tier {
    /// A tier of these servers. Their round robin goes on from the state in `before`.
    pub(crate) fn new(method: Method, peers: Vec<Arc<Peer>>, before: Option<&Tier>) -> Tier {
        let turns = RoundRobin::new(&peers, before.map(|tier| (&tier.turns, &*tier.peers)));
        let in_cycle = before.and_then(|tier| Some((tier.cycle.as_ref()?, &*tier.peers)));
        let cycle = Cycle::new(&peers, in_cycle);
        let circle = if method == Method::ConsistentHash { Circle::new(&peers) } else { Circle::default() };
        let mut by_route: Box<[u32]> = (0..peers.len() as u32).collect();
        let mut by_id = by_route.clone();
        by_route.sort_by(|&a, &b| peers[a as usize].route.cmp(&peers[b as usize].route));
        by_id.sort_by_key(|&index| peers[index as usize].id);
        Tier { turns, cycle, shares: Shares::new(&peers), circle, by_route, by_id, peers }
    }

    /// Chooses the server that a client is bound to, if it can be asked, and counts the connection.
    pub(crate) fn bound(&self, bound: ClientBinding<'_>, now: Millis, tried: &TriedServers) -> Option<Lease> {
        let peer = |index: u32| &self.peers[index as usize];
        let among = match bound {
            ClientBinding::Route(route) => {
                let start = self.by_route.partition_point(|&index| peer(index).route.as_bytes() < route);
                let rest = &self.by_route[start..];
                &rest[..rest.partition_point(|&index| peer(index).route.as_bytes() == route)]
            }
            ClientBinding::Id(id) => {
                let start = self.by_id.partition_point(|&index| peer(index).id < id);
                let rest = &self.by_id[start..];
                &rest[..rest.partition_point(|&index| peer(index).id == id)]
            }
        };
        let open = among.iter().filter(|&&index| {
            let peer = peer(index);
            peer.usable(now) && !peer.full() && !tried.has(peer.id)
        });
        let candidates = open.map(|&index| Candidate { index: index as usize, weight: peer(index).full_weight() });
        self.in_turn(&mut candidates.collect(), now)
    }

    /// Chooses a server by the method and counts the connection.
    pub(crate) fn pick(&self, method: Method, query: &Query<'_>, tried: &TriedServers) -> Option<Lease> {
        match &*self.peers {
            [] => return None,
            // There is nothing to choose, and no state of the choice to keep.
            [only] => {
                only.weight(query.now).filter(|_| !tried.has(only.id))?;
                return Lease::acquire(only, query.now);
            }
            _ => {}
        }
        let drawn = match method {
            // Without a key there are no requests to keep together, so round robin decides, as in nginx.
            Method::Hash | Method::ConsistentHash if query.key.is_empty() => None,
            Method::Hash => self.by_numbers(KeySequence::new(query.key), query.now, tried),
            Method::IpHash => self.by_numbers(AddressSequence::new(query.key), query.now, tried),
            Method::ConsistentHash => self.on_circle(query, tried),
            Method::Random => {
                let mut random = Random::seeded(query.random);
                let total = self.shares.total();
                self.by_numbers(std::iter::repeat_with(|| random.below(total)), query.now, tried)
            }
            Method::RandomTwo(two) => self.best_of_two(two, query, tried),
            Method::RoundRobin | Method::LeastConn | Method::LeastTime { .. } => None,
        };
        if drawn.is_some() {
            return drawn;
        }
        if !matches!(method, Method::LeastConn | Method::LeastTime { .. })
            && let Some(cycle) = &self.cycle
            && let Some(chosen) = self.in_cycle(cycle, query.now, tried)
        {
            return chosen;
        }
        let mut candidates = Candidates::with_capacity(self.peers.len());
        for (index, peer) in self.peers.iter().enumerate() {
            if let Some(weight) = peer.weight(query.now)
                && !tried.has(peer.id)
            {
                candidates.push(Candidate { index, weight });
            }
        }
        match method {
            Method::LeastConn => self.least(&mut candidates, query.now, |peer| u64::from(peer.connections())),
            Method::LeastTime { measure, inflight } => {
                self.least(&mut candidates, query.now, |peer| peer.slowness(measure, inflight, query.now))
            }
            _ => self.in_turn(&mut candidates, query.now),
        }
    }

    /// Chooses the next server in the order of the list. `None`: a server has less than its weight, or another loop has
    /// taken the last connection of the chosen one.
    fn in_cycle(&self, cycle: &Cycle, now: Millis, tried: &TriedServers) -> Option<Option<Lease>> {
        let turn = |index: usize| {
            let peer = &self.peers[index];
            match peer.weight(now) {
                Some(weight) if !tried.has(peer.id) => {
                    if weight == peer.full_weight() {
                        ServerTurn::Takes
                    } else {
                        ServerTurn::Uneven
                    }
                }
                _ => ServerTurn::Passes,
            }
        };
        match cycle.choose(self.peers.len(), turn) {
            CycleChoice::Index(index) => Lease::acquire(&self.peers[index], now).map(Some),
            CycleChoice::None => Some(None),
            CycleChoice::Uneven => None,
        }
    }

    /// Chooses the candidate whose turn it is. Another loop may take the last connection of the chosen one, so each
    /// round has one candidate less.
    fn in_turn(&self, candidates: &mut Candidates, now: Millis) -> Option<Lease> {
        loop {
            let chosen = self.turns.next(candidates)?;
            if let Some(lease) = Lease::acquire(&self.peers[chosen.index], now) {
                return Some(lease);
            }
            candidates.retain(|candidate| candidate.index != chosen.index);
        }
    }

    /// Chooses the candidate with the least cost in proportion to its weight; candidates of equal cost take turns.
    fn least(&self, candidates: &mut Candidates, now: Millis, cost: impl Fn(&Peer) -> u64) -> Option<Lease> {
        loop {
            let mut best: Candidates = Candidates::new();
            let mut least = (0u64, 1u32);
            for candidate in candidates.iter() {
                let own = (cost(&self.peers[candidate.index]), candidate.weight.max(1));
                let order = if best.is_empty() { Ordering::Less } else { cheaper(own, least) };
                if order == Ordering::Less {
                    best.clear();
                    least = own;
                }
                if order != Ordering::Greater {
                    best.push(*candidate);
                }
            }
            let chosen = self.turns.next(&best)?;
            if let Some(lease) = Lease::acquire(&self.peers[chosen.index], now) {
                return Some(lease);
            }
            candidates.retain(|candidate| candidate.index != chosen.index);
        }
    }

    /// The server at this index, if it could be asked now, leaving turns aside.
    fn open(&self, index: usize, now: Millis, tried: &TriedServers) -> Option<&Arc<Peer>> {
        self.peers.get(index).filter(|peer| peer.open(now) && !tried.has(peer.id))
    }

    /// Chooses the first server that can be asked among the owners of the numbers.
    fn by_numbers(&self, numbers: impl Iterator<Item = u64>, now: Millis, tried: &TriedServers) -> Option<Lease> {
        let total = self.shares.total().max(1);
        let mut owners = numbers.take(hash::TRIES as usize).map(|number| self.shares.owner(number % total));
        owners.find_map(|index| Lease::acquire(self.open(index, now, tried)?, now))
    }

    /// Chooses the first server that can be asked from the key's place on the circle; the addresses of a name take
    /// turns.
    fn on_circle(&self, query: &Query<'_>, tried: &TriedServers) -> Option<Lease> {
        self.circle.from(query.key).take(hash::TRIES as usize).find_map(|server| {
            let open = server.iter().filter(|&&index| self.open(index as usize, query.now, tried).is_some());
            let candidate = |&index: &u32| {
                let weight = self.peers[index as usize].full_weight();
                Candidate { index: index as usize, weight }
            };
            self.in_turn(&mut open.map(candidate).collect(), query.now)
        })
    }

    /// Chooses the better of two servers drawn at random.
    fn best_of_two(&self, two: Two, query: &Query<'_>, tried: &TriedServers) -> Option<Lease> {
        let mut random = Random::seeded(query.random);
        let mut first = None;
        for _ in 0..hash::TRIES {
            let index = self.shares.owner(random.below(self.shares.total()));
            let Some(peer) = self.open(index, query.now, tried) else { continue };
            let Some((other, before)) = first else {
                first = Some((index, peer));
                continue;
            };
            if other == index {
                continue;
            }
            let cost = |peer: &Peer| {
                let cost = match two {
                    Two::LeastConn => u64::from(peer.connections()),
                    Two::LeastTime(measure) => peer.slowness(measure, false, query.now),
                };
                (cost, peer.configured())
            };
            let better = if cheaper(cost(peer), cost(before)) == Ordering::Less { peer } else { before };
            return Lease::acquire(better, query.now);
        }
        None
    }
}

/// Compares two costs, each in proportion to a weight.
fn cheaper(one: (u64, u32), other: (u64, u32)) -> Ordering {
    (u128::from(one.0) * u128::from(other.1)).cmp(&(u128::from(other.0) * u128::from(one.1)))
}
